/** What is recorded, as it is recorded: one stream for each tab, and pages that ask anew by it. */

import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { addressOf, isUnanswered, send, session, wordsOf } from "./api.ts";
import { Pace } from "./pace.ts";
import { sentEvents } from "./sse.ts";

export interface LedgerEvent {
  seq: number;
  tag: string;
  at_ms: number;
  actor: string;
  [field: string]: unknown;
}

/** `polling`: the service answers, but not with a stream; `away`: it does not answer. */
export type Connection = "connecting" | "live" | "polling" | "away";

const POLL_MS = 30_000;
/** How often a page that hears of every event asks nevertheless: figures change with time, too. */
const TIME_MS = 120_000;
const BACK_OFF_MS = [1_000, 2_000, 5_000, 15_000];

type Listener = (event: LedgerEvent) => void;

/** Follows the ledger while the tab is in sight; tells listeners, and whether it is connected. */
class Stream {
  private readonly listeners = new Set<Listener>();
  private readonly watchers = new Set<(state: Connection) => void>();
  private stop: AbortController | null = null;
  private cursor = "";
  private failures = 0;
  private isAway = false;
  state: Connection = "connecting";

  start(): void {
    document.addEventListener("visibilitychange", this.look);
    this.look();
  }

  end(): void {
    document.removeEventListener("visibilitychange", this.look);
    this.stop?.abort();
    this.stop = null;
    this.cursor = "";
  }

  on(listener: Listener): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  onState(watcher: (state: Connection) => void): () => void {
    this.watchers.add(watcher);
    return () => this.watchers.delete(watcher);
  }

  private readonly look = (): void => {
    if (document.hidden) {
      this.stop?.abort();
      this.stop = null;
    } else if (this.stop === null) {
      this.stop = new AbortController();
      void this.run(this.stop.signal);
    }
  };

  private become(state: Connection): void {
    this.state = state;
    for (const each of this.watchers) each(state);
  }

  private async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      try {
        await this.read(signal);
      } catch (error) {
        this.failures += 1;
        this.isAway = isUnanswered(error) && !(await answers(signal));
      }
      if (signal.aborted) return;
      this.become(this.failures < 2 ? "connecting" : this.isAway ? "away" : "polling");
      const wait = BACK_OFF_MS[Math.min(this.failures, BACK_OFF_MS.length - 1)] as number;
      await new Promise((done) => setTimeout(done, wait));
    }
  }

  private async read(signal: AbortSignal): Promise<void> {
    const headers: Record<string, string> = { Accept: "text/event-stream" };
    if (this.cursor) headers["Last-Event-ID"] = this.cursor;
    const response = await send(addressOf("/watch"), { headers, signal }).catch((error) => {
      this.cursor = "";
      throw error;
    });
    if (response.body === null) throw new Error("the stream has no body");
    this.failures = 0;
    this.become("live");
    for await (const sent of sentEvents(response.body)) {
      this.cursor = sent.id;
      if (sent.event === "stopping" || sent.event === "dropped") return;
      const event = JSON.parse(sent.data) as LedgerEvent;
      for (const each of this.listeners) each(event);
    }
  }
}

/** Returns whether the service answers at all: a proxy may cut off streams and nothing else. */
async function answers(signal: AbortSignal): Promise<boolean> {
  try {
    await session(signal);
    return true;
  } catch (error) {
    return !isUnanswered(error);
  }
}

export const stream = new Stream();

/** Returns whether what is shown is live. */
export function useConnection(): Connection {
  const [state, setState] = useState(stream.state);
  useEffect(() => {
    // It may have changed since this was first drawn.
    setState(stream.state);
    return stream.onState(setState);
  }, []);
  return state;
}

export interface Loaded<T> {
  value: T | null;
  error: string | null;
  /** Asks again now. */
  reload: () => void;
}

/** `now`: it is about what is shown itself; true: what is shown may change by it. */
export type Concern = boolean | "now";

/**
 * Returns what `load` answers, asked again when an event `isAbout` it is recorded.
 *
 * What is shown stays until the new answer is there. `key` names what is asked for. How soon it is
 * asked for again is a matter of what the answers take (`pace.ts`).
 */
export function useLive<T>(
  key: string,
  load: (signal: AbortSignal) => Promise<T>,
  isAbout: (event: LedgerEvent) => Concern = () => true,
): Loaded<T> {
  const [found, setFound] = useState<{ key: string; value: T | null; error: string | null }>({
    key,
    value: null,
    error: null,
  });
  const now = useRef({ load, isAbout });
  now.current = { load, isAbout };
  const again = useRef<() => void>(() => undefined);

  useEffect(() => {
    const stop = new AbortController();
    const pace = new Pace(stop.signal);
    let timer = 0;
    let isLoading = false;
    let wanted: Concern = false;

    async function ask(): Promise<void> {
      isLoading = true;
      wanted = false;
      try {
        const value = await now.current.load(stop.signal);
        if (!stop.signal.aborted) setFound({ key, value, error: null });
      } catch (error) {
        if (stop.signal.aborted) return;
        setFound((old) => ({ key, value: old.key === key ? old.value : null, error: wordsOf(error) }));
      }
      isLoading = false;
      pace.pay();
      plan();
    }
    function plan(): void {
      clearTimeout(timer);
      const idle = stream.state === "live" ? TIME_MS : POLL_MS;
      const wait = Math.max(wanted ? 0 : idle, pace.rest(wanted === "now"));
      timer = window.setTimeout(() => void ask(), wait);
    }
    function want(concern: Concern): void {
      if (!concern || wanted === "now" || wanted === concern) return;
      wanted = concern;
      if (!isLoading) plan();
    }
    again.current = () => {
      if (isLoading) {
        wanted = "now";
        return;
      }
      clearTimeout(timer);
      void ask();
    };
    pace.begin();
    void ask();
    const off = stream.on((event) => want(now.current.isAbout(event)));
    // What was recorded while the stream was cut off is in no event that comes now.
    let wasCut = false;
    const offState = stream.onState((state) => {
      if (state === "live" && wasCut) want("now");
      // Without a stream it is asked for more often than with one.
      else if (state !== "live" && !wasCut && !isLoading) plan();
      wasCut = state !== "live";
    });
    return () => {
      stop.abort();
      pace.end();
      clearTimeout(timer);
      off();
      offState();
    };
  }, [key]);

  const reload = useCallback(() => again.current(), []);
  const isOld = found.key !== key;
  return { value: isOld ? null : found.value, error: isOld ? null : found.error, reload };
}

/** Tells all who ask for it the time, by one timer, so that a page is drawn once for all of them. */
class Ticker {
  private readonly told = new Set<(now: number) => void>();
  private timer = 0;

  constructor(private readonly everyMs: number) {}

  on(tell: (now: number) => void): () => void {
    if (this.told.size === 0) {
      this.timer = window.setInterval(() => {
        const now = Date.now();
        for (const each of this.told) each(now);
      }, this.everyMs);
    }
    this.told.add(tell);
    return () => {
      this.told.delete(tell);
      if (this.told.size === 0) clearInterval(this.timer);
    };
  }
}

const tickers = new Map<number, Ticker>();

/** Returns the time, told anew every so often: for ages that are shown. */
export function useNow(everyMs = 1_000): number {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const ticker = tickers.get(everyMs) ?? new Ticker(everyMs);
    tickers.set(everyMs, ticker);
    return ticker.on(setNow);
  }, [everyMs]);
  return now;
}
