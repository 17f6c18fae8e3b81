/**
 * The lottery, drawn again in the browser: docs/reference/lottery.md says how, byte by byte.
 *
 * It shares no code with the service. SHA-256 is that of the Web Crypto API, which a browser offers
 * to pages of https and of this machine alone.
 */

export interface Declared {
  scope: [string, string, string[], string];
  reservation: string;
  dueMs: number;
  attempt: number;
  commitment: string;
  tokens: { owner: string; run: string; nonce: string }[];
}

export interface Resolved {
  preimage: string;
  beacon: string;
  seed: string;
  draws: { owner: string; run: string; spared: boolean }[];
}

export interface Check {
  /** The seed that its parts give. */
  seed: string;
  /** Owners and runs in the order in which the seed draws them, as far as was published. */
  draws: { owner: string; run: string }[];
  /** What is wrong, as sentences; none where the ledger's outcome is the one that was drawn here. */
  faults: string[];
}

const text = new TextEncoder();

/** Returns why this browser cannot check anything, or nothing. */
export function whyNot(): string {
  if (globalThis.crypto?.subtle) return "";
  return "this browser checks hashes on pages of https:// or of localhost only; open the dashboard there";
}

export function hexOf(bytes: Uint8Array): string {
  return Array.from(bytes, (each) => each.toString(16).padStart(2, "0")).join("");
}

export function bytesOf(hex: string): Uint8Array {
  if (!/^([0-9a-f]{2})*$/.test(hex)) throw new Error(`not hexadecimal: ${hex}`);
  return Uint8Array.from(hex.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16));
}

export function joined(...parts: Uint8Array[]): Uint8Array<ArrayBuffer> {
  const all = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}

export async function sha256(...parts: Uint8Array[]): Promise<Uint8Array> {
  return new Uint8Array(await crypto.subtle.digest("SHA-256", joined(...parts)));
}

function eightBytes(value: bigint): Uint8Array {
  const bytes = new Uint8Array(8);
  new DataView(bytes.buffer).setBigUint64(0, value);
  return bytes;
}

/** Returns the order of two names by their code points; that of JavaScript is by UTF-16 units. */
export function byCodePoint(one: string, other: string): number {
  const [left, right] = [Array.from(one), Array.from(other)];
  for (let at = 0; at < Math.min(left.length, right.length); at += 1) {
    const apart = (left[at]?.codePointAt(0) ?? 0) - (right[at]?.codePointAt(0) ?? 0);
    if (apart !== 0) return apart;
  }
  return left.length - right.length;
}

/** Returns the link before a link. */
export async function linkBefore(link: Uint8Array): Promise<Uint8Array> {
  return sha256(text.encode("quorate-lottery-chain/1\0"), link);
}

/** Returns the seed of a conflict whose link was revealed. */
export async function seedOf(declared: Declared, preimage: Uint8Array, beacon = ""): Promise<Uint8Array> {
  const inOrder = [...declared.tokens].sort((one, other) => byCodePoint(one.run, other.run));
  const fields = [
    text.encode("quorate-lottery-seed/1"),
    text.encode(JSON.stringify(declared.scope)),
    text.encode(declared.reservation),
    text.encode(String(declared.dueMs)),
    text.encode(String(declared.attempt)),
    preimage,
    text.encode(String(inOrder.length)),
    ...inOrder.map((token) => text.encode(token.nonce)),
    text.encode(beacon),
  ];
  return sha256(...fields.flatMap((field) => [eightBytes(BigInt(field.length)), field]));
}

/** Draws numbers from a seed: SHA-256 in counter mode, with rejection sampling. */
class Numbers {
  private counter = 0n;
  private readonly seed: Uint8Array;

  constructor(seed: Uint8Array) {
    this.seed = seed;
  }

  async below(bound: number): Promise<number> {
    const word = 1n << 64n;
    const limit = word - (word % BigInt(bound));
    const tag = text.encode("quorate-lottery-draw/1\0");
    for (;;) {
      const block = await sha256(tag, this.seed, eightBytes(this.counter));
      this.counter += 1n;
      const candidate = new DataView(block.buffer).getBigUint64(0);
      if (candidate < limit) return Number(candidate % BigInt(bound));
    }
  }
}

/** Returns the first `count` draws of a seed. */
export async function draw(
  seed: Uint8Array,
  tokens: { owner: string; run: string }[],
  count: number,
): Promise<{ owner: string; run: string }[]> {
  const held = new Map<string, string[]>();
  for (const { owner, run } of tokens) held.set(owner, [...(held.get(owner) ?? []), run]);
  const owners = [...held.keys()].sort(byCodePoint);
  for (const runs of held.values()) runs.sort(byCodePoint);
  const numbers = new Numbers(seed);
  const found: { owner: string; run: string }[] = [];
  while (owners.length && found.length < count) {
    const [owner] = owners.splice(await numbers.below(owners.length), 1) as [string];
    const left = held.get(owner) ?? [];
    while (left.length && found.length < count) {
      const [run] = left.splice(await numbers.below(left.length), 1) as [string];
      found.push({ owner, run });
    }
  }
  return found;
}

/** Returns what a published outcome comes to when it is drawn again. */
export async function check(declared: Declared, resolved: Resolved): Promise<Check> {
  const preimage = bytesOf(resolved.preimage);
  const faults: string[] = [];
  if (hexOf(await linkBefore(preimage)) !== declared.commitment) {
    faults.push("the revealed link does not hash to the link that was committed to");
  }
  if (resolved.beacon) faults.push("a beacon is shown, and none may be used");
  const seed = await seedOf(declared, preimage, resolved.beacon);
  if (hexOf(seed) !== resolved.seed) faults.push("the seed is not the one that its parts give");
  const draws = await draw(seed, declared.tokens, resolved.draws.length);
  const isSame =
    draws.length === resolved.draws.length &&
    draws.every(({ owner, run }, at) => {
      const shown = resolved.draws[at];
      return shown?.owner === owner && shown.run === run;
    });
  if (!isSame) faults.push("the draws are not those that the seed gives");
  return { seed: hexOf(seed), draws, faults };
}
