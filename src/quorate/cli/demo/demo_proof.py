"""The end of the demo: detecting a forged copy of the ledger, who paid, and a summary."""

from __future__ import annotations

import json
import shlex
import shutil
import sqlite3
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from decimal import Decimal
from hashlib import sha256
from pathlib import Path
from typing import Final

import click

from quorate.cli.demo.demo_draw import EXPORT, Lottery
from quorate.cli.demo.demo_keyboard import interpreter
from quorate.cli.demo.demo_place import CHECKER
from quorate.cli.demo.demo_stage import Stage
from quorate.cli.settings import LEDGER_DEFAULT
from quorate.ledger.chain import GENESIS
from quorate.views.exits import Exit

FORGED = "forged.db"
_FORGED_EVENT: Final = b"conflict-resolved/1"
_HASHED: Final = b"quorate-block/1\0"
"""The first bytes of the input to each block's hash; see docs/reference/export.md."""


@dataclass(frozen=True, slots=True)
class Bill:
    """The GPU-milliseconds that each owner of an envelope paid."""

    by_payer: dict[str, int]

    def text(self) -> str:
        """Return the amounts in GPU-seconds, exact to the millisecond."""
        parts = ", ".join(f"{payer} {_seconds(paid)}" for payer, paid in self.by_payer.items())
        return f"{parts}; in all {_seconds(sum(self.by_payer.values()))} GPU-seconds"


def edit_history(stage: Stage, lottery: Lottery, receipt: str) -> None:
    """Play the fifth scene."""
    stage.title("5. An edited ledger is detected")
    stage.say(
        f"""The ledger is one file. In a copy of it a forger edits one event, the outcome of the
        lottery: {lottery.victim} of {lottery.owner} becomes {lottery.spared} of
        {lottery.spared_owner}. All other bytes stay the same."""
    )
    stage.prompt(f"cp {LEDGER_DEFAULT} {FORGED}")
    copy = stage.folder / FORGED
    shutil.copyfile(stage.folder / LEDGER_DEFAULT, copy)
    names = ((lottery.victim, lottery.spared), (lottery.owner, lottery.spared_owner))
    height = _rename_in_event(copy, names)
    verify = ("ledger", "verify")
    screen = stage.type("--ledger", FORGED, *verify, expect=Exit.UNSOUND)
    stage.check(f"block {height}" in screen, f"verify does not name block {height}")
    stage.say(
        """A cleverer forger computes all hashes again, so that the chain is valid. But every
        command that writes prints a receipt, the hash of its block, which proves the forgery.
        The seed also gives another victim:"""
    )
    _hash_anew(copy)
    stage.type("--ledger", FORGED, *verify, "--receipt", receipt, expect=Exit.UNSOUND)
    forged = "forged.jsonl"
    stage.type("--ledger", FORGED, "ledger", "export", "--out", forged)
    stage.python(CHECKER, forged, expect=1)
    stage.say("The original verifies, including all rules that must hold after every event:")
    stage.type(*verify, "--deep", "--receipt", receipt)


def pay(stage: Stage) -> Bill:
    """Show who paid.

    Raises ``CommandError`` if the amounts in the table, the charges, the envelopes and the leases
    differ.
    """
    stage.title("Who paid")
    screen = stage.type("get", "charges")
    *rows, total = [Decimal(line.split()[-1]) for line in screen.splitlines()[1:]]
    paid: Counter[str] = Counter()
    for charge in stage.keyboard.items("charges"):
        paid[charge["status"]["payerOwner"]] += int(charge["status"]["spentGPUMs"])
    spent_ms = sum(int(each["status"]["spentGPUMs"]) for each in stage.keyboard.items("envelopes"))
    leases, used_ms = _used(stage)
    stage.check(
        sum(rows) == total and paid.total() == spent_ms == used_ms,
        f"the charges do not add up: rows {sum(rows)}, total {total}; charged {paid.total()} "
        f"GPU-ms, spent {spent_ms} GPU-ms, leases {used_ms} GPU-ms",
    )
    stage.say(
        f"""The rows add up to the total. The charges, the spending of the envelopes, and the
        {leases} leases of the ledger all add up to"""
    )
    click.echo(f"  {used_ms} GPU-milliseconds")
    return Bill(dict(paid))


def _seconds(gpu_ms: int) -> str:
    return f"{Decimal(gpu_ms) / 1_000:.3f}"


def _used(stage: Stage) -> tuple[int, int]:
    """Return the number of leases in the ledger, and their GPU-milliseconds."""
    kept = "whole.jsonl"
    stage.keyboard.run(("ledger", "export", "--out", kept))
    begun: dict[str, tuple[int, int]] = {}
    ended: Counter[str] = Counter()
    for line in (stage.folder / kept).read_text(encoding="utf-8").splitlines():
        for event in json.loads(line)["events"]:
            if event["tag"].startswith("lease-started/"):
                gpus = sum(len(part["slots"]) for part in event["slots"])
                begun[event["lease"]] = (gpus, event["start_ms"])
            elif event["tag"].startswith("lease-ended/"):
                gpus, start_ms = begun[event["lease"]]
                ended[event["lease"]] += gpus * (event["end_ms"] - start_ms)
    stage.check(begun.keys() == ended.keys(), "a lease has not ended")
    return len(begun), ended.total()


def recall(stage: Stage, bill: Bill, why: str, lottery: Lottery) -> None:
    """Print answers to the questions that a new user would ask."""
    stage.title("What you have seen")
    for question, answer in (
        ("Who paid?", bill.text()),
        ("Why did detect wait?", why),
        (
            "Who was cut?",
            f"{lottery.victim} of {lottery.owner}, by lot with odds of 1/2, to start grasp",
        ),
        ("Can I prove it?", f"yes: {interpreter()} {CHECKER} {EXPORT}, and quorate ledger verify"),
    ):
        click.echo(f"  {question}\n      {answer}")
    stage.say("All processes have ended, and all files are still there. Try these commands:")
    for line in (
        f"cd {shlex.quote(str(stage.folder))}",
        "quorate ledger log --run grasp",
        "quorate describe resolveroutcome 1",
        "quorate statement",
    ):
        click.echo(f"  {line}")


def _rename_in_event(ledger: Path, names: Sequence[tuple[str, str]]) -> int:
    """Change names in the event of a lottery's outcome; return the height of the event's block.

    Each new name is as long as the old name, so that all other offsets stay the same.
    """
    with closing(sqlite3.connect(ledger)) as db, db:
        blocks = db.execute("SELECT height, body FROM block ORDER BY height").fetchall()
        height, body = next((height, body) for height, body in blocks if _FORGED_EVENT in body)
        begin = body.index(_FORGED_EVENT)
        # The next event of the block begins with its tag.
        end = body.index(b"run-stopping/1", begin)
        event = body[begin:end]
        for old, new in names:
            assert len(old) == len(new), "a name of another length would change other bytes, too"
            event = event.replace(old.encode(), new.encode())
        assert event != body[begin:end], "the event names another run"
        changed = body[:begin] + event + body[end:]
        db.execute("UPDATE block SET body = ? WHERE height = ?", (changed, height))
    return int(height)


def _hash_anew(ledger: Path) -> None:
    """Compute all hashes again, so that the forged blocks form a valid chain."""
    with closing(sqlite3.connect(ledger)) as db, db:
        before = GENESIS.hash
        for height, body in db.execute("SELECT height, body FROM block ORDER BY height").fetchall():
            after = sha256(_HASHED + before + body).digest()
            db.execute(
                "UPDATE block SET prev_hash = ?, hash = ? WHERE height = ?", (before, after, height)
            )
            before = after
        db.execute("UPDATE head SET hash = ?", (before,))
