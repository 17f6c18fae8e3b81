/** Conflicts: when room was made, for whom, and who was cut. */

import { ask } from "../api.ts";
import type { Outcome } from "../documents.ts";
import { gpuHoursCell, number } from "../format.ts";
import { useLive } from "../live.ts";
import { Link } from "../router.tsx";
import { Await, Badge, type Column, Empty, Table, Title, When } from "../ui.tsx";
import { Sought } from "./conflict.tsx";

const COLUMNS: Column<Outcome>[] = [
  {
    title: "Conflict",
    right: true,
    value: (each) => Number(each.metadata.name),
    show: (each) => (
      <Link to={["conflicts", each.metadata.name]} class="name">
        {each.metadata.name}
      </Link>
    ),
  },
  {
    title: "Declared",
    value: (each) => each.spec.declared,
    show: (each) => <When at={each.spec.declared} />,
  },
  {
    title: "Outcome",
    value: (each) => each.status.outcome,
    show: (each) => <Badge word={each.status.outcome} />,
  },
  {
    title: "Where",
    wide: true,
    value: (each) => `${each.spec.scope.flavor} ${each.spec.scope.domains.join(" ")}`,
    show: (each) => `${each.spec.scope.flavor} ${each.spec.scope.domains.join(", ")}`,
  },
  {
    title: "For",
    value: (each) => each.spec.reservation ?? "",
    show: (each) => <Sought reservation={each.spec.reservation} cause={each.spec.cause} />,
  },
  {
    title: "GPUs short",
    wide: true,
    right: true,
    value: (each) => each.spec.deficit,
    show: (each) => number(each.spec.deficit),
  },
  {
    title: "Entered",
    wide: true,
    right: true,
    value: (each) => each.spec.tokens.length,
    show: (each) => number(each.spec.tokens.length),
  },
  {
    title: "Cut",
    value: (each) => cut(each),
    show: (each) => cut(each) || "-",
  },
  {
    title: "GPU-hours lost",
    wide: true,
    right: true,
    value: (each) => each.status.lostGPUMs,
    show: (each) => gpuHoursCell(each.status.lostGPUMs),
  },
];

function cut(outcome: Outcome): string {
  return [...new Set(outcome.status.cuts.map((each) => each.run))].join(", ");
}

export function ConflictsPage() {
  const found = useLive(
    "conflicts",
    (signal) => ask("/resolver/outcomes", {}, {}, signal),
    (event) => event.tag.startsWith("conflict"),
  );
  return (
    <>
      <Title
        title="Conflicts"
        sub="No run has priority. When a firm start needs room, spares and malleable runs give way first; then a lottery decides, and you can repeat its draw here."
      />
      <Await of={found}>
        {(listing) => (
          <Table
            name="conflicts"
            columns={COLUMNS}
            rows={[...(listing.items as unknown as Outcome[])].reverse()}
            keyOf={(each) => each.metadata.name}
            empty={<Empty>There was no conflict yet: every start found room by itself.</Empty>}
          />
        )}
      </Await>
    </>
  );
}
