/** What would start a run now: each was tried by the service, and is done after a confirmation. */

import { useState } from "preact/hooks";
import { change } from "../api.ts";
import type { Remedy, Run } from "../documents.ts";
import { Card, Confirm, Words } from "../ui.tsx";
import { mayChange, useViewer } from "../viewer.ts";

type Step =
  | { does: "copy"; like: string; name: string; assignments: string[] }
  | { does: "patch"; kind: string; name: string; assignments: string[] }
  | { does: "cancel"; name: string };

/** Returns the words after each occurrence of an option of a command. */
function after(command: string[], option: string): string[] {
  return command.flatMap((word, at) => (word === option ? [command[at + 1] ?? ""] : []));
}

/** Returns what a command of a remedy asks for; nothing where the dashboard cannot do it. */
function stepOf([, does, ...rest]: string[]): Step | null {
  const assignments = after(rest, "--set");
  if (does === "submit") {
    const [[like], [name]] = [after(rest, "--like"), after(rest, "--name")];
    return like && name ? { does: "copy", like, name, assignments } : null;
  }
  const [first, second] = rest;
  if (does === "patch" && first && second) {
    return { does: "patch", kind: first, name: second, assignments };
  }
  return does === "cancel" && first && rest.length === 1 ? { does: "cancel", name: first } : null;
}

/** Returns the steps of a remedy; nothing where one of them is beyond the dashboard. */
export function stepsOf(remedy: Remedy): Step[] | null {
  const steps = remedy.commands.map(stepOf);
  return steps.includes(null) || steps.length === 0 ? null : (steps as Step[]);
}

async function carryOut(step: Step): Promise<void> {
  if (step.does === "copy") {
    const { like, name, assignments } = step;
    await change("POST", "/runs", {}, { like, name, assignments });
  } else if (step.does === "patch") {
    const { kind, name, assignments } = step;
    await change("PATCH", `/${kind}s/{name}`, { name }, { assignments });
  } else {
    await change("POST", "/runs/{name}/cancel", { name: step.name }, { note: "by the dashboard" });
  }
}

export function Remedies({ run, remedies, onDone }: { run: Run; remedies: Remedy[]; onDone: () => void }) {
  const who = useViewer();
  const [chosen, setChosen] = useState<Remedy | null>(null);
  if (remedies.length === 0) return null;
  const own = new Set([run.metadata.name]);
  const mayTake = (step: Step): boolean => {
    if (who.role === "admin") return true;
    if (step.does === "patch") return who.role === "tenant-admin" && step.kind === "budget";
    const isOwn = own.has(step.does === "copy" ? step.like : step.name);
    return isOwn && mayChange(who, run.spec.owner);
  };
  const may = (remedy: Remedy): boolean => stepsOf(remedy)?.every(mayTake) ?? false;
  return (
    <Card title="What would start it now" aside={<small>each was tried by a dry run</small>}>
      <ul class="remedies">
        {remedies.map((remedy) => (
          <li>
            <p>
              <Words of={remedy.effect} />
            </p>
            {remedy.commands.map((command) => (
              <code>{command.join(" ")}</code>
            ))}
            {may(remedy) && (
              <button type="button" onClick={() => setChosen(remedy)}>
                Do it
              </button>
            )}
          </li>
        ))}
      </ul>
      {chosen && (
        <Confirm
          title="Do this?"
          action="Do it"
          onDo={async () => {
            for (const step of stepsOf(chosen) ?? []) await carryOut(step);
            onDone();
          }}
          onClose={() => setChosen(null)}
        >
          <p>
            <Words of={chosen.effect} />
          </p>
          {chosen.commands.map((command) => (
            <code class="block">{command.join(" ")}</code>
          ))}
        </Confirm>
      )}
    </Card>
  );
}
