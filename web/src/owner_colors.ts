/** One colour for each owner, the same on every page of the tab. */

import { useEffect, useState } from "preact/hooks";
import { ask } from "./api.ts";

/** How many colours style.css has; owners beyond them share colours. */
export const COLORS = 12;

const places = new Map<string, number>();
let listing: Promise<void> | null = null;

/** Returns the number of the owner's colour; a name that is new takes the next one. */
export function colorOf(owner: string): number {
  const known = places.get(owner);
  if (known !== undefined) return known % COLORS;
  places.set(owner, places.size);
  return (places.size - 1) % COLORS;
}

/** Returns the class of the owner's colour; owners that the viewer may not see have grey. */
export function colorClass(owner: string): string {
  return isHidden(owner) ? "owner-other" : `owner-${colorOf(owner)}`;
}

/** Returns whether the service withheld who it is: such names are empty or in parentheses. */
export function isHidden(owner: string): boolean {
  return owner === "" || owner.startsWith("(");
}

/** Gives out the colours in the order of all names, so that every tab gives out the same. */
async function assign(): Promise<void> {
  try {
    const found = await ask("/owners");
    const names = (found.items as unknown as { metadata: { name: string } }[]).map((each) => each.metadata.name);
    places.clear();
    for (const name of names.sort()) colorOf(name);
  } catch {
    // The pages say that the service does not answer; colours then follow the order of appearance.
    listing = null;
  }
}

/** Returns whether the colours are given out; asks for the names of owners once for each tab. */
export function useOwnerColors(): boolean {
  const [isReady, setReady] = useState(places.size > 0);
  useEffect(() => {
    let isGone = false;
    listing ??= assign();
    void listing.then(() => isGone || setReady(true));
    return () => {
      isGone = true;
    };
  }, []);
  return isReady;
}
