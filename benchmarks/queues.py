"""A full fleet with a queue, for the measurements of planning.

Runs of different sizes have all GPUs, and end one after another. Every owner has two envelopes and
many waiting runs. Leases and waiting runs are written as events, which takes seconds. To submit
each run would take an hour.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from time import process_time

from benchmarks.worlds import FLAVOR, REGION_NAME, fleet
from quorate.core.commands import Command, Decision
from quorate.core.decide import decide
from quorate.model.amounts import MINUTE_MS
from quorate.model.events import (
    Event,
    LeaseStarted,
    Role,
    RunRefused,
    RunSubmitted,
    StartReason,
    Tier,
)
from quorate.model.refusal import Refusal, RefusalCode
from quorate.model.selector import REGION
from quorate.model.specs import Budget, Envelope, EnvelopeId, Owner, Pool, Run
from quorate.model.state.apply_event import apply_all
from quorate.model.state.state import State
from quorate.model.state.state_view import StateView
from quorate.testing.builders import (
    NOW_MS,
    WINDOW_END_MS,
    WINDOW_START_MS,
    budget,
    envelope,
    world,
)

WIDTHS = (1, 1, 2, 4, 8, 8, 16, 32, 64, 128)
GRACE_MS = 2 * MINUTE_MS


@dataclass(slots=True)
class Demand:
    """Runs that arrive at random on the fleet of ``view``, and runs that end."""

    view: StateView
    chance: Random
    owners: int
    now_ms: int = NOW_MS
    running: list[str] = field(default_factory=list)
    made: int = 0

    def next_run(self, *, width: int | None = None, minutes: int | None = None) -> Run:
        """Return a new run with a random owner and, unless given, a random size and duration."""
        self.made += 1
        gpus = self.chance.choice(WIDTHS) if width is None else width
        return Run(
            name=f"r{self.made:06d}",
            owner=f"o{self.chance.randrange(self.owners):03d}",
            flavors=(FLAVOR,),
            gpus=gpus,
            user="u",
            pool="default",
            group_gpus=min(gpus, 64),
            checkpoint_ms=GRACE_MS,
            expected_duration_ms=(minutes or self.chance.randrange(20, 24 * 60)) * MINUTE_MS,
        )

    def ending(self) -> str:
        """Return the run to end next: a random running run."""
        while True:
            place = self.chance.randrange(len(self.running))
            self.running[place], self.running[-1] = self.running[-1], self.running[place]
            name = self.running.pop()
            if self.view.runs[name].leases:
                return name


@dataclass(slots=True)
class Busy(Demand):
    """A full fleet with a queue. Commands are decided at ``now_ms``, which the caller advances."""

    @property
    def state(self) -> State:
        """The state, which commands change."""
        assert isinstance(self.view, State), self.view
        return self.view

    def do(self, command: Command) -> tuple[Decision, float]:
        """Return the decision, and the CPU milliseconds of deciding and applying it."""
        began = process_time()
        decision = decide(self.state, command, now_ms=self.now_ms, actor="bench")
        apply_all(self.state, decision.events)
        took = (process_time() - began) * 1_000
        assert not decision.refusals, decision.refusals
        for event in decision.events:
            if isinstance(event, LeaseStarted) and event.reason is StartReason.START:
                self.running.append(event.run)
        return decision, took

    def forget(self) -> None:
        """Drop all caches: ends of leases, free GPUs, requests of runs, and the queue's order."""
        self.state.ends_changed()
        self.state.forget_waiting()


def busy(  # noqa: PLR0913 - the size of everything
    nodes: int, domains: int, owners: int, waiting: int, *, depth: int = 20, seed: int = 1
) -> Busy:
    """Return a full fleet on which ``waiting`` runs wait."""
    machines = fleet(nodes, nodes_per_domain=max(1, nodes // domains))
    state = world(
        nodes=machines,
        owners=owners_of(owners),
        budgets=budgets_of(owners, nodes),
        pools=[Pool(name="default", reservation_depth=depth)],
    )
    found = Busy(state, Random(seed), owners)
    apply_all(state, list(history(found, [node.name for node in machines], waiting)))
    # After this, as after a replay, the garbage collector does not scan permanent objects.
    gc.collect()
    gc.freeze()
    return found


def owners_of(owners: int) -> list[Owner]:
    """Return ``owners`` owners."""
    return [Owner(name=f"o{number:03d}") for number in range(owners)]


def budgets_of(owners: int, nodes: int, *, now_ms: int = NOW_MS) -> list[Budget]:
    """Return a budget of two envelopes for each owner; together they could pay for four fleets."""
    part = nodes * 8 * 2 // owners
    lines = (_line("day", part, now_ms), _line("night", part, now_ms))
    return [budget(f"b{n:03d}", f"o{n:03d}", *lines) for n in range(owners)]


def history(found: Busy, nodes: list[str], waiting: int) -> Iterator[Event]:
    """Yield events that fill the fleet, and let ``waiting`` runs wait."""
    yield from _running(found, nodes)
    refusal = Refusal(code=RefusalCode.INSUFFICIENT_CAPACITY, subject=FLAVOR, wanted=1, short=1)
    at_ms = found.now_ms
    for run in [found.next_run() for _ in range(waiting)]:
        yield RunSubmitted(at_ms=at_ms, actor="bench", run=run)
        yield RunRefused(at_ms=at_ms, actor="bench", run=run.name, refusal=refusal)


def _line(name: str, gpus: int, now_ms: int) -> Envelope:
    return envelope(
        name,
        gpus,
        selector=((REGION, REGION_NAME),),
        start_ms=WINDOW_START_MS + now_ms - NOW_MS,
        end_ms=WINDOW_END_MS + now_ms - NOW_MS,
    )


def _running(found: Busy, nodes: list[str]) -> Iterator[RunSubmitted | LeaseStarted]:
    """Yield runs of at most one node each that hold every GPU; they end at different times."""
    paid: dict[str, int] = {}
    part = len(nodes) * 8 * 2 // found.owners
    for node in nodes:
        ordinal = 0
        while ordinal < 8:
            gpus = min(found.chance.choice((1, 2, 4, 8, 8)), 8 - ordinal)
            run = found.next_run(width=gpus)
            while paid.get(run.owner, 0) + gpus > part:
                run = found.next_run(width=gpus)
            paid[run.owner] = paid.get(run.owner, 0) + gpus
            mask = ((1 << gpus) - 1) << ordinal
            ordinal += gpus
            yield RunSubmitted(at_ms=found.now_ms, actor="bench", run=run)
            found.running.append(run.name)
            assert run.expected_duration_ms is not None
            hold_ms = run.expected_duration_ms + GRACE_MS
            yield LeaseStarted(
                at_ms=found.now_ms,
                actor="bench",
                lease=f"{run.name}/0",
                run=run.name,
                partner=None,
                comp_path="group/0",
                bundle=0,
                role=Role.ACTIVE,
                slots=((node, mask),),
                payer=EnvelopeId(f"b{run.owner[1:]}/day"),
                tier=Tier.OWNED,
                hold_gpu_ms=gpus * hold_ms,
                start_ms=found.now_ms,
                reason=StartReason.START,
            )
