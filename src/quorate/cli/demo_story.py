"""What the demo tells, step by step, and what it checks on the way."""

from __future__ import annotations

import shlex
from decimal import Decimal

from quorate.answers.exits import CommandError, Exit
from quorate.cli.demo_stage import Stage, flip_one_bit
from quorate.cli.settings import LEDGER_DEFAULT


def tell(stage: Stage) -> None:
    """Play all parts; raises ``CommandError`` where something is not as it is told."""
    stage.say(f"Everything below happens in {stage.folder}; nothing else is touched.")
    _declare(stage)
    _start(stage)
    _wait(stage)
    _help(stage)
    _pay(stage)
    _verify(stage)
    stage.title("Try next")
    stage.say(f"cd {shlex.quote(str(stage.folder))}")
    stage.say("quorate describe run finetune")
    stage.say("quorate submit --like pretrain --name pretrain-2 --dry-run")
    stage.say("quorate ledger log --run speech")


def _declare(stage: Stage) -> None:
    stage.title("A ledger, a fleet of three domains, a family of teams and their sponsor")
    stage.type("init")
    stage.type("apply", "-f", "fleet.yaml", "-f", "teams.yaml")
    stage.type("get", "domains")
    stage.type("get", "envelopes")


def _start(stage: Stage) -> None:
    stage.title("Runs start: placed and paid for in one commit")
    stage.say("48 GPUs in groups of 32. No domain has 48, so the groups go to two of them.")
    stage.type("submit", "-f", "pretrain.yaml")
    stage.say("\nvision can pay for 8 of 16 itself; its sibling audio shares the rest.")
    stage.type("submit", "-f", "detector.yaml")
    stage.say("\nlanguage has 4 left and the family nothing; the lab lends up to 4.")
    stage.type("submit", "-f", "finetune.yaml")
    stage.type("get", "domains")


def _wait(stage: Stage) -> None:
    stage.title("Runs wait, and are told why, with the numbers")
    stage.type("submit", "-f", "speech.yaml")
    stage.type("submit", "-f", "sweep.yaml")
    stage.type("get", "queue")


def _help(stage: Stage) -> None:
    stage.title("What would start it? Each answer was tried before it is printed")
    screen = stage.type("explain", "speech")
    proposed = [
        shlex.split(line) for line in screen.splitlines() if line.startswith("  quorate patch ")
    ]
    if not proposed:
        raise CommandError(Exit.UNSOUND, "the demo expected a change of a budget that helps")
    stage.say("\nThe change of the budget, typed as it is printed:")
    stage.type(*proposed[0][1:])
    if stage.ask("get", "run", "speech")["status"]["phase"] != "Running":
        raise CommandError(Exit.UNSOUND, "the change that explain printed did not start the run")


def _pay(stage: Stage) -> None:
    stage.title("Time passes, and whoever paid is on the bill")
    stage.later(2)
    stage.say("The detector is done; what it held and did not use is released. sweep was waiting.")
    stage.type("complete", "detector")
    stage.later(1)
    stage.say("speech has outlived what was held for it; its envelope has money, so it goes on.")
    stage.type("tick")
    stage.type("get", "runs")
    screen = stage.type("get", "charges")
    spent_ms = _check_bill(stage, screen)
    stage.say("\nThe rows add up to the total, and to what the envelopes have spent:")
    stage.say(f"{spent_ms} GPU-milliseconds.")


def _check_bill(stage: Stage, screen: str) -> int:
    """Return the GPU-milliseconds charged; raises unless table, charges and envelopes agree."""
    shown = [Decimal(line.split()[-1]) for line in screen.splitlines()[1:]]
    charges = stage.ask("get", "charges")["items"]
    envelopes = stage.ask("get", "envelopes")["items"]
    charged_ms = sum(int(item["status"]["spentGPUMs"]) for item in charges)
    spent_ms = sum(int(item["status"]["spentGPUMs"]) for item in envelopes)
    if sum(shown[:-1]) != shown[-1] or charged_ms != spent_ms:
        raise CommandError(
            Exit.UNSOUND,
            f"who paid does not add up: rows {sum(shown[:-1])}, total {shown[-1]}; "
            f"charged {charged_ms} GPU-ms, spent {spent_ms} GPU-ms",
        )
    return spent_ms


def _verify(stage: Stage) -> None:
    stage.title("The ledger proves itself")
    stage.type("ledger", "checkpoint", "--out", "checkpoint.json")
    done = flip_one_bit(
        stage.folder / LEDGER_DEFAULT, stage.folder / "tampered.db", inside=b"pretrain"
    )
    stage.say(f"\nOne bit of a copy is flipped: {done}.")
    stage.type("--ledger", "tampered.db", "ledger", "verify", expect=Exit.UNSOUND)
    stage.say("\nThe original verifies, down to every invariant, and is what was signed:")
    stage.type("ledger", "verify", "--deep", "--against", "checkpoint.json")
