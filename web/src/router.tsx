/** Addresses of pages: paths relative to where the dashboard is, so that each can be shared. */

import type { ComponentChildren } from "preact";
import { useLayoutEffect, useState } from "preact/hooks";
import { BASE } from "./api.ts";

const MOVED = "quorate-moved";

/** Returns where the viewer is: the parts of the path behind the base, decoded. */
export function here(): string[] {
  const path = location.pathname.slice(BASE.pathname.length);
  return path.split("/").filter(Boolean).map(decodeURIComponent);
}

/** Returns the address of a page, by its parts. */
export function pageOf(...parts: string[]): string {
  return new URL(parts.map(encodeURIComponent).join("/"), BASE).href;
}

/** Goes to an address of the dashboard. */
export function go(href: string): void {
  history.pushState(null, "", href);
  dispatchEvent(new Event(MOVED));
  window.scrollTo(0, 0);
}

/** Returns where the viewer is, and again after each move. */
export function useHere(): string[] {
  const [parts, setParts] = useState(here);
  useLayoutEffect(() => {
    const moved = (): void => setParts(here());
    addEventListener(MOVED, moved);
    addEventListener("popstate", moved);
    return () => {
      removeEventListener(MOVED, moved);
      removeEventListener("popstate", moved);
    };
  }, []);
  return parts;
}

/** A word of the address's query that pages keep: a filter, a choice. */
export function useParam(name: string, usual = ""): [string, (value: string) => void] {
  const read = (): string => new URLSearchParams(location.search).get(name) ?? usual;
  const [value, setValue] = useState(read);
  const set = (next: string): void => {
    const params = new URLSearchParams(location.search);
    if (next === usual) params.delete(name);
    else params.set(name, next);
    const query = params.toString();
    history.replaceState(null, "", location.pathname + (query ? `?${query}` : ""));
    setValue(next);
  };
  return [value, set];
}

interface LinkProps {
  to: string[];
  class?: string;
  children: ComponentChildren;
  current?: boolean;
}

/** A link to a page, which is opened here without loading anything anew. */
export function Link({ to, class: kind, children, current }: LinkProps) {
  const href = pageOf(...to);
  return (
    <a
      href={href}
      class={kind}
      aria-current={current ? "page" : undefined}
      onClick={(event) => {
        if (event.metaKey || event.ctrlKey || event.shiftKey || event.button !== 0) return;
        event.preventDefault();
        go(href);
      }}
    >
      {children}
    </a>
  );
}
