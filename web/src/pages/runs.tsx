/** Runs, the newest first. */

import { useState } from "preact/hooks";
import { ask, wordsOf } from "../api.ts";
import { type Run, flavorsOf } from "../documents.ts";
import { duration, gpuHoursCell, number } from "../format.ts";
import { useLive, useNow } from "../live.ts";
import { Link, useParam } from "../router.tsx";
import { Await, Badge, type Column, Empty, Table, Title } from "../ui.tsx";
import { OwnerChoice, OwnerLink } from "./queue.tsx";
import { Tasks, countsText } from "./tasks.tsx";

const PAGE = 100;
const AGES_MS = 5_000;
const PHASES = ["Pending", "Running", "Completed", "Failed", "Cancelled"];

/** Returns a page of the newest runs, of which the service gives the oldest first. */
function newestFirst(items: Record<string, unknown>[]): Run[] {
  return (items as unknown as Run[]).toReversed();
}

export function RunsPage() {
  const [owner, setOwner] = useParam("owner");
  const [phase, setPhase] = useParam("phase");
  const [more, setMore] = useState<{ rows: Run[]; next: string | undefined } | null>(null);
  const [fault, setFault] = useState("");
  const now = useNow(AGES_MS);
  const asked = { owner, phase, newest: true, grouped: true, limit: PAGE };
  const first = useLive(
    `runs ${owner} ${phase}`,
    (signal) => ask("/runs", {}, asked, signal),
    (event) => /^(run|lease)/.test(event.tag),
  );
  const readOn = async (cursor: string): Promise<void> => {
    try {
      const found = await ask("/runs", {}, { ...asked, cursor });
      const rows = [...(more?.rows ?? []), ...newestFirst(found.items)];
      setMore({ rows, next: found.next });
    } catch (error) {
      setFault(wordsOf(error));
    }
  };
  return (
    <>
      <Title title="Runs">
        <label class="choice">
          Phase{" "}
          <select
            value={phase}
            onChange={(event) => {
              setMore(null);
              setPhase(event.currentTarget.value);
            }}
          >
            <option value="">all</option>
            {PHASES.map((each) => (
              <option value={each}>{each}</option>
            ))}
          </select>
        </label>
        <OwnerChoice
          owner={owner}
          onChoose={(next) => {
            setMore(null);
            setOwner(next);
          }}
        />
      </Title>
      <Await of={first}>
        {(listing) => {
          const next = more ? more.next : listing.next;
          return (
            <>
              <Table
                name="runs"
                columns={columns(now)}
                rows={[...newestFirst(listing.items), ...(more?.rows ?? [])]}
                keyOf={(run) => run.metadata.name}
                inside={(run) =>
                  run.status.tasks
                    ? {
                        label: countsText(run.status.tasks),
                        show: () => <Tasks array={run.metadata.name} now={now} />,
                      }
                    : null
                }
                hasMore={next !== undefined}
                empty={
                  <Empty command="quorate submit --gpus 4 --team TEAM -- python train.py">
                    There is no such run.
                  </Empty>
                }
              />
              {fault && <p class="fault">{fault}</p>}
              {next && (
                <button type="button" onClick={() => void readOn(next)}>
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

function columns(now: number): Column<Run>[] {
  const spent = (run: Run): number =>
    run.status.funding.payers.reduce((sum, payer) => sum + payer.spentGPUMs, 0);
  const tookMs = (run: Run): number =>
    run.status.started
      ? (run.status.ended ? Date.parse(run.status.ended) : now) - Date.parse(run.status.started)
      : 0;
  return [
    {
      title: "Run",
      value: (run) => run.metadata.name,
      show: (run) => (
        <Link to={["runs", run.metadata.name]} class="name">
          {run.metadata.name}
        </Link>
      ),
    },
    { title: "Owner", value: (run) => run.spec.owner, show: (run) => <OwnerLink name={run.spec.owner} /> },
    { title: "User",
      wide: true, value: (run) => run.spec.user ?? "", show: (run) => run.spec.user ?? "-" },
    {
      title: "Phase",
      value: (run) => run.status.phase,
      show: (run) => <Badge word={run.status.phase} />,
    },
    {
      title: "GPUs",
      right: true,
      value: (run) => run.status.gpus || run.spec.resources.totalGPUs,
      show: (run) => number(run.status.gpus || run.spec.resources.totalGPUs),
    },
    { title: "Flavor",
      wide: true,
      whole: true, value: flavorsOf, show: flavorsOf },
    {
      title: "Where",
      wide: true,
      value: (run) => Object.keys(run.status.domains).join(" "),
      show: (run) => Object.keys(run.status.domains).join(", ") || "-",
    },
    {
      title: "Age",
      right: true,
      value: (run) => now - Date.parse(run.status.submitted),
      show: (run) => duration(now - Date.parse(run.status.submitted)),
    },
    {
      title: "Ran",
      wide: true,
      right: true,
      value: tookMs,
      show: (run) => (run.status.started ? duration(tookMs(run)) : "-"),
    },
    { title: "GPU-hours", right: true, value: spent, show: (run) => gpuHoursCell(spent(run)) },
  ];
}
