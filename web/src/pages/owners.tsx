/** Owners: what each has of the fleet against its target, and of its budget of hours. */

import { ask } from "../api.ts";
import type { Owner } from "../documents.ts";
import { number, percent, percentCell } from "../format.ts";
import { useLive } from "../live.ts";
import { Link } from "../router.tsx";
import { Await, Badge, Bar, type Column, Empty, Table, Title } from "../ui.tsx";

interface Row {
  owner: Owner;
  share: Owner["status"]["shares"][number] | null;
}

const columns = (most: number): Column<Row>[] => [
  {
    title: "Owner",
    value: ({ owner }) => owner.metadata.name,
    show: ({ owner }) => (
      <Link to={["owners", owner.metadata.name]} class="name">
        {owner.metadata.name}
      </Link>
    ),
  },
  {
    title: "Under",
    wide: true,
    value: ({ owner }) => (owner.spec.parents ?? []).join(" "),
    show: ({ owner }) => (owner.spec.parents ?? []).join(", ") || "-",
  },
  {
    title: "Flavor",
    whole: true,
    value: ({ share }) => share?.flavor ?? "",
    show: ({ share }) => share?.flavor ?? "-",
  },
  {
    title: "Share and target",
    value: ({ share }) => share?.share ?? 0,
    show: ({ share }) => (share ? <Share share={share.share} target={share.effectiveTarget} most={most} /> : "-"),
  },
  {
    title: "Share",
    right: true,
    value: ({ share }) => share?.share ?? 0,
    show: ({ share }) => (share ? percentCell(share.share, 1) : "-"),
  },
  {
    title: "Target",
    right: true,
    value: ({ share }) => share?.effectiveTarget ?? 0,
    show: ({ share }) => (share ? percentCell(share.effectiveTarget, 1) : "-"),
  },
  {
    title: "GPUs now",
    right: true,
    value: ({ owner }) => owner.status.activeGPUs,
    show: ({ owner }) => number(owner.status.activeGPUs),
  },
  {
    title: "Running",
    right: true,
    wide: true,
    value: ({ owner }) => owner.status.running.length,
    show: ({ owner }) => number(owner.status.running.length),
  },
  {
    title: "Waiting",
    right: true,
    wide: true,
    value: ({ owner }) => owner.status.pending.length,
    show: ({ owner }) => number(owner.status.pending.length),
  },
  {
    title: "Budget used",
    right: true,
    value: ({ owner }) => owner.status.budgetUsed ?? 0,
    show: ({ owner }) =>
      owner.status.budgetUsed === null ? (
        "-"
      ) : (
        <>
          {owner.status.budgetUsed > 1 && <Badge word="over" tone="bad" />}{" "}
          {percentCell(owner.status.budgetUsed, 1)}
        </>
      ),
  },
];

/** Returns where the bars of several shares end, so that they can be compared. */
export function scaleOf(shares: { share: number; effectiveTarget: number }[]): number {
  return 1.15 * Math.max(0.01, ...shares.flatMap((each) => [each.share, each.effectiveTarget]));
}

/** A share of a flavor as a bar from 0 to `most`, with a mark where its target is. */
export function Share({ share, target, most }: { share: number; target: number; most: number }) {
  return (
    <div class="share">
      <Bar
        label={`${percent(share, 1)} of the flavor, target ${percent(target, 1)}`}
        total={most * 1_000}
        parts={[{ name: "share", value: share * 1_000, kind: share > target ? "wait" : "good" }]}
      />
      <i style={{ left: `${(100 * target) / most}%` }} aria-hidden="true" />
    </div>
  );
}

/** Returns a row for each flavor that an owner has a share of, and one where there is none. */
function rowsOf(owners: Owner[]): Row[] {
  return owners.flatMap((owner): Row[] =>
    owner.status.shares.length
      ? owner.status.shares.map((share) => ({ owner, share }))
      : [{ owner, share: null }],
  );
}

export function OwnersPage() {
  const found = useLive(
    "owner-list",
    (signal) => ask("/owners", {}, {}, signal),
    (event) => /^(owner|lease|run|budget|threshold)/.test(event.tag),
  );
  return (
    <>
      <Title
        title="Owners"
        sub="Runs of the owner whose share is furthest below its target come first. The mark on a bar is the target; all bars have one scale."
      />
      <Await of={found}>
        {(listing) => (
          <Table
            name="owners"
            columns={columns(
              scaleOf((listing.items as unknown as Owner[]).flatMap((owner) => owner.status.shares)),
            )}
            rows={rowsOf(listing.items as unknown as Owner[])}
            keyOf={({ owner, share }) => `${owner.metadata.name} ${share?.flavor ?? ""}`}
            empty={<Empty command="quorate apply -f teams.yaml">There is no owner that you may see.</Empty>}
          />
        )}
      </Await>
    </>
  );
}
