/** One conflict: who entered, with which odds, what was drawn, and the same draw made here. */

import { useState } from "preact/hooks";
import { ask, wordsOf } from "../api.ts";
import type { Outcome } from "../documents.ts";
import { gpuHours, number } from "../format.ts";
import { type LedgerEvent, useLive } from "../live.ts";
import { type Check, type Declared, type Resolved, check, whyNot } from "../lottery.ts";
import { Link } from "../router.tsx";
import { Await, Badge, Card, Empty, Title, When } from "../ui.tsx";

export function ConflictPage({ name }: { name: string }) {
  const found = useLive(
    `conflict ${name}`,
    (signal) => ask("/resolver/outcomes/{name}", { name }, {}, signal),
    (event) => event.tag.startsWith("conflict"),
  );
  return (
    <>
      <Title title={`Conflict ${name}`} />
      <Await of={found}>
        {(value) => {
          const outcome = value as unknown as Outcome;
          return (
            <div class="columns">
              <div>
                <Facts outcome={outcome} />
                <Entered outcome={outcome} />
              </div>
              <div>
                <Drawn outcome={outcome} />
                <CheckIt name={name} outcome={outcome} />
              </div>
            </div>
          );
        }}
      </Await>
    </>
  );
}

/** The run for whose start a conflict was declared, or what else it was declared for. */
export function Sought({ reservation, cause }: { reservation: string | null; cause: string }) {
  if (!reservation) return <>{cause}</>;
  const run = reservation.slice(0, reservation.lastIndexOf("@"));
  return <Link to={["runs", run]}>{run}</Link>;
}

function Facts({ outcome: { spec, status } }: { outcome: Outcome }) {
  return (
    <Card title="What it was about" aside={<Badge word={status.outcome} />}>
      <dl class="facts">
        <dt>For</dt>
        <dd>
          <Sought reservation={spec.reservation} cause={spec.cause} />
        </dd>
        <dt>Where</dt>
        <dd>
          {spec.scope.flavor} in {spec.scope.domains.join(", ") || "every domain"}
          {spec.scope.limit && `, ${spec.scope.limit}`}
        </dd>
        <dt>Short</dt>
        <dd class="num">{number(spec.deficit)} GPUs</dd>
        <dt>Declared</dt>
        <dd>
          <When at={spec.declared} />
        </dd>
        <dt>Settled</dt>
        <dd>{status.resolved ? <When at={status.resolved} /> : "not yet"}</dd>
        <dt>Work lost</dt>
        <dd class="num">{gpuHours(status.lostGPUMs)} GPU-hours</dd>
      </dl>
    </Card>
  );
}

function Entered({ outcome: { spec, status } }: { outcome: Outcome }) {
  const drawn = new Map(status.draws.map((each) => [each.run, each.spared ? "spared" : "cut"]));
  return (
    <Card title="Who entered" aside={<span class="num">{spec.tokens.length}</span>}>
      {spec.tokens.length === 0 ? (
        <Empty>No run entered: the structural cuts were enough.</Empty>
      ) : (
        <div class="scroll" tabIndex={0} role="region" aria-label="Who entered">
        <table class="plain">
          <thead>
            <tr>
              <th>Owner</th>
              <th class="right wide">Owner's odds</th>
              <th>Run</th>
              <th class="right wide">GPUs</th>
              <th class="right">Run's odds</th>
              <th>Result</th>
            </tr>
          </thead>
          <tbody>
            {spec.tokens.map((token) => (
              <tr key={`${token.owner}/${token.run}`}>
                <td>
                  <Link to={["owners", token.owner]}>{token.owner}</Link>
                </td>
                <td class="right num wide">{token.ownerOdds}</td>
                <td>
                  <Link to={["runs", token.run]}>{token.run}</Link>
                </td>
                <td class="right num wide">{number(token.gpus)}</td>
                <td class="right num">{token.odds}</td>
                <td>
                  {drawn.has(token.run) ? (
                    <Badge word={drawn.get(token.run) ?? ""} tone={drawn.get(token.run) === "cut" ? "bad" : "wait"} />
                  ) : (
                    "not drawn"
                  )}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
        </div>
      )}
    </Card>
  );
}

function Drawn({ outcome: { spec, status } }: { outcome: Outcome }) {
  return (
    <Card title="What was drawn, and by what">
      {status.seed ? (
        <dl class="facts hashes">
          <dt>Committed link {spec.preimageIndex - 1}</dt>
          <dd>
            <code>{spec.commitment}</code>
          </dd>
          <dt>Revealed link {spec.preimageIndex}</dt>
          <dd>
            <code>{status.preimage}</code>
          </dd>
          <dt>Seed</dt>
          <dd>
            <code>{status.seed}</code>
          </dd>
          <dt>Draws</dt>
          <dd>
            <ol>
              {status.draws.map((each) => (
                <li>
                  {each.run} of {each.owner} {each.spared && <Badge word="spared" tone="wait" />}
                </li>
              ))}
            </ol>
          </dd>
        </dl>
      ) : (
        <Empty>Nothing was drawn, so no link of the chain was revealed.</Empty>
      )}
    </Card>
  );
}

/** Returns the two events of a conflict, as the ledger has them. */
async function recorded(name: string): Promise<[Declared, Resolved]> {
  const found = await ask("/ledger/events", {}, { about: `resolveroutcome/${name}` });
  const events = found.items as unknown as LedgerEvent[];
  const declared = events.find((event) => event.tag.startsWith("conflict-declared"));
  const resolved = events.find((event) => event.tag.startsWith("conflict-resolved"));
  if (!declared || !resolved) throw new Error("the ledger shows you no such declaration and outcome");
  return [
    {
      scope: declared.scope as Declared["scope"],
      reservation: String(declared.reservation),
      dueMs: Number(declared.due_ms),
      attempt: Number(declared.attempt),
      commitment: String(declared.commitment),
      tokens: (declared.tokens as [string, string, number, string][]).map(([owner, run, , nonce]) => ({
        owner,
        run,
        nonce,
      })),
    },
    {
      preimage: String(resolved.preimage),
      beacon: String(resolved.beacon),
      seed: String(resolved.seed),
      draws: (resolved.draws as [string, string, boolean][]).map(([owner, run, spared]) => ({
        owner,
        run,
        spared,
      })),
    },
  ];
}

function CheckIt({ name, outcome }: { name: string; outcome: Outcome }) {
  const [found, setFound] = useState<Check | null>(null);
  const [fault, setFault] = useState("");
  if (!outcome.status.seed) return null;
  const run = async (): Promise<void> => {
    try {
      setFound(await check(...(await recorded(name))));
      setFault("");
    } catch (error) {
      setFault(wordsOf(error));
    }
  };
  const missing = whyNot();
  return (
    <Card title="Check it yourself">
      <p>
        Your browser reads the two events of this conflict from the ledger, hashes the revealed link,
        computes the seed and draws again. It trusts the events, and nothing else of the service.
      </p>
      {missing ? (
        <p class="fault">{missing}</p>
      ) : (
        <button type="button" class="primary" onClick={() => void run()}>
          Draw again here
        </button>
      )}
      {fault && <p class="fault" role="alert">{fault}</p>}
      {found && (
        <div role="status" class={`verdict ${found.faults.length ? "bad" : "good"}`}>
          {found.faults.length === 0 ? (
            <>
              <b>The same draw.</b> {found.draws.map((each) => `${each.run} of ${each.owner}`).join(", ")}
            </>
          ) : (
            <>
              <b>Not the same.</b> {found.faults.join("; ")}. You may not see every entrant: ask an
              auditor to check it.
            </>
          )}
          <code>{found.seed}</code>
        </div>
      )}
    </Card>
  );
}
