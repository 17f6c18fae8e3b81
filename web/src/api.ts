/** What is asked of the service: REST, with the session of this browser. */

import type { Gets, Problem } from "./api_types.ts";
import { count } from "./pace.ts";

/** Where the dashboard is: everything is relative to it, under whatever prefix. */
export const BASE = new URL(".", document.baseURI);
const SESSION = { "X-Quorate-Session": "1" };

/** An answer that is not the one asked for; `problem` says why. */
export class ProblemError extends Error {
  readonly status: number;
  readonly problem: Problem | null;

  constructor(status: number, problem: Problem | null, text: string) {
    super(problem?.detail ?? text);
    this.status = status;
    this.problem = problem;
  }
}

/** Is called when the service no longer knows who asks. */
export const signedOut = new Set<() => void>();

export type Query = Record<string, string | number | boolean | undefined>;

/** Returns the address of a path of REST; `{name}` in it is replaced by a part. */
export function addressOf(path: string, parts: Record<string, string> = {}, query: Query = {}): URL {
  const filled = path.replace(/\{(\w+)\}/g, (_, name: string) =>
    encodeURIComponent(parts[name] ?? ""),
  );
  const url = new URL(`api/v1${filled}`, BASE);
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== "") url.searchParams.set(name, String(value));
  }
  return url;
}

/** Returns the response to a request; throws `ProblemError` where it is refused. */
export async function send(url: URL, init: RequestInit = {}): Promise<Response> {
  const headers = { ...SESSION, ...(init.headers as Record<string, string> | undefined) };
  const response = await fetch(url, { ...init, headers, credentials: "same-origin" });
  if (init.signal) count(init.signal, response);
  if (response.ok) return response;
  const isProblem = response.headers.get("content-type") === "application/problem+json";
  const problem = isProblem ? ((await response.json()) as Problem) : null;
  const isSignIn = url.pathname.endsWith("/session");
  if (response.status === 401 && !isSignIn) for (const each of signedOut) each();
  throw new ProblemError(response.status, problem, `the service answered ${response.status}`);
}

/** Returns what a GET of the table answers. */
export async function ask<P extends keyof Gets>(
  path: P,
  parts: Record<string, string> = {},
  query: Query = {},
  signal?: AbortSignal,
): Promise<Gets[P]> {
  const init: RequestInit = { headers: { Accept: "application/json" } };
  if (signal) init.signal = signal;
  return (await send(addressOf(path, parts, query), init)).json() as Promise<Gets[P]>;
}

/** Returns what a change answers; with `dryRun` in the query nothing is recorded. */
export async function change<T>(
  method: "POST" | "PATCH" | "PUT" | "DELETE",
  path: string,
  parts: Record<string, string>,
  body: unknown,
  query: Query = {},
): Promise<T> {
  const response = await send(addressOf(path, parts, query), {
    method,
    headers: { "Content-Type": "application/json", Accept: "application/json" },
    body: JSON.stringify(body),
  });
  return response.json() as Promise<T>;
}

/** Whether this browser is signed in, and the issuer at which it could be. */
export interface Session {
  signedIn: boolean;
  issuer: string | null;
}

/** Returns how it stands with the session of this browser. */
export async function session(signal: AbortSignal | null = null): Promise<Session> {
  return (await send(new URL("session", BASE), { signal })).json() as Promise<Session>;
}

/** Begins a session with an access token; throws where the service does not take it. */
export async function signIn(token: string): Promise<void> {
  await send(new URL("session", BASE), {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ token }),
  });
}

/** Ends the session of this browser. */
export async function signOut(): Promise<void> {
  await send(new URL("session", BASE), { method: "DELETE" });
}

/** Saves what a GET answers as CSV under `name`. */
export async function saveCsv(path: keyof Gets, query: Query, name: string): Promise<void> {
  const response = await send(addressOf(path, {}, query), { headers: { Accept: "text/csv" } });
  save(await response.blob(), name);
}

/** Saves bytes as a file of the viewer. */
export function save(content: Blob, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

/** Returns whether there was no answer at all: `fetch` throws nothing else where it gets none. */
export function isUnanswered(error: unknown): boolean {
  return error instanceof TypeError;
}

/** Returns the sentence to show for an error. */
export function wordsOf(error: unknown): string {
  if (error instanceof ProblemError) return error.message;
  if (isUnanswered(error)) return "the service does not answer; this page asks again by itself";
  return error instanceof Error ? error.message : String(error);
}
