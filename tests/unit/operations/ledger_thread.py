"""Operations on a ledger in memory for tests, with a small fleet, a family, and callers."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import pytest
from msgspec import Struct, convert
from msgspec.json import decode, encode

from quorate.core.commands import Applied, Apply, Submit
from quorate.documents import to_json
from quorate.loop.engine import Engine
from quorate.model.amounts import HOUR_MS
from quorate.model.specs import Owner
from quorate.operations.answer_types import Answer
from quorate.operations.answering import answer
from quorate.operations.caller import Caller, Role
from quorate.operations.request_context import RequestContext
from quorate.operations.table import OPERATIONS
from quorate.testing.builders import borrowing, budget, envelope, fleet, lending, run
from quorate.testing.memory_engines import HandClock, memory_engine
from quorate.views.exits import CommandError

ADMIN = Caller(actor="root", role=Role.ADMIN, user="root")
AUDITOR = Caller(actor="eve", role=Role.AUDITOR, user="eve")
LAB_ADMIN = Caller(actor="lea", role=Role.TENANT_ADMIN, user="lea", tenant="lab")
ADA = Caller(actor="ada", role=Role.USER, user="ada", tenant="vision")
BEN = Caller(actor="ben", role=Role.USER, user="ben", tenant="speech")
STRANGER = Caller(actor="sid", role=Role.USER, user="sid", tenant="nowhere")


@dataclass
class LedgerThread:
    """``lab`` is above ``vision``; ``speech`` is separate, and lends to ``vision``."""

    clock: HandClock = field(default_factory=HandClock)
    engine: Engine = field(init=False)

    def __post_init__(self) -> None:
        """Open the ledger, and let ada and ben work for ten hours."""
        self.engine = memory_engine(clock=self.clock)
        world: tuple[Applied, ...] = (
            *fleet({"A": 32, "B": 32}),
            Owner(name="lab"),
            Owner(name="vision", parents=("lab",)),
            Owner(name="speech"),
            budget("lab", "lab", envelope("all", 64, flavor="A100")),
            budget("vision", "vision", envelope("all", 32)),
            budget("speech", "speech", envelope("all", 32, lending=lending("vision"))),
        )
        long = 400 * HOUR_MS
        for command in (
            Apply(world),
            Submit(run("see", 8, "vision", user="ada", expected_duration_ms=long)),
            Submit(run("hear", 8, "speech", user="ben", expected_duration_ms=long)),
            Submit(run("help", 8, "vision", user="ben", expected_duration_ms=long)),
        ):
            assert not self.engine.execute(command, actor="test").decision.refusals
        self.clock.ms += 10 * HOUR_MS

    def borrow(self) -> None:
        """Let ada work for vision with the money of speech for another ten hours."""
        wide = run("wide", 24, "vision", user="ada", funding=borrowing())
        assert not self.engine.execute(Submit(wide), actor="test").decision.refusals
        self.clock.ms += 10 * HOUR_MS

    def ask(self, caller: Caller, name: str, asked: Struct) -> Answer:
        """Return the answer to ``caller``."""
        return answer(RequestContext(self.engine, caller), OPERATIONS[name], asked)

    def lines(self, caller: Caller, name: str, asked: Struct) -> list[str]:
        """Return the answer as text."""
        wide = True
        return list(self.ask(caller, name, asked).lines(wide))

    def tree(self, caller: Caller, name: str, asked: Struct) -> Any:
        """Return the answer as a tree, which must have the fields in the table."""
        tree = json.loads(to_json(self.ask(caller, name, asked).tree()))
        read = convert(tree, OPERATIONS[name].gives)
        assert decode(encode(read)) == tree
        return tree

    def refused(self, caller: Caller, name: str, asked: Struct) -> CommandError:
        """Return the refusal of ``caller``, after which nothing was recorded."""
        before = self.engine.head
        with pytest.raises(CommandError) as caught:
            self.ask(caller, name, asked)
        assert self.engine.head == before
        return caught.value
