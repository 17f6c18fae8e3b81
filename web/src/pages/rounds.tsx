/** Rounds: pools whose GPUs are given out anew, with shares, debts, prices and who has which flavor. */

import { ask } from "../api.ts";
import type { Run, Turn } from "../documents.ts";
import { duration, number, percent } from "../format.ts";
import { type LedgerEvent, useLive } from "../live.ts";
import { Link } from "../router.tsx";
import { Await, Badge, Card, type Column, Empty, Table, Title, When } from "../ui.tsx";

const RUNS = 1_000;
const EVENTS = 1_000;
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

async function load(signal: AbortSignal): Promise<Found> {
  const all = (await ask("/pools", {}, {}, signal)).items as unknown as Pool[];
  const pools = all.filter((pool) => pool.spec.discipline === "rounds");
  if (pools.length === 0) return { pools: [] };
  const [waiting, running, events] = await Promise.all([
    ask("/runs", {}, { phase: "Pending", limit: RUNS }, signal),
    ask("/runs", {}, { phase: "Running", limit: RUNS }, signal),
    ask("/ledger/events", {}, { limit: EVENTS }, signal),
  ]);
  const runs = [...running.items, ...waiting.items] as unknown as Run[];
  const recorded = events.items as unknown as LedgerEvent[];
  return {
    pools: pools.map((pool) => {
      const name = pool.metadata.name;
      const round = recorded.findLast(
        (event) => event.tag.startsWith("round-shared") && event.pool === name,
      );
      return {
        pool,
        round: (round as unknown as Round) ?? null,
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
    show: ({ turn }) => percent(turn.share, 1),
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
                aside={<span class="quiet">{pool.spec.policy}</span>}
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
              `; one more was worth ${((round.prices[at] ?? 0) / PPM).toPrecision(3)} of the policy's objective`}
          </dd>
        </>
      ))}
    </dl>
  );
}
