/** One run: why it waits, when it starts, what would help, who paid, its story and its output. */

import { useRef, useState } from "preact/hooks";
import { ask, change } from "../api.ts";
import type { Explanation, Forecast } from "../api_types.ts";
import { type Contest, type QueueTerms, type Remedy, type Run, flavorsOf } from "../documents.ts";
import { away, duration, gpuHours, gpuHoursCell, number, percent, percentCell } from "../format.ts";
import { type LedgerEvent, useLive, useNow } from "../live.ts";
import { Link, pageOf } from "../router.tsx";
import { Await, Badge, Bar, Card, Confirm, Empty, Title, When, Words } from "../ui.tsx";
import { mayChange, useViewer } from "../viewer.ts";
import { Output } from "./output.tsx";
import { Remedies } from "./remedies.tsx";
import { Course } from "./course.tsx";
import { Tasks, countsText } from "./tasks.tsx";
import { scoreText } from "./waiting.tsx";

/** How many owners are named whose runs come first. */
const AHEAD_MAX = 5;
const OVER = new Set(["Completed", "Failed", "Cancelled"]);

interface Facts {
  run: Run;
  explanation: Explanation | null;
  forecast: Forecast | null;
}

async function load(name: string, signal: AbortSignal): Promise<Facts> {
  const run = (await ask("/runs/{name}", { name }, {}, signal)) as unknown as Run;
  if (run.status.tasks) return { run, explanation: null, forecast: null };
  if (OVER.has(run.status.phase)) {
    const explanation = await ask("/runs/{run}/explanation", { run: name }, {}, signal);
    return { run, explanation, forecast: null };
  }
  const [explanation, forecast] = await Promise.all([
    ask("/runs/{run}/explanation", { run: name }, {}, signal),
    ask("/runs/{run}/plan", { run: name }, {}, signal),
  ]);
  return { run, explanation, forecast };
}

export function RunPage({ name }: { name: string }) {
  const facts = useLive(
    `run ${name}`,
    (signal) => load(name, signal),
    (event) => (names(event, name) ? "now" : !isOver.current && isAboutPlans(event)),
  );
  const isOver = useRef(false);
  isOver.current = OVER.has(facts.value?.run.status.phase ?? "");
  const now = useNow();
  const who = useViewer();
  const [isCancelling, setCancelling] = useState(false);
  const run = facts.value?.run;
  const mayCancel = run && !OVER.has(run.status.phase) && mayChange(who, run.spec.owner);
  return (
    <>
      <Title title={name} sub={run && <Summary run={run} now={now} />}>
        {mayCancel && (
          <button type="button" class="danger" onClick={() => setCancelling(true)}>
            Cancel the run
          </button>
        )}
      </Title>
      {isCancelling && (
        <Confirm
          title={`Cancel ${name}?`}
          action="Cancel the run"
          danger
          onDo={async () => {
            await change("POST", "/runs/{name}/cancel", { name }, { note: "by the dashboard" });
            facts.reload();
          }}
          onClose={() => setCancelling(false)}
        >
          <p>
            Its processes get the stop signal and time to save. GPU-hours that were set aside and not
            used go back to the budget. The run does not start again.
          </p>
        </Confirm>
      )}
      <Await of={facts}>
        {({ run, explanation, forecast }) => (
          <div class="columns">
            <div>
              {run.status.tasks && (
                <Card title={countsText(run.status.tasks)}>
                  <Tasks array={name} now={now} />
                </Card>
              )}
              {run.status.phase === "Pending" && !run.status.tasks && <Waits run={run} forecast={forecast} terms={termsOf(explanation)} now={now} />}
              {forecast && <Odds contest={forecast.contest} />}
              {explanation && (
                <Remedies
                  run={run}
                  remedies={explanation.remedies as unknown as Remedy[]}
                  onDone={facts.reload}
                />
              )}
              {explanation && <WaitByCause explanation={explanation} />}
              <Paid run={run} />
              <Leases run={run} />
              {!run.status.tasks && <Story name={name} />}
            </div>
            <div>
              {!run.status.tasks && <Output name={name} phase={run.status.phase} />}
              <Card title="As submitted">
                <pre class="spec" tabIndex={0}>{JSON.stringify(run.spec, null, 2)}</pre>
              </Card>
            </div>
          </div>
        )}
      </Await>
    </>
  );
}

/** Returns whether `event` names the run itself. */
function names(event: LedgerEvent, run: string): boolean {
  return JSON.stringify(event).includes(JSON.stringify(run).slice(1, -1));
}

/** A start may move with any of these, whichever run it is about. */
function isAboutPlans(event: LedgerEvent): boolean {
  return /^(run|lease|reservation|conflict|budget|node|owner|pool|loan|round)/.test(event.tag);
}

function Summary({ run, now }: { run: Run; now: number }) {
  const { status, spec } = run;
  return (
    <>
      <Badge word={status.stopping ? "Stopping" : status.phase} />{" "}
      <Link to={["owners", spec.owner]}>{spec.owner}</Link>
      {spec.user && <> · {spec.user}</>} · {number(spec.resources.totalGPUs)} × {flavorsOf(run)} ·
      submitted <When at={status.submitted} /> ({away(status.submitted, now)})
      {status.note && <span class="note"> · <Words of={status.note} /></span>}
    </>
  );
}

/** Returns the terms of a run's place in the queue, where it waits. */
function termsOf(explanation: Explanation | null): QueueTerms | null {
  return (explanation?.queue ?? null) as unknown as QueueTerms | null;
}

interface WaitsProps {
  run: Run;
  forecast: Forecast | null;
  terms: QueueTerms | null;
  now: number;
}

function Waits({ run, forecast, terms, now }: WaitsProps) {
  const refusal = run.status.refusal;
  const start = forecast?.plannedStart ?? null;
  return (
    <Card title="Why it waits, and until when">
      <p class="lead">
        <Words of={refusal?.message ?? "It starts with the next decision."} />
      </p>
      {refusal?.shortages && refusal.shortages.length > 0 && (
        <ul class="short">
          {refusal.shortages.map((each) => (
            <li>
              <b>{each.where}</b>{" "}
              {each.wanted > 0
                ? `${number(each.available)} of ${number(each.wanted)} GPUs`
                : `can give ${number(each.available)} GPUs`}
              {each.short > 0 && <span class="bad"> {number(each.short)} short</span>}
              {each.limit && <small> {each.limit}</small>}
            </li>
          ))}
        </ul>
      )}
      <dl class="facts">
        <dt>Planned start</dt>
        <dd>
          {start === null ? (
            "none: waiting alone will not help"
          ) : (
            <>
              <When at={start} /> ({away(start, now)}) <Badge word={forecast?.planState ?? ""} />
            </>
          )}
        </dd>
        {forecast?.p50Start && forecast.p90Start && (
          <>
            <dt>Likely</dt>
            <dd>
              <When at={forecast.p50Start} /> in half of all cases, <When at={forecast.p90Start} /> in
              nine of ten
            </dd>
          </>
        )}
        {forecast?.byConflict && (
          <>
            <dt>By a conflict</dt>
            <dd>
              if room is not free by then; by itself{" "}
              {forecast.naturalStart ? <When at={forecast.naturalStart} /> : "never"}
            </dd>
          </>
        )}
        {forecast?.queuePosition != null && (
          <>
            <dt>In the queue</dt>
            <dd class="num">
              {number(forecast.queuePosition)} of {number(forecast.queueLength)}
            </dd>
          </>
        )}
        {terms && (
          <>
            <dt>Score</dt>
            <dd>
              <span class="num">{terms.score.toFixed(3)}</span>{" "}
              {terms.overBudget && <Badge word="over budget" tone="bad" />}
              <small class="below">{scoreText(terms)}</small>
            </dd>
          </>
        )}
        {terms?.ahead && terms.ahead.length > 0 && (
          <>
            <dt>Before it</dt>
            <dd>
              {terms.ahead.slice(0, AHEAD_MAX).map((each) => (
                <div>
                  {number(each.runs)} of {each.owner} <small class="num">score {each.score.toFixed(3)}</small>
                </div>
              ))}
              {terms.ahead.length > AHEAD_MAX && `and ${number(terms.ahead.length - AHEAD_MAX)} more owners`}
            </dd>
          </>
        )}
        {run.status.cutBy && (
          <>
            <dt>Cut by</dt>
            <dd>
              <Link to={["conflicts", run.status.cutBy]}>conflict {run.status.cutBy}</Link>
            </dd>
          </>
        )}
      </dl>
    </Card>
  );
}

function Odds({ contest }: { contest: Record<string, unknown> | null }) {
  const found = contest as unknown as Contest | null;
  if (!found?.tokens?.length) return null;
  return (
    <Card title="Whom its start could cost">
      <p>
        {number(found.deficit)} GPUs are short. If they still are at <When at={found.at} />, these are
        drawn for; each owner is as likely as any other to be drawn first.
      </p>
      <table class="plain">
        <thead>
          <tr>
            <th>Owner</th>
            <th>Run</th>
            <th class="right">GPUs</th>
            <th class="right">drawn first</th>
            <th class="right">cut, of {number(found.dummyDraws)} dummy draws</th>
          </tr>
        </thead>
        <tbody>
          {found.tokens.map((token) => (
            <tr key={`${token.owner}/${token.run}`}>
              <td>{token.owner}</td>
              <td>{token.run}</td>
              <td class="right num">{number(token.gpus)}</td>
              <td class="right num">{token.odds}</td>
              <td class="right num">{percentCell(token.dummyCuts ?? 0, found.dummyDraws)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Card>
  );
}

const CAUSES: Record<string, string> = {
  funding: "plan",
  quota: "owner-3",
  room: "wait",
  topology: "owner-5",
  reservation: "owner-2",
  rounds: "owner-6",
  upstream: "owner-7",
};

function WaitByCause({ explanation }: { explanation: Explanation }) {
  const wait = explanation.wait as { totalMs: number; byCause: { cause: string; ms: number }[] };
  if (wait.totalMs === 0) return null;
  return (
    <Card title="How long it waited, and for what" aside={<b class="num">{duration(wait.totalMs)}</b>}>
      <Bar
        label={wait.byCause.map((each) => `${each.cause} ${duration(each.ms)}`).join(", ")}
        total={wait.totalMs}
        parts={wait.byCause.map((each) => ({
          name: each.cause,
          value: each.ms,
          kind: CAUSES[each.cause] ?? "quiet",
        }))}
      />
      <ul class="legend">
        {wait.byCause.map((each) => (
          <li>
            <i class={CAUSES[each.cause] ?? "quiet"} /> {each.cause}{" "}
            <span class="num">{duration(each.ms)}</span>{" "}
            <small class="num">{percent(each.ms, wait.totalMs)}</small>
          </li>
        ))}
      </ul>
    </Card>
  );
}

function Paid({ run }: { run: Run }) {
  const payers = run.status.funding.payers;
  const total = payers.reduce((sum, payer) => sum + payer.spentGPUMs, 0);
  return (
    <Card title="Who paid" aside={<b class="num">{gpuHours(total)} GPU-hours</b>}>
      {payers.length === 0 ? (
        <Empty>Nothing yet: it has had no GPUs.</Empty>
      ) : (
        <table class="plain">
          <thead>
            <tr>
              <th>Envelope</th>
              <th>Tier</th>
              <th class="right">GPUs now</th>
              <th class="right">GPU-hours</th>
            </tr>
          </thead>
          <tbody>
            {payers.map((payer) => (
              <tr key={`${payer.envelope} ${payer.tier}`}>
                <td>
                  <Link to={["budgets", payer.envelope.split("/")[0] ?? ""]}>{payer.envelope}</Link>
                </td>
                <td>{payer.tier}</td>
                <td class="right num">{number(payer.gpus)}</td>
                <td class="right num">{gpuHoursCell(payer.spentGPUMs)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </Card>
  );
}

function Leases({ run }: { run: Run }) {
  const places = Object.entries(run.status.domains);
  if (places.length === 0) return null;
  return (
    <Card
      title="Where it runs"
      aside={<a href={`${pageOf("fleet")}?run=${encodeURIComponent(run.metadata.name)}`}>On the map</a>}
    >
      <ul class="short">
        {places.map(([domain, gpus]) => (
          <li>
            <b>{domain}</b> <span class="num">{number(gpus)} GPUs</span>
          </li>
        ))}
      </ul>
    </Card>
  );
}

function Story({ name }: { name: string }) {
  const events = useLive(
    `story ${name}`,
    (signal) => ask("/ledger/events", {}, { run: name, limit: 500 }, signal),
    (event) => (names(event, name) ? "now" : false),
  );
  return (
    <Card title="History">
      <Await of={events}>
        {(found) => (
          <>
            <Course events={found.items as unknown as LedgerEvent[]} />
            <ol class="events">
              {found.items.map((event) => (
                <li key={event.seq}>
                  <When at={event.at_ms} />
                  <div>
                    <Badge word={String(event.tag).split("/")[0] ?? ""} tone={toneOf(String(event.tag))} />{" "}
                    <span><Words of={event.text} /></span> <small>{event.actor}</small>
                  </div>
                </li>
              ))}
            </ol>
          </>
        )}
      </Await>
    </Card>
  );
}

function toneOf(tag: string): "good" | "bad" | "wait" | "plan" | "quiet" {
  if (tag.startsWith("lease-started")) return "good";
  if (tag.startsWith("run-refused") || tag.startsWith("run-requeued")) return "wait";
  if (tag.startsWith("reservation")) return "plan";
  if (tag.startsWith("lease-end") || tag.startsWith("conflict")) return "bad";
  return "quiet";
}
