/** The dashboard: who is signed in, the navigation, and the page of the address. */

import { render } from "preact";
import { useCallback, useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { ask, session, signOut, signedOut, wordsOf } from "./api.ts";
import type { Whoami } from "./api_types.ts";
import { time } from "./format.ts";
import { stream, useConnection } from "./live.ts";
import { comeBack, isBack } from "./oidc.ts";
import { Palette } from "./palette.tsx";
import { AREAS, pageAt } from "./pages.tsx";
import { Link, go, pageOf, useHere } from "./router.tsx";
import { Mark, SignIn } from "./sign_in.tsx";
import { Viewer } from "./viewer.ts";
import "uplot/dist/uPlot.min.css";
import "./style.css";

function App() {
  const [who, setWho] = useState<Whoami | null | undefined>(undefined);
  const [issuer, setIssuer] = useState<string | null>(null);
  const [fault, setFault] = useState("");
  const [refusal, setRefusal] = useState("");
  const look = useCallback(async () => {
    try {
      if (isBack()) await comeBack().catch((error) => setRefusal(wordsOf(error)));
      const found = await session();
      setIssuer(found.issuer);
      setWho(found.signedIn ? await ask("/whoami") : null);
      if (found.signedIn) stream.start();
    } catch (error) {
      setFault(wordsOf(error));
    }
  }, []);
  useEffect(() => {
    const out = (): void => {
      stream.end();
      setWho(null);
    };
    signedOut.add(out);
    void look();
    return () => {
      signedOut.delete(out);
    };
  }, []);
  if (fault) return <p class="fault alone" role="alert">{fault}; load the page anew</p>;
  if (who === undefined) return <div class="loading alone" role="status">Loading…</div>;
  if (who === null) return <SignIn issuer={issuer} refusal={refusal} onDone={look} />;
  return (
    <Viewer.Provider value={who}>
      <Shell who={who} />
    </Viewer.Provider>
  );
}

function Shell({ who }: { who: Whoami }) {
  const parts = useHere();
  const palette = useRef<HTMLDialogElement>(null);
  const [openings, setOpenings] = useState(0);
  /** Opens a new palette in place of the last one, unless that is still open. */
  const openPalette = (): void => {
    if (!palette.current?.open) setOpenings((before) => before + 1);
  };
  // On a phone the pages are one line, which is moved by hand.
  useEffect(() => {
    document.querySelector("nav [aria-current]")?.scrollIntoView({ inline: "center", block: "nearest" });
  }, [parts[0]]);
  // As the page is drawn, not a frame later: no key is missed that is pressed once it is seen.
  useLayoutEffect(() => {
    let before = "";
    const pressed = (event: KeyboardEvent): void => {
      const isTyping = (event.target as HTMLElement).matches("input, textarea, select");
      if ((event.metaKey || event.ctrlKey) && event.key === "k") {
        event.preventDefault();
        openPalette();
      } else if (!isTyping && event.key === "/") {
        event.preventDefault();
        openPalette();
      } else if (!isTyping && before === "g") {
        const area = AREAS.find((each) => each.key === event.key);
        if (area) go(pageOf(...area.at));
      }
      before = isTyping ? "" : event.key;
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, []);
  return (
    <div class="shell">
      <a class="skip" href="#content">
        Go to the content
      </a>
      <nav aria-label="Pages">
        <Link to={[]} class="brand">
          <Mark /> Quorate
        </Link>
        <ul>
          {AREAS.map((area) => (
            <li>
              <Link to={area.at} current={(parts[0] ?? "") === (area.at[0] ?? "")}>
                {area.title}
              </Link>
            </li>
          ))}
        </ul>
        <div class="foot">
          <button type="button" class="plain find" onClick={openPalette}>
            Go to… <kbd>Ctrl K</kbd>
          </button>
          <Who who={who} />
          <State />
        </div>
      </nav>
      <main id="content" tabIndex={-1}>
        <Away />
        {pageAt(parts)}
      </main>
      {openings > 0 && <Palette key={openings} dialog={palette} />}
    </div>
  );
}

function Who({ who }: { who: Whoami }) {
  const leave = async (): Promise<void> => {
    await signOut();
    location.reload();
  };
  return (
    <div class="who">
      <span title={`role ${who.role}${who.tenant ? `, of ${who.tenant}` : ""}`}>
        <b>{who.user}</b>
        <small>{who.tenant ? `${who.role} of ${who.tenant}` : who.role}</small>
      </span>
      <button type="button" class="plain" onClick={() => void leave()}>
        Sign out
      </button>
    </div>
  );
}

/** Says, on every page, that what is shown may be old. */
function Away() {
  const [since, setSince] = useState(0);
  const state = useConnection();
  useEffect(() => setSince((old) => (state === "live" ? 0 : old || Date.now())), [state]);
  if (state !== "away") return null;
  return (
    <p class="away" role="alert">
      The service does not answer since {time(since)}. What you see may be old; this page asks again
      by itself.
    </p>
  );
}

function State() {
  const state = useConnection();
  const words = {
    live: "live",
    connecting: "connecting…",
    polling: "updated every 30 s",
    away: "no connection",
  };
  return (
    <div class={`state ${state}`} role="status">
      {words[state]}
    </div>
  );
}

render(<App />, document.getElementById("app") as HTMLElement);
