/** Checkpoints: the end of the ledger, signed, to be kept elsewhere and compared later. */

import { useState } from "preact/hooks";
import { change, save, wordsOf } from "../api.ts";
import type { Checkpoint, Verification } from "../api_types.ts";
import { number } from "../format.ts";
import { Card, When } from "../ui.tsx";
import { useViewer } from "../viewer.ts";

const FILE_BYTES_MAX = 65_536;

type Told = { signed: Checkpoint } | { agreed: Verification; file: string } | { fault: string };

export function Checkpoints() {
  const who = useViewer();
  const [told, setTold] = useState<Told | null>(null);
  const [isBusy, setBusy] = useState(false);
  const tried = async (act: () => Promise<Told>): Promise<void> => {
    setBusy(true);
    setTold(null);
    try {
      setTold(await act());
    } catch (error) {
      setTold({ fault: wordsOf(error) });
    }
    setBusy(false);
  };
  const sign = async (): Promise<Told> => {
    const signed = await change<Checkpoint>("POST", "/ledger/checkpoints", {}, {});
    const text = `${JSON.stringify(signed, null, 2)}\n`;
    save(new Blob([text], { type: "application/json" }), `checkpoint-${signed.height}.json`);
    return { signed };
  };
  const check = async (file: File): Promise<Told> => {
    if (file.size > FILE_BYTES_MAX) throw new Error(`${file.name} is too large for a checkpoint`);
    const checkpoint = parsed(await file.text(), file.name);
    const body = { checkpoints: [{ checkpoint, file: file.name }] };
    const agreed = await change<Verification>("POST", "/ledger/verification", {}, body);
    return { agreed, file: file.name };
  };
  return (
    <Card title="Checkpoints">
      <p>
        A checkpoint is the end of the ledger, signed. Keep it where the holder of the ledger cannot
        change it: a ledger that was cut off or written anew does not agree with it.
      </p>
      <div class="tools">
        {who.role === "admin" && (
          <button type="button" disabled={isBusy} onClick={() => void tried(sign)}>
            Sign a checkpoint
          </button>
        )}
        <label class="file">
          Check one that was kept:{" "}
          <input
            type="file"
            accept=".json,application/json"
            onChange={(event) => {
              const file = event.currentTarget.files?.[0];
              if (file) void tried(() => check(file));
            }}
          />
        </label>
      </div>
      {told && (
        <div role="status" class={`verdict ${"fault" in told ? "bad" : "good"}`}>
          <Answer told={told} />
        </div>
      )}
    </Card>
  );
}

/** Returns the checkpoint of a file; throws where it is none. */
function parsed(text: string, file: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new Error(`${file} is no JSON; choose a file of: quorate ledger checkpoint`);
  }
}

function Answer({ told }: { told: Told }) {
  if ("fault" in told) {
    return (
      <>
        <b>It does not agree.</b> {told.fault}
      </>
    );
  }
  if ("agreed" in told) {
    return (
      <>
        <b>The ledger agrees with {told.file}.</b>{" "}
        {told.agreed.checkpoints.map((each) => (
          <>Up to event {number(each.sequence)} it is as it was signed. </>
        ))}
      </>
    );
  }
  const { signed } = told;
  return (
    <>
      <b>Signed and saved.</b> Block {number(signed.height)}, event {number(signed.seq)}, at{" "}
      <When at={signed.at_ms} />. <code>{signed.hash}</code>
    </>
  );
}
