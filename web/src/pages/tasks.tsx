/** Arrays: one line for all tasks of an array, and the tasks one by one inside it. */

import { ask } from "../api.ts";
import { type Run, flavorsOf } from "../documents.ts";
import { duration, number } from "../format.ts";
import { useLive } from "../live.ts";
import { Link } from "../router.tsx";
import { Await, Badge, type Column, Empty, Table } from "../ui.tsx";

/** An array has at most so many tasks. */
const TASKS_MAX = 1_000;
const ORDER = ["Running", "Pending", "Failed", "Cancelled", "Completed"];

/** Returns how many tasks are in which phase: `10 tasks: 4 Running, 6 Pending`. */
export function countsText(tasks: Record<string, number>): string {
  const total = Object.values(tasks).reduce((sum, each) => sum + each, 0);
  const parts = ORDER.filter((phase) => tasks[phase]).map((phase) => `${tasks[phase]} ${phase}`);
  return `${total === 1 ? "1 task" : `${number(total)} tasks`}: ${parts.join(", ")}`;
}

/** A line of a list: a run, or the first of several tasks of one array. */
export interface ListLine {
  run: Run;
  /** The tasks that the line stands for; empty for a run. */
  tasks: Run[];
}

/** Returns the name of a line: of the array, or of the run. */
export function lineName({ run, tasks }: ListLine): string {
  return tasks.length > 0 ? (run.spec.array?.name ?? run.metadata.name) : run.metadata.name;
}

/** Returns `runs` with the tasks of each array on one line, where the first of them is. */
export function folded(runs: Run[]): ListLine[] {
  const lines: ListLine[] = [];
  const arrays = new Map<string, ListLine>();
  for (const run of runs) {
    const array = run.spec.array?.name;
    const known = array === undefined ? undefined : arrays.get(array);
    if (known) {
      known.tasks.push(run);
      continue;
    }
    const line: ListLine = { run, tasks: array === undefined ? [] : [run] };
    if (array !== undefined) arrays.set(array, line);
    lines.push(line);
  }
  return lines;
}

/** The tasks of an array, each with a link to its page. */
export function Tasks({ array, now }: { array: string; now: number }) {
  const listing = useLive(
    `tasks ${array}`,
    (signal) => ask("/runs", {}, { names: array, limit: TASKS_MAX }, signal),
    (event) => /^(run|lease)/.test(event.tag),
  );
  return (
    <Await of={listing}>
      {(found) => (
        <Table
          name={`tasks of ${array}`}
          columns={columns(now)}
          rows={found.items as unknown as Run[]}
          keyOf={(run) => run.metadata.name}
          empty={<Empty>There are no tasks.</Empty>}
        />
      )}
    </Await>
  );
}

function columns(now: number): Column<Run>[] {
  const tookMs = ({ status }: Run): number =>
    status.started ? (status.ended ? Date.parse(status.ended) : now) - Date.parse(status.started) : 0;
  return [
    {
      title: "Task",
      value: (run) => run.spec.array?.task ?? 0,
      show: (run) => (
        <Link to={["runs", run.metadata.name]} class="name">
          {run.metadata.name}
        </Link>
      ),
    },
    { title: "Phase", value: (run) => run.status.phase, show: (run) => <Badge word={run.status.phase} /> },
    {
      title: "GPUs",
      right: true,
      value: (run) => run.spec.resources.totalGPUs,
      show: (run) => number(run.spec.resources.totalGPUs),
    },
    { title: "Flavor", wide: true, value: flavorsOf, show: flavorsOf },
    {
      title: "Where",
      wide: true,
      value: (run) => Object.keys(run.status.domains).join(" "),
      show: (run) => Object.keys(run.status.domains).join(", ") || "-",
    },
    {
      title: "Ran",
      right: true,
      value: tookMs,
      show: (run) => (run.status.started ? duration(tookMs(run)) : "-"),
    },
    { title: "Note", wide: true, value: (run) => run.status.note ?? "", show: (run) => run.status.note ?? "-" },
  ];
}
