"""A small ledger of two tenants, for tests of what each of them may see."""

from __future__ import annotations

from msgspec import Struct

from quorate.adapters.stores.store_memory import MemoryStore
from quorate.core.commands import Apply, Command, MarkNode, Resolve, Submit, Tick
from quorate.loop.engine import Engine
from quorate.model.amounts import HOUR_MS
from quorate.model.events import NodeStatus
from quorate.model.specs import Owner, Pool
from quorate.operations.answer_types import Answer
from quorate.operations.answering import answer
from quorate.operations.caller import Caller, Role
from quorate.operations.request_context import AnyContext, RequestContext
from quorate.operations.table import OPERATIONS
from quorate.testing.builders import budget, envelope, fleet, run
from quorate.testing.memory_engines import HandClock, memory_engine

ADMIN = Caller(actor="root", role=Role.ADMIN, user="root")
AUDITOR = Caller(actor="ann", role=Role.AUDITOR, user="ann")
OF_LAB = Caller(actor="ada", role=Role.USER, user="ada", tenant="lab")
OF_TEAM = Caller(actor="tim", role=Role.USER, user="tim", tenant="team")
OF_OTHER = Caller(actor="eve", role=Role.TENANT_ADMIN, user="eve", tenant="other")
OF_NONE = Caller(actor="zoe", role=Role.USER, user="zoe")
EVERYBODY = (ADMIN, AUDITOR, OF_LAB, OF_TEAM, OF_OTHER, OF_NONE)

DECLARED = Apply(
    (
        Pool(name="default", firm_horizon_ms=24 * HOUR_MS),
        *fleet({"A": 16}),
        Owner(name="lab"),
        Owner(name="team", parents=("lab",)),
        Owner(name="other"),
        budget("labs", "lab", envelope("e", 16)),
        budget("others", "other", envelope("e", 16)),
    )
)
RUNNING = tuple(
    Submit(run(name, 8, owner, expected_duration_ms=4 * HOUR_MS))
    for name, owner in (("of-team", "team"), ("of-other", "other"))
)
WAITING = tuple(
    Submit(run(f"{owner}-waits", 8, owner, expected_duration_ms=HOUR_MS))
    for owner in ("lab", "other")
)


def engine_at_work(clock: HandClock | None = None) -> Engine:
    """Return a ledger with running and waiting runs, a failed node, and a settled conflict."""
    clock = HandClock() if clock is None else clock
    engine = memory_engine(MemoryStore(), clock)
    steps: tuple[Command, ...] = (
        DECLARED,
        *RUNNING,
        *WAITING,
        MarkNode("a0000", NodeStatus.CORDONED, "smoke"),
        # No run is drawn before it has run for four notices.
        Resolve("default", "H100", (), 8),
        Tick(),
    )
    for command in steps:
        if isinstance(command, Resolve | Tick):
            clock.ms += HOUR_MS
        assert not engine.execute(command, actor="root").decision.refusals, command
    return engine


def desk_for(caller: Caller, engine: Engine | None = None) -> RequestContext:
    """Return the request context of ``caller``."""
    return RequestContext(engine_at_work() if engine is None else engine, caller)


def ask(context: AnyContext, name: str, asked: Struct) -> Answer:
    """Return the answer to the operation called ``name``."""
    return answer(context, OPERATIONS[name], asked)


def lines_of(found: Answer, *, wide: bool = False) -> list[str]:
    """Return the lines for people."""
    return list(found.lines(wide))


SEEN = {
    "root": range(1, 54),
    "ann": range(1, 54),
    "ada": [
        *range(1, 8),
        9,
        11,
        12,
        *range(15, 19),
        *range(22, 28),
        31,
        32,
        *range(35, 40),
        *range(42, 45),
        48,
        53,
    ],
    "tim": [*range(1, 6), 7, 11, 12, 18, *range(22, 28), 35, 36, 44],
    "eve": [
        *range(1, 6),
        8,
        10,
        13,
        14,
        *range(18, 31),
        *range(33, 37),
        40,
        41,
        *range(44, 48),
        *range(49, 53),
    ],
    "zoe": [*range(1, 6), *range(23, 26), 27, 35, 36, 44],
}
"""The sequences of ``engine_at_work`` that each actor may see."""
