"""Calculations: compute a decision from the state in the request, and from nothing else."""

from __future__ import annotations

import json
from typing import Final

from quorate.calc import CalcInputError, run
from quorate.operations.answer_types import Answer
from quorate.operations.ledger.ledger_operations import Calculate
from quorate.operations.operation import Operation
from quorate.operations.request_context import AnyContext
from quorate.views.exits import CommandError, Exit

SCENARIO: Final = "scenario"
ROUNDS: Final = "rounds"
STEPS_MAX: Final = 100
"""The most steps of a scenario that a service plays."""
THINGS_MAX: Final = 500
"""The most nodes, runs and documents in the world of a scenario. The limit is needed because the
answer shows all of them after each step."""
_THINGS: Final = ("nodes", "runs", "documents")


def calculate(context: AnyContext, asked: Calculate, operation: Operation) -> Answer:
    """Return the decision in the given world, without reading the ledger."""
    del context, operation
    if asked.kind == SCENARIO:
        _check_size(asked.world)
    if asked.kind == ROUNDS:
        # The number of rounds in a recording is known only after it has been played.
        raise CommandError(
            Exit.INVALID,
            "kind: a service does not replay recordings; replay this one on your machine:"
            " quorate calc rounds -f FILE",
        )
    try:
        found = run(asked.kind, asked.world)
    except CalcInputError as error:
        raise CommandError(Exit.INVALID, str(error)) from None
    return Answer(
        tree=lambda: found,
        lines=lambda _: json.dumps(found, indent=2, ensure_ascii=False).splitlines(),
    )


def _check_size(world: object) -> None:
    """Raise ``CommandError`` if a scenario would take longer than other callers should wait."""
    if not isinstance(world, dict):
        return
    steps = _count(world.get("steps"))
    things = sum(_count(world.get(name)) for name in _THINGS)
    remedy = "run it on your machine: quorate calc scenario -f FILE"
    if steps > STEPS_MAX:
        raise CommandError(
            Exit.INVALID,
            f"steps: has {steps} entries, and a service computes {STEPS_MAX} at most; {remedy}",
        )
    if things > THINGS_MAX:
        raise CommandError(
            Exit.INVALID,
            f"world: has {things} {', '.join(_THINGS)}, and a service computes with {THINGS_MAX} "
            f"at most; {remedy}",
        )


def _count(value: object) -> int:
    return len(value) if isinstance(value, list) else 0
