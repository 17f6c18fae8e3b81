"""The five scenes of the demo: its text, its commands and its checks."""

from __future__ import annotations

import re
import shlex
from typing import Final

import click

from quorate.cli.demo.demo_draw import draw_a_lottery
from quorate.cli.demo.demo_keyboard import interpreter
from quorate.cli.demo.demo_proof import edit_history, pay, recall
from quorate.cli.demo.demo_service import ALLOW_ROOT, TOKEN, WORDS
from quorate.cli.demo.demo_stage import Stage

AS_ROOT: Final = (
    "You are root, and the demo runs its work as root, so it needs --executor-allow-root. A "
    "service for others runs the work of each team as its own system user: docs/jobs.md."
)
"""Printed only if the user is root."""
_STEP: Final = re.compile(r"^\w+ step (\d+), ")
_STEPS_SEEN: Final = 2
"""How many steps the log of a run must have before the demo takes the run as working."""
_STEP_SAVED: Final = 6
"""A step after the first checkpoint: train.py saves the first checkpoint after five steps."""


def tell(stage: Stage) -> None:
    """Play all scenes; raises ``CommandError`` if a result does not match the text."""
    _open(stage)
    _pay_first(stage)
    why = _refuse(stage)
    _lose_a_node(stage)
    lottery = draw_a_lottery(stage, submit=typed_run)
    receipt = _close(stage, lottery.victim)
    edit_history(stage, lottery, receipt)
    bill = pay(stage)
    recall(stage, bill, why, lottery)


def typed_run(name: str, team: str) -> tuple[str, ...]:
    """Return the arguments that submit the run ``name`` of ``team``, on one node with four GPUs."""
    what = ("--name", name, "--team", team, "--gpus", "4", "--flavor", "A100")
    return ("submit", *what, "--processes", "node", "--", interpreter(), "train.py")


def steps_in(lines: list[str]) -> list[int]:
    """Return the step numbers in a log, in order."""
    return [int(found[1]) for line in lines if (found := _STEP.match(line))]


def _open(stage: Stage) -> None:
    stage.say(
        """Quorate shares a fleet of GPUs among teams by budget. This demo starts a service on this
        machine. Its runs are real processes of train.py, a toy that learns one number; its GPUs
        are only declared. All files are in"""
    )
    click.echo(f"  {stage.folder}")
    if ALLOW_ROOT in WORDS:
        stage.say(AS_ROOT)
    stage.prompt(f"quorate {shlex.join(WORDS)} &")
    stage.show(stage.service.said)
    stage.prompt(f"export QUORATE_SERVER={stage.service.url} QUORATE_TOKEN=$(cat {TOKEN})")
    stage.say(
        """The demo declares seven machines of four GPUs, four teams with one envelope each, and a
        lab that lends. The envelopes of the three teams on A100 allow more GPUs than there are,
        which causes a warning, and the lottery of scene 4."""
    )
    stage.type("apply", "-f", "fleet.yaml", "-f", "teams.yaml", pipe=("tail", "-n", "2"))


def _pay_first(stage: Stage) -> None:
    stage.title("1. Paid before placed")
    stage.say(
        """The team language needs 12 GPUs in groups of 8, each group inside one domain (machines
        that share a fast network), and 4 spare GPUs for each group. Its envelope pays for 8 GPUs
        at a time, and it may borrow from the lab. All GPUs start together, or none does."""
    )
    stage.type("submit", "-f", "pretrain.yaml")
    leases = stage.keyboard.items("leases")
    payers = {lease["status"]["payer"] for lease in leases}
    stage.check(payers == {"language/west", "lab/west"}, f"paid by {payers}")
    stage.wait("pretrain begins", lambda: _works(stage.keyboard.log("pretrain")))
    stage.say("The run has three processes, one on each node, which exchange data.")
    stage.type("logs", "pretrain", pipe=("head", "-n", "4"))
    stage.say(
        """One letter is one GPU: L language, V vision, S speech, R robotics; a small letter is a
        spare, a dot is free, and x is on a failed node."""
    )
    stage.bars()


def _refuse(stage: Stage) -> str:
    """Play the second scene; return the reason why the run waited."""
    stage.title("2. A refusal with numbers and remedies")
    stage.say("The team vision needs 4 GPUs. 8 are free, but its budget pays for 2.")
    stage.type(*typed_run("detect", "vision"))
    stage.say("Why does the run wait, and what would start it? A dry run has verified each remedy.")
    screen = stage.type("explain", "detect")
    reason = next(line.strip() for line in screen.splitlines() if "insufficient-funds" in line)
    proposed = [
        shlex.split(line) for line in screen.splitlines() if line.startswith("  quorate patch ")
    ]
    stage.check(bool(proposed), "explain did not offer to change the budget")
    stage.say("The owner of the budget types the last command:")
    stage.type(*proposed[-1][1:])
    phase = stage.keyboard.ask("get", "run", "detect")["status"]["phase"]
    stage.check(phase == "Running", f"detect is {phase} after the command that explain printed")
    return reason


def _lose_a_node(stage: Stage) -> None:
    stage.title("3. A node fails, and the run continues")
    stage.say("pretrain has saved a checkpoint. Then node a1 fails, and a monitor reports it:")
    log = stage.keyboard.log
    stage.wait("pretrain saves a checkpoint", lambda: steps_in(log("pretrain"))[-1] >= _STEP_SAVED)
    stage.type("logs", "pretrain", pipe=("tail", "-n", "2"))
    stage.type("node", "fail", "a1")
    stage.wait("pretrain goes on", lambda: _went_on(log("pretrain")))
    stage.say(
        """The spare machine a3 has replaced a1 in the same domain; a3 was already paid for.
        The processes on a1 are lost; the run has started again from its checkpoint:"""
    )
    shown = stage.type("logs", "pretrain", pipe=("grep", "-A", "3", "start 2"))
    first = steps_in(shown.splitlines())[0]
    lines = log("pretrain")
    began = next(at for at, line in enumerate(lines) if "start 2" in line)
    reached = steps_in(lines[:began])[-1]
    stage.check(1 < first <= reached + 1, f"after step {reached} it went on with step {first}")
    stage.bars()


def _went_on(lines: list[str]) -> bool:
    places = [at for at, line in enumerate(lines) if "goes on from its checkpoint" in line]
    return bool(places) and _works(lines[places[-1] :])


def _works(lines: list[str]) -> bool:
    return len(steps_in(lines)) >= _STEPS_SEEN


def _close(stage: Stage, victim: str) -> str:
    """End all runs and the service; return the receipt of the last command that wrote."""
    stage.say(
        """Now all runs are cancelled, the waiting one first. Each run gets its grace period to
        save its work, and its end is recorded when its last process has exited. Then the
        service stops."""
    )
    others = [run for run in ("detect", "listen", "grasp", "pretrain") if run != victim]
    said = [stage.type("cancel", run, pipe=("tail", "-n", "1")) for run in (victim, *others)]
    stage.wait("the last process ends", lambda: not stage.keyboard.items("leases"))
    click.echo("\n(Ctrl-C in the terminal of the service)")
    stage.check(stage.end_service() == 0, "the service did not end well")
    return said[-1].split()[-1]
