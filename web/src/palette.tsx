/** The palette: type a few letters of a page, a run or another thing, and go there. */

import type { RefObject } from "preact";
import { useEffect, useLayoutEffect, useMemo, useState } from "preact/hooks";
import { ProblemError, ask, wordsOf } from "./api.ts";
import { AREAS } from "./pages.tsx";
import { go, pageOf } from "./router.tsx";

interface Place {
  kind: string;
  name: string;
  at: string[];
}

const SHOWN_MAX = 12;
const RUNS_MAX = 200;

const KINDS = [
  ["run", "runs", "/runs", { newest: true, limit: RUNS_MAX }],
  ["budget", "budgets", "/budgets", { limit: RUNS_MAX }],
  ["owner", "owners", "/owners", { limit: RUNS_MAX }],
  ["conflict", "conflicts", "/resolver/outcomes", { limit: RUNS_MAX }],
] as const;

/** Returns what can be gone to by name; a kind that the token may not read is left out. */
async function places(): Promise<Place[]> {
  const found = KINDS.map(async ([kind, area, path, query]): Promise<Place[]> => {
    try {
      const { items } = await ask(path, {}, query);
      const named = items as unknown as { metadata: { name: string } }[];
      return named.map(({ metadata: { name } }) => ({ kind, name, at: [area, name] }));
    } catch (error) {
      if (error instanceof ProblemError && error.status === 403) return [];
      throw error;
    }
  });
  return (await Promise.all(found)).flat();
}

/** Returns how well `name` fits what was typed: less is better, and Infinity is not at all. */
export function fit(name: string, typed: string): number {
  const at = name.toLowerCase().indexOf(typed);
  if (at >= 0) return at + name.length / 1_000;
  let from = 0;
  for (const letter of typed) {
    from = name.toLowerCase().indexOf(letter, from) + 1;
    if (from === 0) return Number.POSITIVE_INFINITY;
  }
  return 100 + from;
}

/**
 * A dialog with what fits; Enter goes to the chosen one, and a run that is not listed by name.
 *
 * It is open as soon as it is drawn, so that the next key is typed into it. Whether it still is,
 * `dialog` itself says: a browser tells of Escape a frame late, when the next one may be open.
 */
export function Palette({ dialog }: { dialog: RefObject<HTMLDialogElement | null> }) {
  const [typed, setTyped] = useState("");
  const [more, setMore] = useState<Place[]>([]);
  const [chosen, setChosen] = useState(0);
  const [fault, setFault] = useState("");
  useLayoutEffect(() => dialog.current?.showModal(), []);
  useEffect(() => {
    places().then(setMore, (error) => setFault(wordsOf(error)));
  }, []);
  const found = useMemo(() => {
    const wanted = typed.trim().toLowerCase();
    const pages = AREAS.map((area) => ({ kind: "page", name: area.title, at: area.at }));
    const ranked = [...pages, ...more]
      .map((place) => ({ place, rank: fit(place.name, wanted) }))
      .filter(({ rank }) => rank < Number.POSITIVE_INFINITY);
    if (wanted) ranked.sort((one, other) => one.rank - other.rank);
    const places = ranked.slice(0, SHOWN_MAX).map(({ place }) => place);
    const name = typed.trim();
    const isThere = places.some((place) => place.kind === "run" && place.name === name);
    return name && !isThere ? [...places, { kind: "run", name, at: ["runs", name] }] : places;
  }, [typed, more]);
  const open = (place: Place | undefined): void => {
    if (!place) return;
    dialog.current?.close();
    go(pageOf(...place.at));
  };
  const pressed = (event: KeyboardEvent): void => {
    if (event.key === "ArrowDown") setChosen((at) => Math.min(at + 1, found.length - 1));
    else if (event.key === "ArrowUp") setChosen((at) => Math.max(at - 1, 0));
    else if (event.key === "Enter") open(found[chosen]);
    else return;
    event.preventDefault();
  };
  return (
    <dialog ref={dialog} class="palette" aria-label="Go to">
      <input
        type="text"
        role="combobox"
        aria-label="Page, run, budget, owner or conflict"
        aria-expanded="true"
        aria-controls="palette-list"
        aria-activedescendant={found.length ? `palette-${chosen}` : undefined}
        placeholder="Page, run, budget, owner or conflict"
        value={typed}
        onInput={(event) => {
          setTyped(event.currentTarget.value);
          setChosen(0);
        }}
        onKeyDown={pressed}
      />
      {fault && <p class="fault">{fault}</p>}
      <ul id="palette-list" role="listbox" aria-label="Places">
        {found.map((place, at) => (
          <li
            id={`palette-${at}`}
            role="option"
            aria-selected={at === chosen}
            onClick={() => open(place)}
            onMouseMove={() => setChosen(at)}
          >
            <span>{place.name}</span>
            <small>{place.kind}</small>
          </li>
        ))}
      </ul>
    </dialog>
  );
}
