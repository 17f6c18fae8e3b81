/** The course of a run, from its submission to its end, as a bar: how wide it worked, and when. */

import { duration, number, time } from "../format.ts";
import { type LedgerEvent, useNow } from "../live.ts";

/** Work of `gpus` GPUs from an instant until another; 0 GPUs while the run waits. */
export interface Stretch {
  from: number;
  until: number;
  gpus: number;
}

const OVER = /^run-ended/;
const TICK_MS = 5_000;

/** Returns the stretches of a run between changes of its width; spares count as they are paid for. */
export function courseOf(events: LedgerEvent[], now: number): Stretch[] {
  const widths = new Map<string, number>();
  const found: Stretch[] = [];
  let from = 0;
  let gpus = 0;
  let end = now;
  const change = (at: number): void => {
    if (from && at > from) found.push({ from, until: at, gpus });
    from = Math.max(from, at);
    gpus = [...widths.values()].reduce((sum, each) => sum + each, 0);
  };
  for (const event of events) {
    if (event.tag.startsWith("run-submitted")) from = from || event.at_ms;
    else if (event.tag.startsWith("lease-started")) {
      const slots = event.slots as { slots: number[] }[];
      widths.set(
        String(event.lease),
        slots.reduce((sum, each) => sum + each.slots.length, 0),
      );
      change(Number(event.start_ms));
    } else if (event.tag.startsWith("lease-ended")) {
      widths.delete(String(event.lease));
      change(Number(event.end_ms));
    } else if (OVER.test(event.tag)) end = event.at_ms;
  }
  if (from && (end > from || found.length === 0)) found.push({ from, until: Math.max(end, from + 1), gpus });
  return merged(found);
}

function merged(stretches: Stretch[]): Stretch[] {
  const found: Stretch[] = [];
  for (const each of stretches) {
    const last = found.at(-1);
    if (last && last.gpus === each.gpus && last.until === each.from) last.until = each.until;
    else found.push({ ...each });
  }
  return found;
}

export function Course({ events }: { events: LedgerEvent[] }) {
  const now = useNow(TICK_MS);
  const stretches = courseOf(events, now);
  const first = stretches[0];
  const last = stretches.at(-1);
  if (!first || !last) return null;
  const whole = last.until - first.from;
  const hadGpus = stretches.some((each) => each.gpus > 0);
  const most = Math.max(1, ...stretches.map((each) => each.gpus));
  const words = stretches
    .map((each) => `${each.gpus ? `${number(each.gpus)} GPUs` : "waited"} ${duration(each.until - each.from)}`)
    .join(", then ");
  return (
    <figure class="course">
      <div role="img" aria-label={words}>
        {stretches.map((each) => (
          <span
            class={each.gpus ? "good" : "wait"}
            title={`${time(each.from)} to ${time(each.until)}: ${
              each.gpus ? `${number(each.gpus)} GPUs` : "waiting"
            } for ${duration(each.until - each.from)}`}
            style={{
              width: `${(100 * (each.until - each.from)) / whole}%`,
              height: `${each.gpus ? 30 + (70 * each.gpus) / most : 18}%`,
            }}
          />
        ))}
      </div>
      <figcaption>
        <span class="num">{time(first.from)}</span>
        <span class="legend">
          <span>
            <i class="wait" /> waits
          </span>
          <span>
            <i class="good" /> has GPUs{hadGpus && `, ${number(most)} at most`}
          </span>
        </span>
        <span class="num">{time(last.until)}</span>
      </figcaption>
    </figure>
  );
}
