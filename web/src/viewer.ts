/** Who is signed in, for parts of pages that only some may use. */

import { createContext } from "preact";
import { useContext } from "preact/hooks";
import type { Whoami } from "./api_types.ts";

export const Viewer = createContext<Whoami | null>(null);

/** Returns who is signed in. */
export function useViewer(): Whoami {
  const found = useContext(Viewer);
  if (found === null) throw new Error("nobody is signed in");
  return found;
}

/** Returns whether the viewer sees everything: an admin or an auditor. */
export function oversees(who: Whoami): boolean {
  return who.role === "admin" || who.role === "auditor";
}

/** Returns whether the viewer may change what belongs to `owner`; the service decides. */
export function mayChange(who: Whoami, owner: string): boolean {
  if (who.role === "admin") return true;
  const isMember = who.role === "tenant-admin" || who.role === "user";
  return isMember && who.tenants.includes(owner);
}
