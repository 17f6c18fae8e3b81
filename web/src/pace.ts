/** How often parts of a page may ask again, so that an open page takes little CPU of the service. */

/** Which part of a core all answers to one page may take over time. */
const PAGE_SHARE = 0.005;
/** For how long a share that is not used is saved up: some changes one after another show at once. */
const SAVED_MS = 20_000;
/** What the service takes for a request and for reading on, beside working out its answer. */
const REQUEST_MS = 5;
const REST_MS_MIN = 1_000;
const REST_MS_MAX = 45_000;

const parts = new Set<Pace>();
const costs = new WeakMap<AbortSignal, number>();

/** Counts what the service took for `response`; it says so of answers that are work. */
export function count(signal: AbortSignal, response: Response): void {
  const told = /\bcpu;dur=([\d.]+)/.exec(response.headers.get("server-timing") ?? "");
  costs.set(signal, (costs.get(signal) ?? 0) + REQUEST_MS + Number(told?.[1] ?? 0));
}

/** The turns of one part of a page, which has an equal share of what the page may take. */
export class Pace {
  private savedMs = 0;
  private earnedMs = performance.now();
  private askedMs = -REST_MS_MIN;

  constructor(private readonly signal: AbortSignal) {}

  begin(): void {
    parts.add(this);
    this.savedMs = share() * SAVED_MS;
  }

  end(): void {
    parts.delete(this);
  }

  /** Pays for the answers that came since it was last called. */
  pay(): void {
    this.earn();
    this.savedMs -= costs.get(this.signal) ?? 0;
    this.askedMs = this.earnedMs;
    costs.delete(this.signal);
  }

  /** Returns for how long not to ask: a moment where something happened to what is shown itself. */
  rest(isUrgent: boolean): number {
    this.earn();
    const owed = isUrgent ? 0 : Math.min(REST_MS_MAX, -this.savedMs / share());
    return Math.max(0, owed, this.askedMs + REST_MS_MIN - this.earnedMs);
  }

  private earn(): void {
    const now = performance.now();
    const saved = this.savedMs + (now - this.earnedMs) * share();
    this.savedMs = Math.min(saved, share() * SAVED_MS);
    this.earnedMs = now;
  }
}

function share(): number {
  return PAGE_SHARE / Math.max(1, parts.size);
}
