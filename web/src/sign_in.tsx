/** Where people sign in: at the issuer, where the service has one, or with an access token. */

import { useEffect, useState } from "preact/hooks";
import { signIn, wordsOf } from "./api.ts";
import { goToIssuer } from "./oidc.ts";

interface SignInProps {
  /** The issuer that the service trusts; null where there is none to sign in at. */
  issuer: string | null;
  /** Why the issuer did not sign the person in. */
  refusal: string;
  onDone: () => Promise<void>;
}

export function SignIn({ issuer, refusal, onDone }: SignInProps) {
  const [fault, setFault] = useState(refusal);
  useEffect(() => {
    document.title = "Sign in · Quorate";
  }, []);
  const tried = async (act: () => Promise<void>): Promise<void> => {
    setFault("");
    try {
      await act();
    } catch (error) {
      setFault(wordsOf(error));
    }
  };
  return (
    <main class="signin">
      <div class="ways">
        <h1>
          <Mark /> Quorate
        </h1>
        {issuer && (
          <>
            <button type="button" class="primary" onClick={() => void tried(goToIssuer)}>
              Sign in with {new URL(issuer).host}
            </button>
            <p class="or">or</p>
          </>
        )}
        <TokenForm
          isFirst={issuer === null}
          onToken={(token) =>
            void tried(async () => {
              await signIn(token);
              await onDone();
            })
          }
        />
        {fault && (
          <p class="fault" role="alert">
            {fault}
          </p>
        )}
      </div>
    </main>
  );
}

function TokenForm({ isFirst, onToken }: { isFirst: boolean; onToken: (token: string) => void }) {
  const [token, setToken] = useState("");
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        onToken(token.trim());
      }}
    >
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
      <button type="submit" class={isFirst ? "primary" : ""}>
        Sign in
      </button>
      <p class="hint">
        No token yet? An admin issues one: <code>quorate token issue --role user --user NAME</code>
      </p>
    </form>
  );
}

/** The sign of Quorate: GPUs, most of them in use. */
export function Mark() {
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
