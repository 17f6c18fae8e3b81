/** The steps of a run as charts: what its work has reported, else what its output speaks of. */

import { useEffect, useState } from "preact/hooks";
import { ask, wordsOf } from "../api.ts";
import type { LogLine, RunProgress } from "../api_types.ts";
import { Chart } from "../chart.tsx";
import { duration, number } from "../format.ts";
import { Bar, Card } from "../ui.tsx";

const ASK_MS = 5_000;
const FIGURES_MAX = 4;
const STEP = /\bstep[ =:]+(\d+)\b.*?\bloss[ =:]+(-?\d+(?:\.\d+)?(?:e[-+]?\d+)?)/i;

export interface Line {
  name: string;
  steps: number[];
  values: number[];
}

/** Returns the losses that lines of output speak of; a step that is told twice counts once. */
export function losses(lines: LogLine[]): Line {
  const found = new Map<number, number>();
  for (const line of lines) {
    const match = STEP.exec(line.text);
    if (match) found.set(Number(match[1]), Number(match[2]));
  }
  return lineOf("loss", found);
}

/** Returns a line for each figure that was reported, the last report of a step counting. */
export function figures(progress: RunProgress): Line[] {
  const found = new Map<string, Map<number, number>>();
  for (const { step, figures } of progress.reports) {
    for (const [name, value] of Object.entries(figures)) {
      if (value === null || name === "total") continue;
      if (!found.has(name)) found.set(name, new Map());
      found.get(name)?.set(step, value);
    }
  }
  return [...found].map(([name, values]) => lineOf(name, values)).slice(0, FIGURES_MAX);
}

function lineOf(name: string, values: Map<number, number>): Line {
  const steps = [...values.keys()].sort((one, other) => one - other);
  return { name, steps, values: steps.map((step) => values.get(step) as number) };
}

function useProgress(run: string, isWorking: boolean): { progress: RunProgress | null; fault: string } {
  const [progress, setProgress] = useState<RunProgress | null>(null);
  const [fault, setFault] = useState("");
  useEffect(() => {
    const stop = new AbortController();
    let timer = 0;
    async function read(): Promise<void> {
      if (!document.hidden) {
        try {
          setProgress(await ask("/runs/{run}/reports", { run }, {}, stop.signal));
          setFault("");
        } catch (error) {
          if (stop.signal.aborted) return;
          setFault(wordsOf(error));
        }
      }
      if (isWorking) timer = window.setTimeout(() => void read(), ASK_MS);
    }
    void read();
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [run, isWorking]);
  return { progress, fault };
}

export function Progress({ run, isWorking, lines }: { run: string; isWorking: boolean; lines: LogLine[] }) {
  const { progress, fault } = useProgress(run, isWorking);
  const reported = progress ? figures(progress) : [];
  const shown = (reported.length ? reported : [losses(lines)]).filter((line) => line.steps.length > 1);
  const step = progress?.step ?? shown[0]?.steps.at(-1) ?? null;
  if (step === null) return fault ? <p class="fault">{fault}</p> : null;
  const rate = progress?.stepsPerSecond ?? 0;
  return (
    <Card
      title={shown.length === 1 && shown[0] ? `Steps and ${shown[0].name}` : "Steps"}
      aside={
        <span class="num">
          step {number(step)}
          {progress?.total && ` of ${number(progress.total)}`}
        </span>
      }
    >
      {progress?.total ? (
        <Bar
          label={`step ${step} of ${progress.total}`}
          total={progress.total}
          parts={[{ name: "done", value: step, kind: "accent" }]}
        />
      ) : null}
      {fault && <p class="fault">{fault}</p>}
      {rate > 0 && (
        <p class="quiet num">
          {rate.toPrecision(3)} steps a second
          {isWorking && progress?.total && `, ${duration((1_000 * (progress.total - step)) / rate)} left`}
        </p>
      )}
      {shown.map((line) => (
        <Chart
          key={line.name}
          label={`${line.name} by step, now ${line.values.at(-1)}`}
          x="step"
          y={line.name}
          xs={line.steps}
          ys={line.values}
        />
      ))}
    </Card>
  );
}
