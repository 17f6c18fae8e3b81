/** The documents that pages read, down to the fields they show (docs/reference/documents.md). */

export interface Refusal {
  message: string;
  code: string;
  since?: string | null;
  shortages?: { where: string; wanted: number; available: number; short: number; limit: string }[];
}

export interface Slice {
  flavor: string;
  gpus: number;
  domains: { domain: string; gpus: number }[];
}

export interface Payer {
  envelope: string;
  tier: string;
  gpus: number;
  spentGPUMs: number;
}

export interface QueueTerms {
  position: number;
  flavor: string;
  budgetUsed: number | null;
  overBudget: boolean;
  penalty: number;
  share: number;
  target: number;
  effectiveTarget: number;
  utilisation: number;
  score: number;
  /** In an explanation: the owners whose runs come before it. */
  ahead?: { owner: string; runs: number; score: number }[];
}

/** What a run has of a pool that shares in rounds, by flavor. */
export interface Turn {
  flavor: string;
  share: number;
  owedSeconds: number;
  priority: number;
}

export interface Run {
  metadata: { name: string };
  spec: {
    owner: string;
    user?: string;
    resources: { gpuType?: string | string[]; totalGPUs: number };
    command?: string[];
    /** Of an array; in one of its tasks also the array's name and the task's index. */
    array?: { tasks: string; name?: string; task?: number };
    [field: string]: unknown;
  };
  status: {
    phase: string;
    submitted: string;
    started?: string;
    ended?: string;
    gpus: number;
    domains: Record<string, number>;
    leases: string[];
    funding: { lenders: string[]; payers: Payer[] };
    note?: string;
    stopping?: { since: string; reason: string; note: string };
    plan?: { state: string; start: string | null; startsInMs: number | null };
    refusal?: Refusal;
    startable?: boolean;
    queue?: QueueTerms;
    cutBy?: string;
    turns?: Turn[];
    /** Of an array: how many of its tasks are in each phase. */
    tasks?: Record<string, number>;
  };
}

export interface Remedy {
  kind: string;
  target: { kind: string; name: string };
  changes: { path: string; value: unknown }[];
  effect: string;
  commands: string[][];
}

export interface Token {
  owner: string;
  run: string;
  gpus: number;
  nonce?: string;
  odds: string;
  ownerOdds: string;
  dummyCuts?: number;
}

export interface Contest {
  at: string;
  deficit: number;
  tokens: Token[];
  dummyDraws: number;
}

export interface Outcome {
  metadata: { name: string };
  spec: {
    cause: string;
    scope: { pool: string; flavor: string; domains: string[]; limit: string | null };
    reservation: string | null;
    deficit: number;
    declared: string;
    due: string;
    attempt: number;
    preimageIndex: number;
    commitment: string;
    tokens: Token[];
  };
  status: {
    outcome: string;
    resolved: string | null;
    preimage: string | null;
    seed: string | null;
    draws: { owner: string; run: string; spared: boolean }[];
    cuts: { step: string; run: string; bundle: number; gpus: number; leases: string[] }[];
    lostGPUMs: number;
  };
}

export interface EnvelopeSpec {
  name: string;
  flavor: string;
  selector?: Record<string, string>;
  start: string;
  end: string;
  concurrency: number;
  maxGPUHours?: number;
  lending?: { allow?: boolean; to?: string[]; maxConcurrency?: number; maxGPUHours?: number };
}

export interface EnvelopeStatus {
  name: string;
  owner: string;
  activeGPUs: number;
  reservedGPUs: number;
  lentGPUs: number;
  grantedGPUMs: number | null;
  spentGPUMs: number;
  heldGPUMs: number;
  freeGPUMs: number | null;
  lentGPUMs: number;
  open: boolean;
  usable: boolean;
}

export interface Budget {
  metadata: { name: string };
  spec: { owner: string; envelopes: EnvelopeSpec[] };
  status: { envelopes: EnvelopeStatus[] };
}

export interface Owner {
  metadata: { name: string };
  spec: { parents?: string[]; quota?: Record<string, unknown> };
  status: {
    running: string[];
    pending: string[];
    activeGPUs: number;
    budgetUsed: number | null;
    shares: {
      flavor: string;
      share: number;
      instantShare: number;
      decayedShare: number;
      effectiveTarget: number;
    }[];
  };
}

/** Returns the flavors that a run takes, as one word. */
export function flavorsOf(run: Run): string {
  const type = run.spec.resources.gpuType;
  return type === undefined ? "any" : Array.isArray(type) ? type.join(", ") : type;
}
