/** One colour for each owner, the same on every page of the tab. */

import { useEffect, useState } from "preact/hooks";
import { ask } from "./api.ts";

/** How many colours style.css has; owners beyond them share colours. */
export const COLORS = 12;

const places = new Map<string, number>();
let listing: Promise<void> | null = null;
/** How often colours were given out: until they are, all owners have grey. */
let given = 0;

/** Returns the number of the owner's colour; a name that is new takes the next one. */
export function colorOf(owner: string): number {
  const known = places.get(owner);
  if (known !== undefined) return known % COLORS;
  places.set(owner, places.size);
  return (places.size - 1) % COLORS;
}

/** Returns whether an owner has a colour of its own: one that the viewer may not see has grey. */
export function hasColor(owner: string): boolean {
  return given > 0 && !isHidden(owner);
}

/** Returns the class of the owner's colour, or of grey. */
export function colorClass(owner: string): string {
  return hasColor(owner) ? `owner-${colorOf(owner)}` : "owner-other";
}

/** Returns whether the service withheld who it is: such names are empty or in parentheses. */
function isHidden(owner: string): boolean {
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
  given += 1;
}

/** Returns how often colours were given out; asks for the names of owners once for each tab. */
export function useOwnerColors(): number {
  const [seen, setSeen] = useState(given);
  useEffect(() => {
    let isGone = false;
    listing ??= assign();
    void listing.then(() => isGone || setSeen(given));
    return () => {
      isGone = true;
    };
  }, []);
  return seen;
}
