/** The overview: how much of the fleet works, who waits first, and what happened last. */

import { ask } from "../api.ts";
import type { FlavorUse, Top } from "../api_types.ts";
import type { Run } from "../documents.ts";
import { duration, number, percent } from "../format.ts";
import { useLive, useNow } from "../live.ts";
import { Link } from "../router.tsx";
import { Await, Badge, Bar, Card, Empty, Title, When, Words } from "../ui.tsx";
import { PlanText, waitText } from "./waiting.tsx";

const FIRST = 8;
const LAST = 14;

export function OverviewPage() {
  const top = useLive("top", (signal) => ask("/top", {}, {}, signal), isAboutFleet);
  const queue = useLive("queue-head", (signal) => ask("/queue", {}, { limit: FIRST }, signal));
  const events = useLive("events-last", (signal) =>
    ask("/ledger/events", {}, { limit: LAST }, signal),
  );
  const now = useNow();
  return (
    <>
      <Title title="Overview" />
      <Await of={top}>{(value) => <Flavors top={value} />}</Await>
      <div class="columns">
        <Card title="First in the queue" aside={<Link to={["queue"]}>Whole queue</Link>}>
          <Await of={queue}>
            {(listing) =>
              listing.items.length === 0 ? (
                <Empty command="quorate submit --gpus 4 --team TEAM -- python train.py">
                  No run waits.
                </Empty>
              ) : (
                <ol class="list">
                  {(listing.items as unknown as Run[]).map((run) => (
                    <li key={run.metadata.name}>
                      <span class="num place">{run.status.queue?.position}</span>
                      <div>
                        <Link to={["runs", run.metadata.name]} class="name">
                          {run.metadata.name}
                        </Link>
                        <small>
                          {run.spec.owner} · {number(run.spec.resources.totalGPUs)} GPUs ·{" "}
                          {duration(now - Date.parse(run.status.submitted))}
                        </small>
                        <small class="why"><Words of={waitText(run)} /></small>
                      </div>
                      <PlanText run={run} now={now} />
                    </li>
                  ))}
                </ol>
              )
            }
          </Await>
        </Card>
        <Card title="Latest events" aside={<Link to={["ledger"]}>All events</Link>}>
          <Await of={events}>
            {(found) => (
              <ol class="events">
                {[...found.items].reverse().map((event) => (
                  <li key={event.seq}>
                    <When at={event.at_ms} />
                    <div>
                      <Badge word={String(event.tag).split("/")[0] ?? ""} /> <span><Words of={event.text} /></span>
                    </div>
                  </li>
                ))}
              </ol>
            )}
          </Await>
        </Card>
      </div>
    </>
  );
}

function isAboutFleet(event: { tag: string }): boolean {
  return /^(lease|run|node|pool)/.test(event.tag);
}

function Flavors({ top }: { top: Top }) {
  if (top.flavors.length === 0) {
    return <Empty command="quorate apply -f fleet.yaml">The fleet has no nodes yet.</Empty>;
  }
  return (
    <div class="flavors">
      {top.flavors.map((flavor) => (
        <Flavor flavor={flavor} key={flavor.flavor} />
      ))}
    </div>
  );
}

function Flavor({ flavor }: { flavor: FlavorUse }) {
  const { gpusUsed: used, gpusFree: free, gpusOutOfService: out, gpusTotal: total } = flavor;
  return (
    <section class="card flavor">
      <h2>{flavor.flavor}</h2>
      <p class="big num">
        {number(used)}
        <small> of {number(total)} GPUs in use</small>
      </p>
      <Bar
        label={`${used} of ${total} GPUs in use, ${free} free, ${out} out of service`}
        total={total}
        parts={[
          { name: "in use", value: used, kind: "good" },
          { name: "out of service", value: out, kind: "bad" },
        ]}
      />
      <dl>
        <dt>in use</dt>
        <dd class="num">{percent(used, total)}</dd>
        <dt>free</dt>
        <dd class="num">{number(free)}</dd>
        <dt>out of service</dt>
        <dd class="num">{number(out)}</dd>
        <dt>wanted by the queue</dt>
        <dd class="num">{number(flavor.gpusQueued)}</dd>
      </dl>
    </section>
  );
}
