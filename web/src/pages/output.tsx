/** What the work of a run has written, as it is written. */

import { useEffect, useRef, useState } from "preact/hooks";
import { ProblemError, ask, wordsOf } from "../api.ts";
import type { LogLine } from "../api_types.ts";
import { time } from "../format.ts";
import { Card, Empty } from "../ui.tsx";
import { Progress } from "./progress.tsx";

const LINES_MAX = 2_000;
const TAIL = 1_000;
const ASK_MS = 2_000;

/** Returns what the run has written; a run that waits writes nothing, and is asked once. */
function useOutput(name: string, phase: string): { lines: LogLine[]; fault: string } {
  const [lines, setLines] = useState<LogLine[]>([]);
  const [fault, setFault] = useState("");
  useEffect(() => {
    const stop = new AbortController();
    let timer = 0;
    let next: number | null = null;
    async function read(): Promise<void> {
      try {
        const query: Record<string, number> = next === null ? { tail: TAIL } : { from: next };
        const found = await ask("/runs/{run}/logs", { run: name }, query, stop.signal);
        const isFirst = next === null;
        next = found.next;
        setFault("");
        if (isFirst) setLines(found.lines);
        else if (found.lines.length) setLines((old) => [...old, ...found.lines].slice(-LINES_MAX));
        if (found.more) {
          // There are lines already: what was written faster than one answer holds is not waited for.
          void read();
          return;
        }
        if (found.ended || phase === "Pending") return;
      } catch (error) {
        if (stop.signal.aborted) return;
        setFault(wordsOf(error));
        if (error instanceof ProblemError && error.status < 500) return;
      }
      timer = window.setTimeout(() => void read(), document.hidden ? 10 * ASK_MS : ASK_MS);
    }
    void read();
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [name, phase]);
  return { lines, fault };
}

export function Output({ name, phase }: { name: string; phase: string }) {
  const { lines, fault } = useOutput(name, phase);
  const isWorking = phase === "Running";
  const box = useRef<HTMLDivElement>(null);
  const isAtEnd = useRef(true);
  useEffect(() => {
    if (box.current && isAtEnd.current) box.current.scrollTop = box.current.scrollHeight;
  }, [lines]);
  return (
    <>
      <Progress run={name} isWorking={isWorking} lines={lines} />
      <Card title="Output" aside={isWorking && lines.length > 0 && <small>as it is written</small>}>
        {lines.length === 0 ? (
          <Empty>{fault || "It has written nothing yet."}</Empty>
        ) : (
          <div
            class="log"
            ref={box}
            tabIndex={0}
            role="log"
            aria-label={`Output of ${name}`}
            onScroll={({ currentTarget: at }) => {
              isAtEnd.current = at.scrollHeight - at.scrollTop - at.clientHeight < 40;
            }}
          >
            {lines.map((line) => (
              <div key={line.number} class={line.stream === "err" ? "err" : undefined}>
                <small>
                  {time(line.at)} {line.node}
                  {line.rank === null ? "" : `:${line.rank}`}
                </small>{" "}
                {line.text}
              </div>
            ))}
          </div>
        )}
        {fault && lines.length > 0 && <p class="fault">{fault}</p>}
      </Card>
    </>
  );
}
