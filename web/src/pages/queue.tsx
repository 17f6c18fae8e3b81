/** The queue: who waits, in order, by which terms, why, and until when. */

import { useState } from "preact/hooks";
import { ask, saveCsv, wordsOf } from "../api.ts";
import type { QueueStart } from "../api_types.ts";
import { type Run, flavorsOf } from "../documents.ts";
import { away, duration, fullTime, number, percent } from "../format.ts";
import { useLive } from "../live.ts";
import { Link, useParam } from "../router.tsx";
import { Await, Badge, type Column, Empty, Table, Ticking, Title, Words } from "../ui.tsx";
import { useViewer } from "../viewer.ts";
import { type ListLine, folded, lineName } from "./tasks.tsx";
import { PlanText, scoreText, waitText } from "./waiting.tsx";

const PAGE = 100;
/** Of how many runs the likely start is asked for: those that a pool plans, and a few more. */
const LIKELY = 50;
const AGES_MS = 10_000;
/** How many owners are shown with their odds; the rest are counted, and named on hover. */
const ODDS_SHOWN = 3;

export function QueuePage() {
  const [owner, setOwner] = useParam("owner");
  const [more, setMore] = useState<{ rows: Run[]; next: string | undefined } | null>(null);
  const [fault, setFault] = useState("");
  const first = useLive(
    `queue ${owner}`,
    (signal) => ask("/queue", {}, { limit: PAGE, owner }, signal),
    (event) => /^(run|lease|reservation|node|budget|owner|round)/.test(event.tag),
  );
  const starts = useLive(
    `starts ${owner}`,
    (signal) => ask("/queue/starts", {}, { limit: LIKELY, owner }, signal),
    (event) => /^(run|lease|reservation|node|conflict)/.test(event.tag),
  );
  const likely = new Map(starts.value?.items.map((each) => [each.run, each]));
  const readOn = async (next: string, rows: Run[]): Promise<void> => {
    try {
      const found = await ask("/queue", {}, { limit: PAGE, owner, cursor: next });
      setMore({ rows: [...rows, ...(found.items as unknown as Run[])], next: found.next });
    } catch (error) {
      setFault(wordsOf(error));
    }
  };
  return (
    <>
      <Title title="Queue" sub="Runs are tried in this order. A later one starts first only where it delays no planned start. Below each score: its owner's share of the flavor, of its target.">
        <OwnerChoice owner={owner} onChoose={(next) => {
          setMore(null);
          setOwner(next);
        }} />
      </Title>
      <Await of={first}>
        {(listing) => {
          const head = listing.items as unknown as Run[];
          const rows = folded([...head, ...(more?.rows ?? [])]);
          const next = more ? more.next : listing.next;
          return (
            <>
              <Table
                name="queue"
                columns={columns(likely)}
                rows={rows}
                keyOf={lineName}
                inside={(line) =>
                  line.tasks.length > 0
                    ? {
                        label: line.tasks.length === 1 ? "1 task" : `${line.tasks.length} tasks`,
                        show: () => (
                          <Table
                            name={`waiting tasks of ${lineName(line)}`}
                            columns={columns(likely)}
                            rows={line.tasks.map((run) => ({ run, tasks: [] }))}
                            keyOf={lineName}
                            empty={<Empty>None of its tasks waits.</Empty>}
                          />
                        ),
                      }
                    : null
                }
                hasMore={next !== undefined}
                onSave={() => saveCsv("/queue", owner ? { owner } : {}, "queue.csv")}
                empty={
                  <Empty command="quorate submit --gpus 4 --team TEAM -- python train.py">
                    {owner ? `No run of ${owner} waits.` : "No run waits."}
                  </Empty>
                }
              />
              {(fault || starts.error) && <p class="fault">{fault || starts.error}</p>}
              {next && (
                <button type="button" onClick={() => void readOn(next, more?.rows ?? [])}>
                  Show {PAGE} more
                </button>
              )}
            </>
          );
        }}
      </Await>
    </>
  );
}

export function OwnerChoice({ owner, onChoose }: { owner: string; onChoose: (owner: string) => void }) {
  const { tenants } = useViewer();
  return (
    <label class="choice">
      Owner{" "}
      <select value={owner} onChange={(event) => onChoose(event.currentTarget.value)}>
        <option value="">all</option>
        {[...new Set([...tenants, ...(owner ? [owner] : [])])].map((name) => (
          <option value={name}>{name}</option>
        ))}
      </select>
    </label>
  );
}

/** The name of an owner, as a link to its page. */
export function OwnerLink({ name }: { name: string }) {
  return <Link to={["owners", name]}>{name}</Link>;
}

function columns(likely: Map<string, QueueStart>): Column<ListLine>[] {
  const hasConflict = [...likely.values()].some((each) => each.byConflict || each.odds.length > 0);
  const odds: Column<ListLine> = {
    title: "Odds",
    value: ({ run }) => oddsText(likely.get(run.metadata.name)),
    show: ({ run }) => <Odds start={likely.get(run.metadata.name)} />,
  };
  return [
    {
      title: "#",
      right: true,
      value: ({ run }) => run.status.queue?.position ?? 0,
      show: ({ run }) => number(run.status.queue?.position ?? 0),
    },
    {
      title: "Run",
      value: lineName,
      show: (line) => (
        <Link to={["runs", lineName(line)]} class="name">
          {lineName(line)}
        </Link>
      ),
    },
    { title: "Owner", value: ({ run }) => run.spec.owner, show: ({ run }) => <OwnerLink name={run.spec.owner} /> },
    {
      title: "GPUs",
      right: true,
      value: ({ run }) => run.spec.resources.totalGPUs,
      show: ({ run }) => number(run.spec.resources.totalGPUs),
    },
    {
      title: "Flavor",
      wide: true,
      whole: true,
      value: ({ run }) => flavorsOf(run),
      show: ({ run }) => flavorsOf(run),
    },
    {
      title: "Waiting",
      right: true,
      wide: true,
      value: ({ run }) => Date.now() - Date.parse(run.status.submitted),
      show: ({ run }) => {
        const since = Date.parse(run.status.submitted);
        return <Ticking everyMs={AGES_MS}>{(now) => duration(now - since)}</Ticking>;
      },
    },
    {
      title: "Score",
      right: true,
      value: ({ run }) => run.status.queue?.score ?? 0,
      show: ({ run }) => <Score run={run} />,
    },
    {
      title: "Starts",
      value: ({ run }) => run.status.plan?.start ?? "~",
      show: ({ run }) => (
        <Ticking everyMs={AGES_MS}>
          {(now) => (
            <div>
              <PlanText run={run} now={now} />
              <Likely start={likely.get(run.metadata.name)} now={now} />
            </div>
          )}
        </Ticking>
      ),
    },
    ...(hasConflict ? [odds] : []),
    {
      title: "Why it waits",
      value: ({ run }) => waitText(run),
      show: ({ run }) => (
        <span class="why" title={run.status.refusal?.code}>
          <Words of={waitText(run)} />
        </span>
      ),
    },
  ];
}

/** The score of a run's owner, and below it the terms that it is computed from. */
function Score({ run }: { run: Run }) {
  const terms = run.status.queue;
  if (!terms) return <>-</>;
  return (
    <span class="score" title={scoreText(terms)}>
      {terms.overBudget && <Badge word="over budget" tone="bad" />} {terms.score.toFixed(3)}
      <small>
        {percent(terms.share, 1)} of {percent(terms.effectiveTarget, 1)}
        {terms.penalty < 1 && ` × ${terms.penalty.toFixed(2)}`}
      </small>
    </span>
  );
}

/** By when a run has started in half, and in nine of ten cases. */
function Likely({ start, now }: { start: QueueStart | undefined; now: number }) {
  if (!start?.p50Start || !start.p90Start) return null;
  const whole = `${fullTime(start.p50Start)} in half of all cases, ${fullTime(start.p90Start)} in nine of ten`;
  const [half, nine] = [start.p50Start, start.p90Start].map((at) => away(at, now).replace(/^in /, ""));
  return (
    <small class="likely num" title={whole}>
      P50 {half}, P90 {nine}
    </small>
  );
}

function oddsText(start: QueueStart | undefined): string {
  return start?.odds.map((each) => `${each.owner} ${each.odds}`).join(", ") ?? "";
}

/** Returns odds such as `9/32` as a number. */
function share(odds: string): number {
  const [part, of] = odds.split("/").map(Number);
  return (part ?? 0) / (of ?? 1);
}

/** Who could be drawn first where a conflict makes room for the run. */
function Odds({ start }: { start: QueueStart | undefined }) {
  if (!start?.byConflict && !start?.odds.length) return <>-</>;
  if (!start.odds.length) return <>a conflict</>;
  const words = "A conflict makes room for it; how likely each owner is to be drawn first.";
  const likeliest = [...start.odds].sort((one, other) => share(other.odds) - share(one.odds)).slice(0, ODDS_SHOWN);
  const more = start.odds.length - likeliest.length;
  return (
    <span class="odds" title={`${words} ${oddsText(start)}`}>
      {likeliest.map(({ owner, odds }) => `${owner} ${odds}`).join(", ")}
      {more > 0 && ` and ${number(more)} more`}
    </span>
  );
}
