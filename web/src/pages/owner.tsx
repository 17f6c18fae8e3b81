/** One owner: its shares, and the statement of a month, to be printed or saved. */

import { ask, saveCsv } from "../api.ts";
import type { OwnerShares, Statement } from "../api_types.ts";
import { Chart } from "../chart.tsx";
import type { Owner } from "../documents.ts";
import { gpuHoursCell, number, percent } from "../format.ts";
import { useLive } from "../live.ts";
import { Link, useParam } from "../router.tsx";
import { Await, Card, Empty, Title, When } from "../ui.tsx";
import { Share, scaleOf } from "./owners.tsx";

const THIS_MONTH = new Date().toISOString().slice(0, 7);

export function OwnerPage({ name }: { name: string }) {
  const [month, setMonth] = useParam("month", THIS_MONTH);
  const owner = useLive(
    `owner ${name}`,
    async (signal) => (await ask("/owners/{name}", { name }, {}, signal)) as unknown as Owner,
    (event) => /^(owner|lease|run|budget|threshold)/.test(event.tag),
  );
  const [days, setDays] = useParam("days", "7");
  const shares = useLive(
    `shares ${name} ${days}`,
    (signal) => ask("/owners/{name}/shares", { name }, { days }, signal),
    (event) => event.tag.startsWith("lease"),
  );
  const statement = useLive(
    `statement ${name} ${month}`,
    (signal) => ask("/statement", {}, { tenant: name, month }, signal),
    (event) => event.tag.startsWith("lease-ended"),
  );
  return (
    <>
      <Title title={name} sub="owner" />
      <Await of={owner}>{(value) => <Standing owner={value} />}</Await>
      <Card
        title="Share against target, over time"
        aside={
          <label class="choice">
            Days{" "}
            <select value={days} onChange={(event) => setDays(event.currentTarget.value)}>
              {["1", "7", "30", "365"].map((each) => (
                <option value={each}>{each}</option>
              ))}
            </select>
          </label>
        }
      >
        <Await of={shares}>{(value) => <Shares found={value} />}</Await>
      </Card>
      <Card
        title={`Statement of ${month}`}
        aside={
          <div class="actions">
            <label>
              Month{" "}
              <input
                type="month"
                value={month}
                max={THIS_MONTH}
                onChange={(event) => setMonth(event.currentTarget.value || THIS_MONTH)}
              />
            </label>
            <button
              type="button"
              class="plain"
              onClick={() => void saveCsv("/statement", { tenant: name, month }, `${name}-${month}.csv`)}
            >
              Save CSV
            </button>
            <button type="button" class="plain" onClick={() => print()}>
              Print
            </button>
          </div>
        }
      >
        <Await of={statement}>{(value) => <Stated statement={value} />}</Await>
      </Card>
    </>
  );
}

/** How each field of a quota is called here, and how its value is written. */
const QUOTAS: Record<string, [string, (value: number) => string]> = {
  maxNodes: ["Nodes at most", number],
  maxConcurrentRuns: ["Runs at most at a time", number],
  gpuHoursBudget: ["Budget of GPU-hours", number],
  nodeHoursBudget: ["Budget of node-hours", number],
  fairShareTarget: ["Target share", (value) => percent(value, 1)],
  burstAllowance: ["May come to", (value) => `${value} times its target on an idle fleet`],
};

function Standing({ owner }: { owner: Owner }) {
  const { status } = owner;
  return (
    <div class="columns">
      <Card title="Share against target">
        {status.shares.length === 0 ? (
          <Empty>It has no share yet: none of its runs had GPUs lately.</Empty>
        ) : (
          status.shares.map((share) => (
            <div>
              <p>
                <b>{share.flavor}</b>: {percent(share.share, 1)} (
                {percent(share.instantShare, 1)} now, {percent(share.decayedShare, 1)} lately), target{" "}
                {percent(share.effectiveTarget, 1)}
              </p>
              <Share share={share.share} target={share.effectiveTarget} most={scaleOf(owner.status.shares)} />
            </div>
          ))
        )}
      </Card>
      <Card title="Runs">
        <dl class="facts">
          <dt>GPUs now</dt>
          <dd class="num">{number(status.activeGPUs)}</dd>
          <dt>Running</dt>
          <dd>
            <Names names={status.running} />
          </dd>
          <dt>Waiting</dt>
          <dd>
            <Names names={status.pending} />
          </dd>
          <dt>Budget of hours used</dt>
          <dd class="num">
            {status.budgetUsed === null ? "it has no such budget" : percent(status.budgetUsed, 1)}
          </dd>
          {owner.spec.quota && (
            <>
              {Object.entries(owner.spec.quota).map(([field, value]) => (
                <>
                  <dt>{QUOTAS[field]?.[0] ?? field}</dt>
                  <dd class="num">{QUOTAS[field]?.[1](Number(value)) ?? String(value)}</dd>
                </>
              ))}
            </>
          )}
        </dl>
      </Card>
    </div>
  );
}

/** A chart for each flavor: what the owner had of it, and the target of now. */
function Shares({ found }: { found: OwnerShares }) {
  if (found.flavors.length === 0) return <Empty>None of its runs has had GPUs.</Empty>;
  const until = Date.parse(found.until) / 1_000;
  return (
    <div class="charts">
      {found.flavors.map((each) => {
        const xs = [...found.stepsMs.map((ms) => ms / 1_000), until];
        const held = each.shares.map((share) => 100 * share);
        const target = xs.map(() => 100 * each.effectiveTarget);
        const last = each.shares.at(-1) ?? 0;
        return (
          <figure key={each.flavor}>
            <figcaption>
              <b>{each.flavor}</b> in percent of {number(each.gpus)} GPUs
            </figcaption>
            <Chart
              label={`${each.flavor}: ${percent(last, 1)} in the last hour or so, target ${percent(each.effectiveTarget, 1)}`}
              x="time"
              y="share"
              isTime
              isStepped
              xs={xs}
              ys={[...held, held.at(-1) ?? null]}
              more={[{ name: "target", ys: target, color: "--quiet", isDashed: true }]}
            />
          </figure>
        );
      })}
    </div>
  );
}

const NAMES_MAX = 12;

function Names({ names }: { names: string[] }) {
  if (names.length === 0) return <>-</>;
  return (
    <>
      {names.slice(0, NAMES_MAX).map((name, at) => (
        <>
          {at > 0 && ", "}
          <Link to={["runs", name]}>{name}</Link>
        </>
      ))}
      {names.length > NAMES_MAX && ` and ${number(names.length - NAMES_MAX)} more`}
    </>
  );
}

function Stated({ statement }: { statement: Statement }) {
  const { status } = statement;
  if (status.envelopes.length === 0) return <Empty>No envelope of this owner was open in that month.</Empty>;
  return (
    <>
      <p class="quiet">
        <When at={status.from} /> to <When at={status.until} />, in GPU-hours
        {!status.isOver && "; the month is not over"}
      </p>
      <div class="scroll" tabIndex={0} role="region" aria-label="Statement">
        <table class="plain stated">
          <thead>
            <tr>
              <th>Envelope</th>
              <th>Flavor</th>
              <th class="right">Granted</th>
              <th class="right">Before</th>
              <th class="right">In the month</th>
              <th class="right">Held</th>
              <th class="right">Free</th>
              <th class="right">Lent</th>
            </tr>
          </thead>
          <tbody>
            {status.envelopes.map((each) => (
              <tr key={each.name}>
                <td data-label="Envelope">{each.name}</td>
                <td data-label="Flavor">{each.flavor}</td>
                <td class="right num" data-label="Granted">{gpuHoursCell(each.grantedGPUMs)}</td>
                <td class="right num" data-label="Before">{gpuHoursCell(each.broughtForwardGPUMs)}</td>
                <td class="right num" data-label="In the month">{gpuHoursCell(each.spentInMonthGPUMs)}</td>
                <td class="right num" data-label="Held">{gpuHoursCell(each.heldGPUMs)}</td>
                <td class="right num" data-label="Free">{gpuHoursCell(each.freeGPUMs)}</td>
                <td class="right num" data-label="Lent">{gpuHoursCell(each.lentGPUMs)}</td>
              </tr>
            ))}
          </tbody>
          <tfoot>
            <tr>
              <th colSpan={2}>Total</th>
              <td class="right num" data-label="Granted">{gpuHoursCell(status.total.grantedGPUMs)}</td>
              <td class="right num" />
              <td class="right num" data-label="In the month">{gpuHoursCell(status.total.spentInMonthGPUMs)}</td>
              <td class="right num" data-label="Held">{gpuHoursCell(status.total.heldGPUMs)}</td>
              <td class="right num" data-label="Free">{gpuHoursCell(status.total.freeGPUMs)}</td>
              <td class="right num" data-label="Lent">{gpuHoursCell(status.total.lentGPUMs)}</td>
            </tr>
          </tfoot>
        </table>
      </div>
      {status.borrowed.length > 0 && (
        <div class="scroll" tabIndex={0} role="region" aria-label="Borrowed">
          <table class="plain stated">
            <thead>
              <tr>
                <th>Borrowed from</th>
                <th>Envelope</th>
                <th>By</th>
                <th class="right">In the month</th>
              </tr>
            </thead>
            <tbody>
              {status.borrowed.map((each) => (
                <tr key={`${each.borrower} ${each.envelope}`}>
                  <td data-label="Borrowed from">{each.lender}</td>
                  <td data-label="Envelope">{each.envelope}</td>
                  <td data-label="By">{each.borrower}</td>
                  <td class="right num" data-label="In the month">{gpuHoursCell(each.spentGPUMs)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </>
  );
}
