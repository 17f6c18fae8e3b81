// Writes the types of REST's answers, made from the OpenAPI document, for the type checker alone.

import { readFileSync, writeFileSync } from "node:fs";

/** Returns the TypeScript type of a JSON schema. */
export function typeOf(schema) {
  if (schema === undefined || schema === true) return "unknown";
  if (schema.$ref) return schema.$ref.split("/").at(-1);
  if (schema.enum) return schema.enum.map((each) => JSON.stringify(each)).join(" | ");
  const options = schema.anyOf ?? schema.oneOf;
  if (options) return options.map(typeOf).join(" | ");
  if (schema.type === "array") return `(${typeOf(schema.items)})[]`;
  if (schema.type === "object" && schema.properties) return fieldsOf(schema);
  if (schema.type === "object") {
    const of = schema.additionalProperties;
    return `Record<string, ${of && of !== true ? typeOf(of) : "unknown"}>`;
  }
  const plain = { string: "string", integer: "number", number: "number", boolean: "boolean" };
  return plain[schema.type] ?? (schema.type === "null" ? "null" : "unknown");
}

function fieldsOf(schema) {
  const required = new Set(schema.required ?? []);
  const fields = Object.entries(schema.properties).map(
    ([name, type]) => `${JSON.stringify(name)}${required.has(name) ? "" : "?"}: ${typeOf(type)}`,
  );
  return `{ ${fields.join("; ")} }`;
}

/** Returns the module: a type for each schema, and what each GET of `/api/v1` answers. */
export function typesOf(document) {
  const lines = ["// Made by web/api_types.mjs from docs/reference/openapi.json."];
  for (const [name, schema] of Object.entries(document.components.schemas)) {
    lines.push(`export type ${name} = ${typeOf(schema)};`);
  }
  lines.push("export interface Gets {");
  for (const [path, methods] of Object.entries(document.paths)) {
    const schema = methods.get?.responses["200"].content["application/json"]?.schema;
    if (schema) lines.push(`  ${JSON.stringify(path.replace("/api/v1", ""))}: ${typeOf(schema)};`);
  }
  lines.push("}", "");
  return lines.join("\n");
}

export function writeTypes(from, to) {
  writeFileSync(to, typesOf(JSON.parse(readFileSync(from, "utf8"))));
}
