/** Budgets: what each envelope was granted, has spent, holds and lends. */

import { ask } from "../api.ts";
import type { Budget, EnvelopeSpec, EnvelopeStatus } from "../documents.ts";
import { gpuHours, gpuHoursCell, number, percentCell } from "../format.ts";
import { useLive } from "../live.ts";
import { Link } from "../router.tsx";
import { Await, Badge, Bar, type Column, Empty, Table, Title } from "../ui.tsx";

export interface Envelope {
  budget: string;
  spec: EnvelopeSpec;
  status: EnvelopeStatus;
}

/** Returns the envelopes of budgets, each with what has become of it. */
export function envelopesOf(budgets: Budget[]): Envelope[] {
  return budgets.flatMap((budget) =>
    budget.spec.envelopes.flatMap((spec) => {
      const status = budget.status.envelopes.find((each) => each.name === spec.name);
      return status ? [{ budget: budget.metadata.name, spec, status }] : [];
    }),
  );
}

/** What was granted, as a bar: spent, held, and the rest. */
export function Spending({ status }: { status: EnvelopeStatus }) {
  if (status.grantedGPUMs === null) return <span class="quiet">no limit of GPU-hours</span>;
  const { spentGPUMs: spent, heldGPUMs: held, grantedGPUMs: granted } = status;
  return (
    <Bar
      label={`${gpuHours(spent)} GPU-hours spent, ${gpuHours(held)} held, of ${gpuHours(granted)}`}
      total={granted}
      parts={[
        { name: "spent", value: spent, kind: "accent" },
        { name: "held", value: held, kind: "plan" },
      ]}
    />
  );
}

const COLUMNS: Column<Envelope>[] = [
  {
    title: "Envelope",
    value: (each) => `${each.budget}/${each.spec.name}`,
    show: (each) => (
      <Link to={["budgets", each.budget]} class="name">
        {each.budget}/{each.spec.name}
      </Link>
    ),
  },
  {
    title: "Owner",
    wide: true,
    value: (each) => each.status.owner,
    show: (each) => each.status.owner,
  },
  { title: "Flavor",
    wide: true,
    whole: true, value: (each) => each.spec.flavor, show: (each) => each.spec.flavor },
  {
    title: "Spent and held",
    value: (each) => each.status.spentGPUMs / (each.status.grantedGPUMs ?? 1),
    show: (each) => <Spending status={each.status} />,
  },
  {
    title: "Spent",
    right: true,
    value: (each) => each.status.spentGPUMs,
    show: (each) => gpuHoursCell(each.status.spentGPUMs),
  },
  {
    title: "Held",
    wide: true,
    right: true,
    value: (each) => each.status.heldGPUMs,
    show: (each) => gpuHoursCell(each.status.heldGPUMs),
  },
  {
    title: "Free",
    wide: true,
    right: true,
    value: (each) => each.status.freeGPUMs ?? Number.POSITIVE_INFINITY,
    show: (each) => (each.status.freeGPUMs === null ? "no limit" : gpuHoursCell(each.status.freeGPUMs)),
  },
  {
    title: "Used",
    wide: true,
    right: true,
    value: (each) => each.status.spentGPUMs / (each.status.grantedGPUMs ?? Number.POSITIVE_INFINITY),
    show: (each) =>
      each.status.grantedGPUMs === null
        ? "-"
        : percentCell(each.status.spentGPUMs + each.status.heldGPUMs, each.status.grantedGPUMs),
  },
  {
    title: "GPUs now",
    right: true,
    value: (each) => each.status.activeGPUs,
    show: (each) => `${number(each.status.activeGPUs)} of ${number(each.spec.concurrency)}`,
  },
  {
    title: "Lent",
    wide: true,
    right: true,
    value: (each) => each.status.lentGPUs,
    show: (each) => (each.spec.lending?.allow ? number(each.status.lentGPUs) : "-"),
  },
  {
    title: "State",
    value: (each) => (each.status.usable ? "pays" : each.status.open ? "used up" : "closed"),
    show: (each) => (
      <Badge
        word={each.status.usable ? "pays" : each.status.open ? "used up" : "closed"}
        tone={each.status.usable ? "good" : "bad"}
      />
    ),
  },
];

export function BudgetsPage() {
  const found = useLive(
    "budgets",
    (signal) => ask("/budgets", {}, {}, signal),
    (event) => /^(budget|lease|hold|run)/.test(event.tag),
  );
  return (
    <>
      <Title title="Budgets" sub="A run starts only when an envelope pays for each of its GPUs until its expected end." />
      <Await of={found}>
        {(listing) => (
          <Table
            name="envelopes"
            columns={COLUMNS}
            rows={envelopesOf(listing.items as unknown as Budget[])}
            keyOf={(each) => `${each.budget}/${each.spec.name}`}
            empty={<Empty command="quorate apply -f teams.yaml">There is no budget that you may see.</Empty>}
          />
        )}
      </Await>
    </>
  );
}
