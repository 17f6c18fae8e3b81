/** The ledger: what was recorded, and whether it is what was written, checked in the browser. */

import { useState } from "preact/hooks";
import { addressOf, ask, save, send, wordsOf } from "../api.ts";
import type { EventListed } from "../api_types.ts";
import { Checkpoints } from "./checkpoints.tsx";
import { type Verified, linesOf, verify } from "../chain.ts";
import { number } from "../format.ts";
import { useLive } from "../live.ts";
import { whyNot } from "../lottery.ts";
import { useParam } from "../router.tsx";
import { Await, Badge, Card, type Column, Empty, Table, Title, When, Words } from "../ui.tsx";
import { oversees, useViewer } from "../viewer.ts";

const PAGE = 200;

const COLUMNS: Column<EventListed>[] = [
  { title: "Seq", right: true, value: (each) => each.seq, show: (each) => number(each.seq) },
  { title: "Time", value: (each) => each.at_ms, show: (each) => <When at={each.at_ms} /> },
  { title: "Actor",
    wide: true, value: (each) => each.actor, show: (each) => each.actor },
  {
    title: "Event",
    value: (each) => each.tag,
    show: (each) => <Badge word={each.tag.split("/")[0] ?? ""} />,
  },
  {
    title: "What",
    value: (each) => each.text,
    show: (each) => (
      <details class="raw">
        <summary>
          <Words of={each.text} />
        </summary>
        <pre>{JSON.stringify(each, null, 2)}</pre>
      </details>
    ),
  },
  {
    title: "Block",
    wide: true,
    right: true,
    value: (each) => each.block.height,
    show: (each) => <span title={each.block.hash}>{number(each.block.height)}</span>,
  },
];

export function LedgerPage() {
  const [about, setAbout] = useParam("about");
  const [typed, setTyped] = useState(about);
  const [from, setFrom] = useParam("from");
  const events = useLive(`ledger ${about} ${from}`, (signal) =>
    ask("/ledger/events", {}, { about, limit: PAGE, from }, signal),
  );
  return (
    <>
      <Title title="Ledger" sub="Everything that was decided, in order; each block is sealed over the one before it." />
      <div class="columns">
        <Verification />
        <Checkpoints />
      </div>
      <form
        class="tools search"
        onSubmit={(event) => {
          event.preventDefault();
          setFrom("");
          setAbout(typed.trim());
        }}
      >
        <label for="about">About</label>
        <input
          id="about"
          type="search"
          placeholder="run/NAME, node/NAME, reservation/NAME"
          value={typed}
          onInput={(event) => setTyped(event.currentTarget.value)}
        />
        <button type="submit">Search</button>
        <button type="button" class="plain" onClick={() => setFrom(from ? "" : "1")}>
          {from ? "Show the newest" : "Show from the beginning"}
        </button>
      </form>
      <Await of={events}>
        {(found) => (
          <>
            <Table
              name="ledger"
              columns={COLUMNS}
              rows={from ? found.items : [...found.items].reverse()}
              keyOf={(each) => String(each.seq)}
              empty={<Empty>There are no such events that you may see.</Empty>}
            />
            {from && (
              <button type="button" onClick={() => setFrom(String(found.next))}>
                Read on from {number(found.next)}
              </button>
            )}
          </>
        )}
      </Await>
    </>
  );
}

type Verdict = { verified: Verified; of: string } | { fault: string; of: string };

function Verification() {
  const who = useViewer();
  const [progress, setProgress] = useState("");
  const [verdict, setVerdict] = useState<Verdict | null>(null);
  const run = async (of: string, body: Promise<ReadableStream<Uint8Array>>): Promise<void> => {
    setVerdict(null);
    setProgress("reading…");
    try {
      const told = (blocks: number): void => setProgress(`${number(blocks)} blocks…`);
      setVerdict({ of, verified: await verify(linesOf(await body), told) });
    } catch (error) {
      setVerdict({ of, fault: wordsOf(error) });
    }
    setProgress("");
  };
  const own = async (): Promise<ReadableStream<Uint8Array>> => {
    const response = await send(addressOf("/ledger/export"));
    if (response.body === null) throw new Error("the export has no body");
    return response.body;
  };
  const download = async (): Promise<void> => {
    const response = await send(addressOf("/ledger/export"));
    save(await response.blob(), "export.jsonl");
  };
  const missing = whyNot();
  return (
    <Card title="Is it what was written?">
      <p>
        Your browser hashes every block over the one before it, compares every event with the hashed
        bytes and draws every lottery again. A file that was edited anywhere is found out.
      </p>
      {missing ? (
        <p class="fault">{missing}</p>
      ) : (
        <div class="tools">
          {oversees(who) && (
            <>
              <button type="button" class="primary" disabled={progress !== ""} onClick={() => void run("this ledger", own())}>
                Check this ledger here
              </button>
              <button type="button" class="plain" onClick={() => void download()}>
                Save an export
              </button>
            </>
          )}
          <label class="file">
            Check an export:{" "}
            <input
              type="file"
              accept=".jsonl,application/x-ndjson"
              onChange={(event) => {
                const file = event.currentTarget.files?.[0];
                if (file) void run(file.name, Promise.resolve(file.stream()));
              }}
            />
          </label>
          <span role="status" class="num">{progress}</span>
        </div>
      )}
      {verdict && (
        <div role="status" class={`verdict ${"fault" in verdict ? "bad" : "good"}`}>
          {"fault" in verdict ? (
            <>
              <b>{verdict.of} does not verify.</b> {verdict.fault}
            </>
          ) : (
            <>
              <b>{verdict.of} verifies.</b> {number(verdict.verified.events)} events in{" "}
              {number(verdict.verified.blocks)} blocks, {number(verdict.verified.lotteries)} lotteries
              drawn again. <code>{verdict.verified.hash}</code>
            </>
          )}
        </div>
      )}
    </Card>
  );
}
