"""The calculus: a decision worked out on a world that is given, and on nothing else."""

from __future__ import annotations

import json

from quorate.answers.exits import CommandError, Exit
from quorate.calc import CalcInputError, run
from quorate.operations.answer import Answer
from quorate.operations.asked_ledger import Calculate
from quorate.operations.desk import AnyDesk
from quorate.operations.operation import Operation


def calculate(desk: AnyDesk, asked: Calculate, operation: Operation) -> Answer:
    """Return what is decided in the world; the ledger is not looked at."""
    del desk, operation
    try:
        found = run(asked.kind, asked.world)
    except CalcInputError as error:
        raise CommandError(Exit.INVALID, str(error)) from None
    return Answer(
        tree=lambda: found,
        lines=lambda _: json.dumps(found, indent=2, ensure_ascii=False).splitlines(),
    )
