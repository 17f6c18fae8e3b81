/** An export checked in the browser: every hash, every event, every lottery (docs/reference/export.md). */

import { type Declared, type Resolved, bytesOf, check, hexOf, sha256 } from "./lottery.ts";
import { type Packed, unpack } from "./msgpack.ts";

interface Line {
  format: string;
  height: number;
  first_seq: number;
  count: number;
  prev_hash: string;
  hash: string;
  body: string;
  events: Record<string, unknown>[];
}

export interface Verified {
  blocks: number;
  events: number;
  hash: string;
  lotteries: number;
}

/** The first thing that is wrong with an export. */
export class BrokenError extends Error {}

const FORMAT = "quorate-export/1";
const DOMAIN = new TextEncoder().encode("quorate-block/1\0");
const DECLARED = "conflict-declared/1";
const RESOLVED = "conflict-resolved/1";
const RUN = "run-submitted";
const TASK = "task-submitted";

/** Yields the lines of a stream of bytes. */
export async function* linesOf(body: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const reader = body.pipeThrough(new TextDecoderStream() as never).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = (await reader.read()) as { value?: string; done: boolean };
    if (done) break;
    const lines = (rest + value).split("\n");
    rest = lines.pop() ?? "";
    yield* lines;
  }
  if (rest) yield rest;
}

/** Returns what was checked; throws `BrokenError` with the first fault. `tell` hears of progress. */
export async function verify(
  lines: AsyncIterable<string>,
  tell: (blocks: number, events: number) => void,
): Promise<Verified> {
  let previous = "0".repeat(64);
  let height = 0;
  let sequence = 1;
  let lotteries = 0;
  const declared = new Map<string, Declared>();
  for await (const text of lines) {
    height += 1;
    const line = parsed(text, height);
    const body = bodyOf(line);
    const covered = await sha256(DOMAIN, bytesOf(previous), body);
    expect(line.prev_hash === previous, height, "does not follow the block before it");
    expect(line.hash === hexOf(covered), height, "does not have the hash of its contents");
    const events = eventsOf(body, height, sequence);
    expect(
      line.height === height && line.first_seq === sequence && line.count === events.length,
      height,
      "is not numbered as its contents are",
    );
    expect(line.events.length === events.length, height, "shows more or fewer events than it holds");
    for (const [at, event] of events.entries()) {
      const shown = line.events[at] as Record<string, unknown>;
      const seq = sequence + at;
      expect(isShown(event, seq, shown), height, `shows event ${seq} otherwise than it was recorded`);
      lotteries += await drawn(event, seq, declared);
    }
    sequence += events.length;
    previous = line.hash;
    if (height % 50 === 0) tell(height, sequence - 1);
  }
  expect(height > 0, 1, "is missing: the export is empty");
  return { blocks: height, events: sequence - 1, hash: previous, lotteries };
}

function expect(holds: boolean, height: number, fault: string): void {
  if (!holds) throw new BrokenError(`block ${height} ${fault}`);
}

function parsed(text: string, height: number): Line {
  let line: Line;
  try {
    line = JSON.parse(text) as Line;
  } catch {
    throw new BrokenError(`line ${height} is not JSON; choose a file of quorate ledger export`);
  }
  expect(line?.format === FORMAT, height, `is not of the format ${FORMAT}`);
  return line;
}

function bodyOf(line: Line): Uint8Array {
  return Uint8Array.from(atob(line.body), (letter) => letter.charCodeAt(0));
}

function eventsOf(body: Uint8Array, height: number, sequence: number): Packed[][] {
  const [format, at, first, events] = unpack(body) as [number, number, number, Packed[][]];
  expect(format === 1 && at === height && first === sequence, height, "holds another block");
  return events;
}

/** Returns whether an event is shown with its tag and its plain fields as they were recorded. */
function isShown(event: Packed[], seq: number, shown: Record<string, unknown>): boolean {
  if (shown.seq !== seq) return false;
  if (kindOf(event[0]) === TASK) return isTaskShown(event, shown);
  // An event of an older shape is shown in the shape of today, under the tag of today.
  if (shown.tag !== event[0]) return kindOf(shown.tag) === kindOf(event[0]);
  const fields = Object.keys(shown).filter((name) => name !== "seq" && name !== "tag");
  return fields.every((name, at) => {
    const recorded = event[at + 1];
    const isPlain = ["string", "number", "boolean"].includes(typeof recorded);
    return !isPlain || recorded === shown[name];
  });
}

/** Returns whether a task of an array, of which only what differs is recorded, is shown as its run. */
function isTaskShown(event: Packed[], shown: Record<string, unknown>): boolean {
  const [, atMs, actor, name, task] = event;
  const run = shown.run as { name?: unknown; task?: unknown } | undefined;
  const isSame = shown.at_ms === atMs && shown.actor === actor && run?.name === name && run?.task === task;
  return kindOf(shown.tag) === RUN && isSame;
}

function kindOf(tag: unknown): string {
  return String(tag).split("/")[0] ?? "";
}

/** Returns 1 where `event` is a lottery's outcome, which was drawn again here. */
async function drawn(event: Packed[], seq: number, declared: Map<string, Declared>): Promise<number> {
  if (event[0] === DECLARED) declared.set(String(event[3]), declaredOf(event));
  if (event[0] !== RESOLVED) return 0;
  const resolved = resolvedOf(event);
  if (resolved.draws.length === 0) return 0;
  const found = declared.get(String(event[3]));
  if (!found) throw new BrokenError(`event ${seq} settles a conflict that was never declared`);
  const { faults } = await check(found, resolved);
  if (faults.length) throw new BrokenError(`event ${seq}: ${faults.join("; ")}`);
  return 1;
}

/** Fields are by position: tag, at_ms, actor, then those of docs/reference/events.md. */
function declaredOf(event: Packed[]): Declared {
  const [, , , , , scope, reservation, , , , dueMs, attempt, , commitment, tokens] = event as [
    ...Packed[],
  ];
  return {
    scope: scope as Declared["scope"],
    reservation: String(reservation),
    dueMs: Number(dueMs),
    attempt: Number(attempt),
    commitment: String(commitment),
    tokens: (tokens as Packed[][]).map(([owner, run, , nonce]) => ({
      owner: String(owner),
      run: String(run),
      nonce: String(nonce),
    })),
  };
}

function resolvedOf(event: Packed[]): Resolved {
  const [, , , , , preimage, beacon, seed, , draws] = event as [...Packed[]];
  return {
    preimage: String(preimage),
    beacon: String(beacon),
    seed: String(seed),
    draws: (draws as Packed[][]).map(([owner, run, spared]) => ({
      owner: String(owner),
      run: String(run),
      spared: Boolean(spared),
    })),
  };
}
