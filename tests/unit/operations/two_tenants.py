"""A ledger of two unrelated tenants on nodes that they share.

Everything that can belong to a tenant exists for both: work, money, claims, firm starts, tokens. A
third tenant was in a conflict, which is published.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

from msgspec import Struct

from quorate.adapters.stores.store_memory import MemoryStore
from quorate.core.commands import (
    Apply,
    Command,
    IssueToken,
    Release,
    Resolve,
    RevokeToken,
    Submit,
    Tick,
)
from quorate.ledger.chain import Block
from quorate.loop.engine import Engine
from quorate.model.amounts import HOUR_MS, MINUTE_MS
from quorate.model.events import TokenRole
from quorate.model.specs import Cap, Follow, Malleable, Owner, Pool, Quota
from quorate.operations.answer_types import Answer
from quorate.operations.answering import answer
from quorate.operations.caller import CLAIM, Caller, Role
from quorate.operations.request_context import RequestContext
from quorate.operations.table import OPERATIONS
from quorate.testing.builders import budget, envelope, fleet, run
from quorate.testing.memory_engines import LOTTERY_SECRET, HandClock, memory_engine

ADMIN: Final = Caller(actor="root", role=Role.ADMIN, user="root")
_CLAIMS: Final = frozenset({CLAIM})
USER: Final = Caller(actor="mine/mia", role=Role.USER, user="mia", tenant="mine", scopes=_CLAIMS)
MANAGER: Final = Caller(
    actor="mine/max", role=Role.TENANT_ADMIN, user="max", tenant="mine", scopes=_CLAIMS
)
THEIRS: Final = Caller(actor="zeta/zed", role=Role.USER, user="zed", tenant="zeta")
OF_TENANT: Final = (USER, MANAGER)

_QUOTA: Final = Quota(fair_share_target_ppm=700_000, gpu_ms_budget=1_000 * HOUR_MS, nodes_max=40)


def _budget(owner: str) -> Any:
    lines = (f"{owner}-line",)
    caps = (Cap(name=f"{owner}-cap", flavor="H100", envelopes=lines, concurrency_max=64),)
    return budget(
        f"{owner}-money",
        owner,
        envelope(f"{owner}-line", 64),
        envelope(f"{owner}-slow", 64, flavor="L40"),
        envelope(f"{owner}-small", 8, flavor="A10", gpu_ms_max=8 * HOUR_MS),
        caps=caps,
    )


def _of(owner: str, name: str, gpus: int, **more: Any) -> Command:
    user = {"mine": "mia", "zeta": "zed"}.get(owner, f"{owner}-user")
    fields = {"user": user, "expected_duration_ms": 20 * HOUR_MS} | more
    return Submit(run(f"{owner}-{name}", gpus, owner, **fields))


def _token(name: str, tenant: str, user: str) -> Command:
    return IssueToken(
        token=name, digest="0" * 64, role=TokenRole.USER, tenant=tenant, user=user, note=name
    )


def _world(*, has_conflicts: bool, horizon_ms: int) -> Command:
    """Return the declarations; without conflicts only an operator may call one."""
    rate_ppm = 10_000 if has_conflicts else 0
    pool = Pool(name="default", disruption_rate_ppm=rate_ppm, firm_horizon_ms=horizon_ms)
    return Apply(
        (
            pool,
            *fleet({"A": 32, "B": 16}),
            *fleet({"C": 16}, flavor="L40"),
            *fleet({"D": 8}, flavor="A10"),
            Owner(name="mine", quota=_QUOTA),
            Owner(name="mine-team", parents=("mine",)),
            Owner(name="zeta", quota=_QUOTA),
            Owner(name="zeta-team", parents=("zeta",)),
            Owner(name="omega"),
            *(_budget(owner) for owner in ("mine", "zeta", "omega")),
        )
    )


_CLAIM: Final = {"sensitive": True, "selector": (("fabric.domain", "B"),)}
_ELASTIC: Final = Malleable(gpus_min=4, gpus_max=8, gpus_step=4, gpus_desired=8)
STEPS: Final[tuple[tuple[str, Command], ...]] = (
    ("root", _token("zetatoken", "zeta", "zed")),
    ("root", _token("zetagone", "zeta", "zoe")),
    ("root", RevokeToken("zetagone", "lost")),
    ("root", _token("minetoken", "mine", "mia")),
    ("root", _token("minespare", "mine", "mia")),
    ("omega/ole", _of("omega", "drawn", 8, flavors=("L40",))),
    ("omega/ole", _of("omega", "other", 8, flavors=("L40",))),
    # A claim, and a node that has to be wiped after another claim.
    ("zeta/zed", _of("zeta", "claim", 8, **_CLAIM)),
    ("zeta/zed", _of("zeta", "over", 8, **_CLAIM)),
    ("zeta/zed", Release("zeta-over", "zed is done")),
    # Work on the same nodes, including spares.
    ("zeta/zed", _of("zeta", "keeper", 4, group_gpus=4, spares_per_group=4)),
    ("zeta/zed", _of("zeta", "half", 2)),
    ("mine/mia", _of("mine", "half", 2)),
    ("zeta/zed", _of("zeta", "short", 2, flavors=("A10",), expected_duration_ms=HOUR_MS)),
    ("mine/mia", _of("mine", "short", 2, flavors=("A10",), expected_duration_ms=HOUR_MS)),
    ("mine/mia", _of("mine", "elastic", 8, malleable=_ELASTIC)),
    ("zeta/zed", _of("zeta", "soon", 4, expected_duration_ms=3 * HOUR_MS)),
    # Planned starts: first one of the other tenant, then ours behind it, and some before it.
    ("zeta/zed", _of("zeta", "waits", 24)),
    ("mine/mia", _of("mine", "waits", 24)),
    ("mine/mia", _of("mine", "front", 4, expected_duration_ms=HOUR_MS)),
    ("mine/mia", _of("mine", "behind", 4)),
    ("zeta/zed", _of("zeta", "behind", 4)),
    ("mine/mia", _of("mine", "filler", 8, expected_duration_ms=2 * HOUR_MS)),
    ("zeta/zed", _of("zeta", "front", 2, expected_duration_ms=HOUR_MS)),
    ("mine/mia", _of("mine", "late", 2, expected_duration_ms=HOUR_MS)),
    ("mine/mia", _of("mine", "after", 2, follow=Follow(after=("mine-waits",)))),
)


def _happen(
    engine: Engine, clock: HandClock, *, has_conflicts: bool, ticks: int, horizon_ms: int
) -> None:
    """Record the declarations and all steps in a new ledger, and let ``ticks`` hours pass."""

    def execute(command: Command, actor: str) -> None:
        decision = engine.execute(command, actor=actor).decision
        assert not decision.refusals, (command, decision.refusals)

    execute(_world(has_conflicts=has_conflicts, horizon_ms=horizon_ms), "root")
    for actor, command in STEPS:
        clock.ms += MINUTE_MS
        execute(command, actor)
    for _ in range(ticks):
        clock.ms += HOUR_MS
        execute(Tick(), "zeta/zed")
    execute(Resolve("default", "L40", (), 8), "root")
    clock.ms += HOUR_MS
    execute(Tick(), "zeta/zed")


@cache
def _recorded(**happens: Any) -> tuple[tuple[Block, ...], int]:
    """Return the blocks of the ledger with these events, and the time of the last one.

    They are decided once in each process.
    """
    store, clock = MemoryStore(), HandClock()
    _happen(memory_engine(store, clock), clock, **happens)
    return tuple(store.blocks()), clock.ms


@dataclass
class TwoTenants:
    """The ledger, and the names that no caller of ``mine`` may see.

    With conflicts, firm starts call them, so that names of both tenants are published. ``opening``
    creates another ledger than one in memory. Within ``horizon_ms`` planned starts are firm.
    """

    has_conflicts: bool = False
    hours_later: int = 0
    ticks: int = 5
    horizon_ms: int = 1_000 * HOUR_MS
    opening: Callable[[HandClock], Engine] | None = None
    clock: HandClock = field(default_factory=HandClock)
    engine: Engine = field(init=False)

    def __post_init__(self) -> None:
        """Record all events described above."""
        happens: dict[str, Any] = {
            "has_conflicts": self.has_conflicts,
            "ticks": self.ticks,
            "horizon_ms": self.horizon_ms,
        }
        if self.opening is None:
            blocks, self.clock.ms = _recorded(**happens)
            store = MemoryStore(blocks)
            self.engine = Engine.open(store, self.clock, lottery_secret=LOTTERY_SECRET)
        else:
            self.engine = self.opening(self.clock)
            _happen(self.engine, self.clock, **happens)
        # Due changes are shown, but not recorded yet.
        self.clock.ms += self.hours_later * HOUR_MS

    def ask(self, caller: Caller, name: str, asked: Struct) -> Answer:
        """Return the answer to ``caller``."""
        return answer(RequestContext(self.engine, caller), OPERATIONS[name], asked)

    def secrets(self) -> set[str]:
        """Return the names that are hidden from the tenant ``mine``: all that are not published."""
        view = self.engine.view
        runs = {name for name, each in view.runs.items() if each.spec.owner == THEIRS.tenant}
        budgets = {name for name, each in view.budgets.items() if each.owner == THEIRS.tenant}
        lines = {each.spec.name for each in view.envelopes.values() if each.owner == THEIRS.tenant}
        found = runs | budgets | lines | {"zed", "zoe", "zeta", "zeta-team", "zeta-cap"}
        return (found | {"zetatoken", "zetagone"}) - self._published()

    def _published(self) -> set[str]:
        """Return the names in conflicts, which everyone may check."""
        found: set[str] = set()
        for record in self.engine.view.conflicts.values():
            declared, resolved = record.declared, record.resolved
            found |= {each.run for each in declared.tokens}
            found |= {each.owner for each in declared.tokens}
            found.add(declared.reservation.rpartition("@")[0])
            found |= set() if resolved is None else {each.run for each in resolved.cuts}
        return found

    def told(self, text: str) -> list[str]:
        """Return the hidden names in ``text``, with the words around them."""
        names = "|".join(sorted(self.secrets(), key=len, reverse=True))
        pattern = rf"(?<![A-Za-z0-9-])(?:{names})(?![A-Za-z0-9]|-[a-z])"
        return [text[max(0, m.start() - 80) : m.end() + 20] for m in re.finditer(pattern, text)]
