/** Why a run waits, and when it starts, in a few words. */

import type { QueueTerms, Run } from "../documents.ts";
import { away, fullTime, percent } from "../format.ts";
import { Badge } from "../ui.tsx";

/** Returns why a run waits. */
export function waitText(run: Run): string {
  if (run.status.startable) return "starts with the next decision";
  return run.status.refusal?.message ?? run.status.note ?? "";
}

/** When a run starts, and how sure that is. */
export function PlanText({ run, now }: { run: Run; now: number }) {
  const plan = run.status.plan;
  if (!plan || plan.start === null) return <span class="plan">no planned start</span>;
  return (
    <span class="plan" title={fullTime(plan.start)}>
      <span class="num">{away(plan.start, now)}</span> <Badge word={plan.state} />
    </span>
  );
}

/** Returns the terms of a score in a sentence (docs/queue.md). */
export function scoreText(terms: QueueTerms): string {
  const { share, effectiveTarget, flavor, penalty, score } = terms;
  const budget =
    terms.budgetUsed === null ? "it has no budget of hours" : `${percent(terms.budgetUsed, 1)} of its budget of hours is used`;
  const below =
    share < effectiveTarget
      ? `(${percent(effectiveTarget, 1)} − ${percent(share, 1)}) / ${percent(effectiveTarget, 1)} × ${penalty.toFixed(2)} = ${score.toFixed(3)}`
      : "its share is not below its target, so the score is 0";
  return `Its owner has ${percent(share, 1)} of ${flavor}, target ${percent(effectiveTarget, 1)}; ${budget}: ${below}.`;
}
