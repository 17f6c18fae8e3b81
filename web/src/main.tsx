/** The dashboard: who is signed in, the navigation, and the page of the address. */

import { render } from "preact";
import { useCallback, useEffect, useState } from "preact/hooks";
import { ask, isSignedIn, signIn, signOut, signedOut, wordsOf } from "./api.ts";
import type { Whoami } from "./api_types.ts";
import { stream, useConnection } from "./live.ts";
import { Palette } from "./palette.tsx";
import { AREAS, pageAt } from "./pages.tsx";
import { Link, go, pageOf, useHere } from "./router.tsx";
import { Viewer } from "./viewer.ts";
import "uplot/dist/uPlot.min.css";
import "./style.css";

function App() {
  const [who, setWho] = useState<Whoami | null | undefined>(undefined);
  const [fault, setFault] = useState("");
  const look = useCallback(async () => {
    try {
      const isIn = await isSignedIn();
      setWho(isIn ? await ask("/whoami") : null);
      if (isIn) stream.start();
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
  if (who === null) return <SignIn onDone={look} />;
  return (
    <Viewer.Provider value={who}>
      <Shell who={who} />
    </Viewer.Provider>
  );
}

function SignIn({ onDone }: { onDone: () => Promise<void> }) {
  const [token, setToken] = useState("");
  const [fault, setFault] = useState("");
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    try {
      await signIn(token.trim());
      await onDone();
    } catch (error) {
      setFault(wordsOf(error));
    }
  };
  useEffect(() => {
    document.title = "Sign in · Quorate";
  }, []);
  return (
    <main class="signin">
      <form onSubmit={(event) => void submit(event)}>
        <h1>
          <Mark /> Quorate
        </h1>
        <p>Sign in with an access token. You see and may do what the token may.</p>
        <label for="token">Access token</label>
        <input
          id="token"
          type="password"
          autocomplete="current-password"
          spellcheck={false}
          required
          value={token}
          onInput={(event) => setToken(event.currentTarget.value)}
        />
        {fault && (
          <p class="fault" role="alert">
            {fault}
          </p>
        )}
        <button type="submit" class="primary">
          Sign in
        </button>
        <p class="hint">
          No token yet? An admin issues one: <code>quorate token issue --role user --user NAME</code>
        </p>
      </form>
    </main>
  );
}

function Shell({ who }: { who: Whoami }) {
  const parts = useHere();
  const [isPaletteOpen, setPaletteOpen] = useState(false);
  useEffect(() => {
    let before = "";
    const pressed = (event: KeyboardEvent): void => {
      const isTyping = (event.target as HTMLElement).matches("input, textarea, select");
      if ((event.metaKey || event.ctrlKey) && event.key === "k") {
        event.preventDefault();
        setPaletteOpen(true);
      } else if (!isTyping && event.key === "/") {
        event.preventDefault();
        setPaletteOpen(true);
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
          <button type="button" class="plain find" onClick={() => setPaletteOpen(true)}>
            Go to… <kbd>Ctrl K</kbd>
          </button>
          <Who who={who} />
          <State />
        </div>
      </nav>
      <main id="content" tabIndex={-1}>
        {pageAt(parts)}
      </main>
      {isPaletteOpen && <Palette onClose={() => setPaletteOpen(false)} />}
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

function State() {
  const state = useConnection();
  const words = { live: "live", connecting: "connecting…", polling: "asked every 30 s" };
  return (
    <div class={`state ${state}`} role="status">
      {words[state]}
    </div>
  );
}

function Mark() {
  const cells = [1, 1, 0, 1, 1, 1, 0, 1, 1];
  return (
    <svg class="mark" viewBox="0 0 20 20" aria-hidden="true">
      {cells.map((cell, at) => (
        <rect
          x={1 + 6.5 * (at % 3)}
          y={1 + 6.5 * Math.floor(at / 3)}
          width="5"
          height="5"
          rx="1"
          opacity={cell ? 1 : 0.35}
        />
      ))}
    </svg>
  );
}

render(<App />, document.getElementById("app") as HTMLElement);
