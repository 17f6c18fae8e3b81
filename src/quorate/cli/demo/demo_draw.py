"""The demo's fourth scene: a lottery, with its odds before the draw and a proof after it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from quorate.cli.demo.demo_place import CHECKER
from quorate.cli.demo.demo_stage import Stage

EXPORT: Final = "export.jsonl"
_ODDS: Final = 4
"""How many times the plan prints the odds 1/2: for two teams, and for one run of each."""


@dataclass(frozen=True, slots=True)
class Lottery:
    """The run that was drawn, the run that was not, their owners, and the seed of the draw."""

    victim: str
    owner: str
    spared: str
    spared_owner: str
    seed: str


def draw_a_lottery(stage: Stage, *, submit: Callable[[str, str], tuple[str, ...]]) -> Lottery:
    """Play the scene, and return the result of the lottery."""
    stage.title("4. A lottery, and its proof")
    stage.say(
        "The team speech takes the last A100 GPUs. Now robotics needs 4, and can pay for them."
    )
    stage.type(*submit("listen", "speech"), pipe=("head", "-n", "2"))
    stage.wait(
        "listen begins", lambda: any(" step " in line for line in stage.keyboard.log("listen"))
    )
    stage.type(*submit("grasp", "robotics"))
    stage.say(
        """Runs have no priority, so importance cannot decide which run stops. When a firm start
        is due and GPUs are missing, a lottery is held among the owners of the runs that the
        start could end. All owners see the odds before the draw:"""
    )
    odds = stage.type("plan", "grasp", pipe=("grep", "-A", "9", "runs that it could end"))
    stage.check(odds.count("1/2 (50.0 %)") == _ODDS, "the odds were not announced before the draw")
    stage.wait(
        "the lottery is drawn, and grasp starts", lambda: _phase(stage, "grasp") == "Running"
    )
    stage.type("get", "resolveroutcomes")
    found = _outcome(stage)
    stage.say(
        f"""The lottery has drawn {found.victim} of {found.owner}. The run got SIGTERM and ten
        seconds to save its work. After the last process of {found.victim} had exited, grasp got
        the GPUs:"""
    )
    stage.type("logs", found.victim, pipe=("grep", "stop"))
    stage.say(f"{found.victim} keeps its place in the queue and its checkpoint. Why was it cut?")
    stage.type("queue")
    screen = stage.type("explain", found.victim, pipe=("grep", "-A", "5", "cut by"))
    stage.check(found.seed in screen, "explain does not name the seed of the draw")
    stage.bars()
    _prove(stage, found)
    return found


def _prove(stage: Stage, found: Lottery) -> None:
    stage.say(
        """The operator could not choose the victim. The secret number that decides was fixed
        before the first run: the first link of a hash chain has been in the ledger since the
        beginning, and each draw reveals the next link."""
    )
    stage.type("lottery", "show")
    stage.say(
        f"""Anyone can verify this: export the ledger, and draw again with {CHECKER}, 150 lines
        of plain Python that share no code with Quorate."""
    )
    stage.type("ledger", "export", "--out", EXPORT)
    drawn = stage.python(CHECKER, EXPORT).splitlines()[-1].split("\t")
    stage.check(drawn[-1] == found.victim, f"another program drew {drawn[-1]}")
    stage.say(f"The same victim: {drawn[-1]}.")


def _phase(stage: Stage, run: str) -> str:
    return str(stage.keyboard.ask("get", "run", run)["status"]["phase"])


def _outcome(stage: Stage) -> Lottery:
    conflicts = stage.keyboard.items("resolveroutcomes")
    stage.check(len(conflicts) == 1, f"{len(conflicts)} conflicts were settled")
    spec, status = conflicts[0]["spec"], conflicts[0]["status"]
    drawn = [(each["owner"], each["run"]) for each in status["draws"] if not each["spared"]]
    others = [
        (each["owner"], each["run"])
        for each in spec["tokens"]
        if (each["owner"], each["run"]) not in drawn
    ]
    stage.check(len(drawn) == len(others) == 1, f"{drawn} were drawn, but {others} were not")
    (owner, victim), (spared_owner, spared) = drawn[0], others[0]
    return Lottery(victim, owner, spared, spared_owner, status["seed"])
