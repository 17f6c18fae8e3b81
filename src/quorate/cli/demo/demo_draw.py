"""The demo's fourth scene: a lottery, foretold with its odds, drawn, and drawn again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from quorate.cli.demo.demo_place import CHECKER
from quorate.cli.demo.demo_stage import Stage

EXPORT: Final = "export.jsonl"
_ODDS: Final = 4
"""How often the plan says one in two: for each of two teams, and for the run of each."""


@dataclass(frozen=True, slots=True)
class Lottery:
    """Who was drawn, of which team, and who might have been."""

    victim: str
    owner: str
    spared: str
    spared_owner: str
    seed: str


def draw_a_lottery(stage: Stage, *, submit: Callable[[str, str], tuple[str, ...]]) -> Lottery:
    """Play the scene; return how it came out."""
    stage.title("4. A lottery, and the proof")
    stage.say("The team speech takes the A100 that are left. Now robotics wants 4, and can pay.")
    stage.type(*submit("listen", "speech"), pipe=("head", "-n", "2"))
    stage.wait(
        "listen begins", lambda: any(" step " in line for line in stage.keyboard.log("listen"))
    )
    stage.type(*submit("grasp", "robotics"))
    stage.say(
        """No run has priority here, so no run can be stopped because another one is more
        important. Each owner in the way when a firm start is due enters a lottery, and all
        owners know the odds before it is drawn:"""
    )
    odds = stage.type("plan", "grasp", pipe=("grep", "-A", "9", "runs that it could end"))
    stage.check(odds.count("1/2 (50.0 %)") == _ODDS, "the odds were not announced before the draw")
    stage.wait(
        "the lottery is drawn, and grasp starts", lambda: _phase(stage, "grasp") == "Running"
    )
    stage.type("get", "resolveroutcomes")
    found = _outcome(stage)
    stage.say(
        f"""The lot fell on {found.victim} of {found.owner}. It was told, had ten seconds to save,
        and only when its last process was gone did its GPUs go to grasp:"""
    )
    stage.type("logs", found.victim, pipe=("grep", "stop"))
    stage.say(f"{found.victim} waits again, with its old place and its checkpoint, and knows why:")
    stage.type("queue")
    screen = stage.type("explain", found.victim, pipe=("grep", "-A", "5", "cut by"))
    stage.check(found.seed in screen, "explain does not name the seed that drew it")
    stage.bars()
    _prove(stage, found)
    return found


def _prove(stage: Stage, found: Lottery) -> None:
    stage.say(
        """Could the operator have picked whom it liked? The number that decides was fixed before
        there was any run: its hash has been in the ledger since the beginning, and the draw
        reveals the next link of that chain."""
    )
    stage.type("lottery", "show")
    stage.say(
        f"""Do not take its word: export the ledger, and draw again with {CHECKER}, 150 lines of
        plain Python that share no code with Quorate."""
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
    stage.check(len(drawn) == len(others) == 1, f"{drawn} were drawn, and {others} were not")
    (owner, victim), (spared_owner, spared) = drawn[0], others[0]
    return Lottery(victim, owner, spared, spared_owner, status["seed"])
