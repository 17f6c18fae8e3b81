// Builds the dashboard into src/quorate/service/web/built: the same bytes from the same sources.
//
// node build.mjs [FOLDER] writes into FOLDER instead.

import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { copyFileSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";
import { writeTypes } from "./api_types.mjs";

const HERE = dirname(fileURLToPath(import.meta.url));
const OUT = process.argv[2] ?? join(HERE, "../src/quorate/service/web/built");
const BYTES_MAX = 300_000;

/** Returns the files that the built ones are made of, in order; tests/web knows them too. */
function sources() {
  const found = readdirSync(join(HERE, "src"), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name !== "api_types.ts")
    .map((entry) => join(entry.parentPath, entry.name));
  const more = ["build.mjs", "package.json", "package-lock.json", "tsconfig.json"];
  return [...found, ...more.map((name) => join(HERE, name))]
    .map((path) => [relative(HERE, path), path])
    .sort(([one], [other]) => (one < other ? -1 : 1));
}

function digest() {
  const hash = createHash("sha256");
  for (const [name, path] of sources()) hash.update(`${name}\0`).update(readFileSync(path));
  return hash.digest("hex");
}

mkdirSync(OUT, { recursive: true });
writeTypes(join(HERE, "../docs/reference/openapi.json"), join(HERE, "src/api_types.ts"));
execFileSync(join(HERE, "node_modules/.bin/tsc"), ["-p", HERE], { stdio: "inherit" });
await build({
  absWorkingDir: HERE,
  entryPoints: { app: "src/main.tsx" },
  outdir: OUT,
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2022",
  jsx: "automatic",
  jsxImportSource: "preact",
  legalComments: "inline",
  charset: "utf8",
  logLevel: "warning",
});
for (const name of ["index.html", "icon.svg"]) {
  copyFileSync(join(HERE, "src", name), join(OUT, name));
}
writeFileSync(join(OUT, "sources.sha256"), `${digest()}\n`);
const files = ["index.html", "icon.svg", "app.css", "app.js"];
const bytes = files.map((name) => gzipSync(readFileSync(join(OUT, name)), { level: 9 }).length);
const total = bytes.reduce((sum, each) => sum + each, 0);
console.log(`built ${total} bytes, compressed, of at most ${BYTES_MAX}`);
if (total > BYTES_MAX) process.exit(1);
