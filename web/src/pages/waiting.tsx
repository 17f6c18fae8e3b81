/** Why a run waits, and when it starts, in a few words. */

import type { Run } from "../documents.ts";
import { away, fullTime } from "../format.ts";
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
