/** One budget: each envelope burnt down against its window, and what another limit would change. */

import { useMemo, useState } from "preact/hooks";
import { ask, change, wordsOf } from "../api.ts";
import type { Outcome as Answered, Statement } from "../api_types.ts";
import { Chart } from "../chart.tsx";
import type { Budget } from "../documents.ts";
import { gpuHours, gpuHoursCell, number, percent } from "../format.ts";
import { useLive } from "../live.ts";
import { Link } from "../router.tsx";
import { Await, Badge, Bar, Card, Confirm, Empty, Title, When } from "../ui.tsx";
import { useViewer } from "../viewer.ts";
import { type Envelope, Spending, envelopesOf } from "./budgets.tsx";

const MONTHS_BACK = 5;
const MS_PER_HOUR = 3_600_000;

interface Found {
  budget: Budget;
  statements: Statement[];
}

/** Returns the last months since `first`, the oldest first, as statements take them: `2026-03`. */
export function lastMonths(now: Date, first: Date, count: number): string[] {
  const months = Array.from({ length: count + 1 }, (_, back) => {
    const at = new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - (count - back), 1));
    return at.toISOString().slice(0, 7);
  });
  return months.filter((month) => month >= first.toISOString().slice(0, 7));
}

async function load(name: string, signal: AbortSignal): Promise<Found> {
  const [found, begun] = await Promise.all([
    ask("/budgets/{name}", { name }, {}, signal),
    ask("/ledger/events", {}, { from: 1, limit: 1 }, signal),
  ]);
  const budget = found as unknown as Budget;
  const now = new Date();
  const months = lastMonths(now, new Date(begun.items[0]?.at_ms ?? now), MONTHS_BACK);
  const statements = await Promise.all(months.map((month) => ask("/statement", {}, { month }, signal)));
  return { budget, statements };
}

export function BudgetPage({ name }: { name: string }) {
  const found = useLive(`budget ${name}`, (signal) => load(name, signal), (event) =>
    /^(budget|lease|hold)/.test(event.tag),
  );
  const owner = found.value?.budget.spec.owner;
  return (
    <>
      <Title title={name} sub={owner && `budget of ${owner}`} />
      <Await of={found}>
        {({ budget, statements }) => (
          <>
            {envelopesOf([budget]).map((envelope) => (
              <EnvelopeCard
                key={envelope.spec.name}
                envelope={envelope}
                statements={statements}
                onDone={found.reload}
              />
            ))}
            <Borrowed owner={budget.spec.owner} statement={statements.at(-1)} />
          </>
        )}
      </Await>
    </>
  );
}

interface CardProps {
  envelope: Envelope;
  statements: Statement[];
  onDone: () => void;
}

function EnvelopeCard({ envelope, statements, onDone }: CardProps) {
  const { spec, status } = envelope;
  const limit = spec.lending?.allow ? spec.lending : null;
  return (
    <Card
      title={`${envelope.budget}/${spec.name}`}
      aside={<Badge word={status.usable ? "pays" : "does not pay"} tone={status.usable ? "good" : "bad"} />}
    >
      <div class="columns">
        <div>
          <Spending status={status} />
          {status.grantedGPUMs !== null && (
            <ul class="legend">
              <li>
                <i class="accent" /> spent
              </li>
              <li>
                <i class="plan" /> held
              </li>
              <li>
                <i class="free" /> free
              </li>
            </ul>
          )}
          <dl class="facts">
            <dt>Flavor</dt>
            <dd>{spec.flavor}</dd>
            <dt>Where</dt>
            <dd>
              {Object.entries(spec.selector ?? {})
                .map(([key, value]) => `${key}=${value}`)
                .join(", ") || "everywhere"}
            </dd>
            <dt>Window</dt>
            <dd>
              <When at={spec.start} /> to <When at={spec.end} />
            </dd>
            <dt>Granted</dt>
            <dd class="num">
              {status.grantedGPUMs === null ? "no limit" : `${gpuHours(status.grantedGPUMs)} GPU-hours`}
            </dd>
            <dt>Spent</dt>
            <dd class="num">{gpuHours(status.spentGPUMs)} GPU-hours</dd>
            <dt>Held for running work</dt>
            <dd class="num">{gpuHours(status.heldGPUMs)} GPU-hours</dd>
            <dt>GPUs now</dt>
            <dd class="num">
              {number(status.activeGPUs)} of {number(spec.concurrency)}
              {status.reservedGPUs > 0 && `, ${number(status.reservedGPUs)} reserved`}
            </dd>
            <dt>Lent</dt>
            <dd class="num">
              {limit
                ? `${number(status.lentGPUs)} of ${limit.maxConcurrency ? number(limit.maxConcurrency) : "any"} GPUs to ${(limit.to ?? []).join(", ") || "all"}; ${gpuHours(status.lentGPUMs)} GPU-hours used or held`
                : "it does not lend"}
            </dd>
          </dl>
        </div>
        <div>
          <BurnDown envelope={envelope} statements={statements} />
          <UsedBy envelope={envelope} statement={statements.at(-1)} />
          <WhatIf envelope={envelope} onDone={onDone} />
        </div>
      </div>
    </Card>
  );
}

interface Points {
  xs: number[];
  left: (number | null)[];
  even: (number | null)[];
  ahead: (number | null)[];
}

/** Returns what is left of an envelope by time: as it was, as it would be evenly, and at this pace. */
export function burnDown(envelope: Envelope, statements: Statement[], now: number): Points | null {
  const granted = envelope.status.grantedGPUMs;
  if (granted === null) return null;
  const [start, end] = [Date.parse(envelope.spec.start), Date.parse(envelope.spec.end)];
  const name = `${envelope.budget}/${envelope.spec.name}`;
  const known = new Map<number, number>([[now, granted - envelope.status.spentGPUMs]]);
  for (const statement of statements) {
    const stated = statement.status.envelopes.find((each) => each.name === name);
    const from = Date.parse(statement.status.from);
    if (stated && from > start) known.set(from, granted - stated.broughtForwardGPUMs);
  }
  const perMs = envelope.status.activeGPUs;
  const leftNow = granted - envelope.status.spentGPUMs;
  const emptyAt = perMs > 0 ? now + leftNow / perMs : Number.POSITIVE_INFINITY;
  const first = Math.max(start, Math.min(...known.keys()));
  const last = Math.min(end, Math.max(now + 30 * 24 * MS_PER_HOUR, now + (now - first)));
  const times = [...new Set([first, ...known.keys(), Math.min(emptyAt, last), last])].sort((a, b) => a - b);
  const evenly = (at: number): number => granted * (1 - (at - start) / (end - start));
  return {
    xs: times.map((at) => at / 1_000),
    left: times.map((at) => (known.has(at) ? (known.get(at) as number) / MS_PER_HOUR : null)),
    even: times.map((at) => evenly(at) / MS_PER_HOUR),
    ahead: times.map((at) =>
      at < now ? null : Math.max(0, leftNow - (at - now) * perMs) / MS_PER_HOUR,
    ),
  };
}

function BurnDown({ envelope, statements }: { envelope: Envelope; statements: Statement[] }) {
  const points = useMemo(() => burnDown(envelope, statements, Date.now()), [envelope, statements]);
  if (points === null) return <Empty>It has no limit of GPU-hours, so nothing burns down.</Empty>;
  return (
    <>
      <p class="quiet">GPU-hours left</p>
      <Chart
        label={`GPU-hours left of ${envelope.budget}/${envelope.spec.name}: ${gpuHours(envelope.status.freeGPUMs ?? 0)}`}
        x="time"
        y="left"
        isTime
        xs={points.xs}
        ys={points.left}
        more={[
          { name: "at this pace", ys: points.ahead, color: "--accent", isDashed: true },
          { name: "evenly spent", ys: points.even, color: "--quiet", isDashed: true },
        ]}
      />
    </>
  );
}

/** Each tier: what it is called here, and the colour that it has in bars. */
const TIERS: Record<string, { words: string; kind: string }> = {
  owned: { words: "its owner", kind: "good" },
  shared: { words: "its family", kind: "accent" },
  borrowed: { words: "lent to others", kind: "plan" },
};

/** Who used an envelope this month: its owner, the family, and those who borrow from it. */
function UsedBy({ envelope, statement }: { envelope: Envelope; statement: Statement | undefined }) {
  const name = `${envelope.budget}/${envelope.spec.name}`;
  const used = statement?.status.envelopes.find((each) => each.name === name)?.usedBy ?? [];
  const sums = new Map<string, number>(Object.keys(TIERS).map((tier) => [tier, 0]));
  for (const each of used) sums.set(each.tier, (sums.get(each.tier) ?? 0) + each.spentGPUMs);
  const total = [...sums.values()].reduce((sum, each) => sum + each, 0);
  if (total === 0) return <p class="quiet apart">No GPU-hours were used of it this month.</p>;
  const parts = [...sums].map(([tier, value]) => ({
    name: TIERS[tier]?.words ?? tier,
    value,
    kind: TIERS[tier]?.kind ?? "quiet",
  }));
  return (
    <>
      <p class="quiet apart">GPU-hours used this month, by whom</p>
      <Bar
        label={parts.map((part) => `${part.name} ${gpuHours(part.value)}`).join(", ")}
        total={total}
        parts={parts}
      />
      <ul class="legend">
        {parts.map((part) => (
          <li key={part.name}>
            <i class={part.kind} /> {part.name} <span class="num">{gpuHours(part.value)}</span>
          </li>
        ))}
      </ul>
    </>
  );
}

/** What the owner of a budget used this month of the envelopes of others. */
export function Borrowed({ owner, statement }: { owner: string; statement: Statement | undefined }) {
  const rows = statement?.status.borrowed.filter((each) => each.borrower === owner) ?? [];
  if (rows.length === 0) return null;
  return (
    <Card title={`Borrowed by ${owner} this month`}>
      <table class="plain">
        <thead>
          <tr>
            <th>From</th>
            <th>Envelope</th>
            <th class="right">GPU-hours</th>
          </tr>
        </thead>
        <tbody>
          {rows.map((each) => (
            <tr key={each.envelope}>
              <td>{each.lender}</td>
              <td>
                <Link to={["budgets", each.envelope.split("/")[0] ?? ""]}>{each.envelope}</Link>
              </td>
              <td class="right num">{gpuHoursCell(each.spentGPUMs)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Card>
  );
}

/** Returns the effect of a change, in a sentence. */
function effectText(effect: Record<string, unknown> | undefined): string {
  const words: [string, string][] = [
    ["started", "starts"],
    ["stopped", "stops"],
    ["shrunk", "shrinks"],
    ["grown", "grows"],
    ["starts", "moves the start of"],
    ["mayStop", "may stop by lot"],
  ];
  const parts = words.flatMap(([field, verb]) => {
    const found = (effect?.[field] ?? []) as (string | { run: string })[];
    const names = found.map((each) => (typeof each === "string" ? each : each.run));
    if (names.length === 0) return [];
    const more = names.length > 3 ? ` and ${names.length - 3} more` : "";
    return [`${verb} ${names.slice(0, 3).join(", ")}${more}`];
  });
  return parts.length ? parts.join("; ") : "changes nothing for any run now";
}

function WhatIf({ envelope, onDone }: { envelope: Envelope; onDone: () => void }) {
  const who = useViewer();
  const now = envelope.spec.concurrency;
  const [gpus, setGpus] = useState(now);
  const [answer, setAnswer] = useState("");
  const [isAsking, setAsking] = useState(false);
  if (who.role !== "admin" && who.role !== "tenant-admin") return null;
  const assignments = [`spec.envelopes[${envelope.spec.name}].concurrency=${gpus}`];
  const ask = async (): Promise<void> => {
    try {
      const found = await change<Answered>(
        "PATCH",
        "/budgets/{name}",
        { name: envelope.budget },
        { assignments },
        { dryRun: true },
      );
      const warnings = found.warnings.map((each) => ` Warning: ${each}.`).join("");
      setAnswer(`It ${effectText(found.effect)}.${warnings}`);
    } catch (error) {
      setAnswer(wordsOf(error));
    }
  };
  const id = `what-if-${envelope.budget}-${envelope.spec.name}`;
  return (
    <div class="whatif">
      <label for={id}>
        What if it paid for <b class="num">{number(gpus)}</b> GPUs at once
        {gpus !== now && ` (${gpus > now ? "+" : ""}${percent(gpus - now, now)})`}?
      </label>
      <input
        id={id}
        type="range"
        min={0}
        max={Math.max(8, now * 3)}
        value={gpus}
        onInput={(event) => {
          setGpus(Number(event.currentTarget.value));
          setAnswer("");
        }}
        onChange={() => void ask()}
      />
      {answer && <p role="status">{answer}</p>}
      {gpus !== now && answer && (
        <button type="button" onClick={() => setAsking(true)}>
          Set it to {number(gpus)}
        </button>
      )}
      {isAsking && (
        <Confirm
          title={`Set concurrency to ${number(gpus)}?`}
          action="Set it"
          onDo={async () => {
            await change("PATCH", "/budgets/{name}", { name: envelope.budget }, { assignments });
            setAnswer("");
            onDone();
          }}
          onClose={() => setAsking(false)}
        >
          <p>{answer}</p>
          <code class="block">
            quorate patch budget {envelope.budget} --set '{assignments[0]}'
          </code>
        </Confirm>
      )}
    </div>
  );
}
