/** Rounds: pools whose GPUs are given out anew, with shares, debts, prices and who has which flavor. */

import { ask } from "../api.ts";
import type { Run, Turn } from "../documents.ts";
import { duration, number, percentCell } from "../format.ts";
import { type LedgerEvent, useLive } from "../live.ts";
import { Link } from "../router.tsx";
import { Await, Badge, Card, type Column, Empty, Table, Title, When } from "../ui.tsx";

const RUNS = 1_000;
const EVENTS = 1_000;
/** How many answers are read back at most for the round that a pool is in. */
const PAGES_BACK = 10;
const PPM = 1_000_000;

interface Pool {
  metadata: { name: string };
  spec: { discipline?: string; policy?: string; roundLength?: string };
  status: { nodes: number; totalGPUs: number; freeGPUs: number };
}

/** The event by which a round began (docs/reference/events.md). */
interface Round {
  number: number;
  policy: string;
  until_ms: number;
  at_ms: number;
  flavors: string[];
  gpus: number[];
  prices: number[];
}

interface Found {
  pools: { pool: Pool; round: Round | null; rows: Row[] }[];
}

interface Row {
  run: Run;
  turn: Turn;
}

/** The last round of each pool that was seen: later events of other kinds do not hide it. */
const seen = new Map<string, Round>();

/** Returns the last round of each pool, reading back from the end of the ledger. */
async function roundsOf(pools: string[], signal: AbortSignal): Promise<Map<string, Round>> {
  const wanted = new Set(pools);
  const found = new Map<string, Round>();
  let before: number | null = null;
  for (let page = 0; page < PAGES_BACK && wanted.size > 0; page += 1) {
    const from: number | null = before === null ? null : Math.max(1, before - EVENTS);
    const query: Record<string, number> = from === null ? { limit: EVENTS } : { from, limit: EVENTS };
    const answer = await ask("/ledger/events", {}, query, signal);
    const events = (answer.items as unknown as LedgerEvent[]).filter(
      (event) => before === null || event.seq < before,
    );
    for (const event of events.reverse()) {
      const pool = String(event.pool);
      if (!event.tag.startsWith("round-shared") || found.has(pool)) continue;
      found.set(pool, event as unknown as Round);
      wanted.delete(pool);
    }
    // Of a stretch in which the caller may see no event, the beginning is what was asked for.
    before = from ?? events.at(-1)?.seq ?? 1;
    if (before <= 1) break;
    // What was seen before is the last one, unless a newer one was in this answer.
    for (const pool of [...wanted]) if (seen.has(pool)) wanted.delete(pool);
  }
  for (const [pool, round] of found) seen.set(pool, round);
  return seen;
}

async function load(signal: AbortSignal): Promise<Found> {
  const all = (await ask("/pools", {}, {}, signal)).items as unknown as Pool[];
  const pools = all.filter((pool) => pool.spec.discipline === "rounds");
  if (pools.length === 0) return { pools: [] };
  const [waiting, running, rounds] = await Promise.all([
    ask("/runs", {}, { phase: "Pending", limit: RUNS }, signal),
    ask("/runs", {}, { phase: "Running", limit: RUNS }, signal),
    roundsOf(
      pools.map((pool) => pool.metadata.name),
      signal,
    ),
  ]);
  const runs = [...running.items, ...waiting.items] as unknown as Run[];
  return {
    pools: pools.map((pool) => {
      const name = pool.metadata.name;
      return {
        pool,
        round: rounds.get(name) ?? null,
        rows: runs.filter((run) => run.spec.pool === name).flatMap(rowsOf),
      };
    }),
  };
}

/** Returns a row for each flavor that a run has a share of. */
function rowsOf(run: Run): Row[] {
  return (run.status.turns ?? []).map((turn) => ({ run, turn }));
}

const COLUMNS: Column<Row>[] = [
  {
    title: "Run",
    value: ({ run }) => run.metadata.name,
    show: ({ run }) => (
      <Link to={["runs", run.metadata.name]} class="name">
        {run.metadata.name}
      </Link>
    ),
  },
  { title: "Owner", value: ({ run }) => run.spec.owner, show: ({ run }) => run.spec.owner },
  {
    title: "Phase",
    value: ({ run }) => run.status.phase,
    show: ({ run }) => <Badge word={run.status.phase} />,
  },
  {
    title: "Has now",
    value: ({ run }) => run.status.gpus,
    show: ({ run }) =>
      run.status.gpus ? `${number(run.status.gpus)} GPUs in ${Object.keys(run.status.domains).join(", ")}` : "-",
  },
  { title: "Flavor", whole: true, value: ({ turn }) => turn.flavor, show: ({ turn }) => turn.flavor },
  {
    title: "Share of its time",
    right: true,
    value: ({ turn }) => turn.share,
    show: ({ turn }) => percentCell(turn.share, 1),
  },
  {
    title: "Owed",
    right: true,
    value: ({ turn }) => turn.owedSeconds,
    show: ({ turn }) =>
      turn.owedSeconds < 0
        ? `${duration(-1_000 * turn.owedSeconds)} ahead`
        : duration(1_000 * turn.owedSeconds),
  },
  {
    title: "Priority",
    right: true,
    value: ({ turn }) => turn.priority,
    show: ({ turn }) => turn.priority.toFixed(1),
  },
];

export function RoundsPage() {
  const found = useLive("rounds", load, (event) => /^(round|steps|run|pool)/.test(event.tag));
  return (
    <>
      <Title
        title="Rounds"
        sub="Pools whose GPUs are given out anew every few minutes. Who was given less than its share is owed time, and comes first."
      />
      <Await of={found}>
        {({ pools }) =>
          pools.length === 0 ? (
            <Empty command="quorate apply -f pool.yaml">
              No pool shares in rounds; one with <code>discipline: rounds</code> does.
            </Empty>
          ) : (
            pools.map(({ pool, round, rows }) => (
              <Card
                key={pool.metadata.name}
                title={pool.metadata.name}
                aside={!round && <span class="quiet">{pool.spec.policy}</span>}
              >
                {round && <Began round={round} />}
                <Table
                  name={`rounds of ${pool.metadata.name}`}
                  columns={COLUMNS}
                  rows={rows}
                  keyOf={({ run, turn }) => `${run.metadata.name} ${turn.flavor}`}
                  empty={<Empty>No run that you may see has a share of this round.</Empty>}
                />
              </Card>
            ))
          )
        }
      </Await>
    </>
  );
}

function Began({ round }: { round: Round }) {
  return (
    <dl class="facts">
      <dt>Round</dt>
      <dd>
        {number(round.number)}, by {round.policy}, since <When at={round.at_ms} /> until{" "}
        <When at={round.until_ms} />
      </dd>
      {round.flavors.map((flavor, at) => (
        <>
          <dt>{flavor}</dt>
          <dd class="num">
            {number(round.gpus[at] ?? 0)} GPUs
            {(round.prices[at] ?? 0) > 0 &&
              `; price ${((round.prices[at] ?? 0) / PPM).toPrecision(3)}: what one more GPU would add to the policy's objective`}
          </dd>
        </>
      ))}
    </dl>
  );
}
