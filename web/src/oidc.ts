/** Signing in at the OIDC issuer: there with a challenge, back with a code (RFC 7636). */

import { BASE, send } from "./api.ts";

/** Where the issuer sends people back to; it has to be registered there. */
export const RETURN_TO = new URL("signed-in", BASE);
const KEPT = "quorate-sign-in";
const RANDOM_BYTES = 32;

interface Beginning {
  authorizationEndpoint: string;
  clientId: string;
  scopes: string;
}

/** What this tab keeps while the person is at the issuer. */
interface Kept {
  state: string;
  verifier: string;
  /** The address to go on at. */
  next: string;
}

/** Returns why this browser cannot sign in at an issuer; empty where it can. */
export function whyNotHere(): string {
  return globalThis.crypto?.subtle ? "" : "Signing in there needs https or localhost.";
}

/** Goes to the issuer; throws where the service does not know the way. */
export async function goToIssuer(): Promise<void> {
  const missing = whyNotHere();
  if (missing) throw new Error(missing);
  const found = (await (await send(new URL("issuer", BASE))).json()) as Beginning;
  const kept: Kept = { state: random(), verifier: random(), next: location.href };
  sessionStorage.setItem(KEPT, JSON.stringify(kept));
  const url = new URL(found.authorizationEndpoint);
  const asked = {
    response_type: "code",
    client_id: found.clientId,
    redirect_uri: RETURN_TO.href,
    scope: found.scopes,
    state: kept.state,
    code_challenge: await challengeOf(kept.verifier),
    code_challenge_method: "S256",
  };
  for (const [name, value] of Object.entries(asked)) url.searchParams.set(name, value);
  location.assign(url);
}

/** Returns whether the address is the one that the issuer sends people back to. */
export function isBack(): boolean {
  return location.pathname === RETURN_TO.pathname;
}

/**
 * Begins a session with the code in the address; the address becomes the one of before.
 *
 * Throws where the issuer refused, or where this tab did not ask for the code: another site could
 * have sent it, to have a person work in the name of another.
 */
export async function comeBack(): Promise<void> {
  const answer = new URLSearchParams(location.search);
  const kept = keptHere();
  history.replaceState(null, "", kept?.next ?? BASE.href);
  if (kept === null || answer.get("state") !== kept.state) {
    throw new Error("This answer of the issuer is not to a question of this tab; sign in again.");
  }
  const refusal = answer.get("error");
  if (refusal !== null) {
    const said = [refusal, answer.get("error_description")].filter(Boolean).join(": ");
    throw new Error(`The issuer did not sign you in: ${said.slice(0, 300)}`);
  }
  await send(new URL("session", BASE), {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({
      code: answer.get("code") ?? "",
      verifier: kept.verifier,
      redirectUri: RETURN_TO.href,
    }),
  });
}

/** Returns what this tab kept, once; null where it kept nothing. */
function keptHere(): Kept | null {
  const text = sessionStorage.getItem(KEPT);
  sessionStorage.removeItem(KEPT);
  return text === null ? null : (JSON.parse(text) as Kept);
}

function random(): string {
  return base64Url(crypto.getRandomValues(new Uint8Array(RANDOM_BYTES)));
}

async function challengeOf(verifier: string): Promise<string> {
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(verifier));
  return base64Url(new Uint8Array(digest));
}

function base64Url(bytes: Uint8Array): string {
  const text = btoa(String.fromCharCode(...bytes));
  return text.replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}
