"""Pools with rounds for tests: nodes, owners, money, runs, and a policy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import numpy as np

from quorate.adapters.stores.store_memory import MemoryStore
from quorate.core.audit.history_audit import audit
from quorate.core.audit.invariants import sweep
from quorate.core.commands import Applied, Apply, Command, Decision
from quorate.ledger.chain import open_blocks
from quorate.ledger.fold import fold
from quorate.ledger.snapshot import restore, take
from quorate.loop.rounds.round_problem import PoolPolicy
from quorate.model.amounts import HOUR_MS, MINUTE_MS
from quorate.model.events import Event
from quorate.model.selector import REGION
from quorate.model.specs import (
    Budget,
    Discipline,
    Envelope,
    Node,
    Owner,
    Pool,
    Quota,
    RoundsWork,
    Run,
)
from quorate.model.state.entitlements import (
    entitlements_ms,
    paired_entitlements_ms,
    received_ms,
)
from quorate.model.state.state_view import StateView
from quorate.policy.allocation import ALONE, Allocation, Method, Unsolved, alone
from quorate.policy.problem import Problem
from quorate.sim.demand import START_MS
from quorate.sim.room_work import Truth
from quorate.sim.sim_executor import SimExecutor
from quorate.sim.simulation import Simulation, Timeline, VirtualClock
from quorate.testing.states import same

POOL: Final = "shared"
FLAVORS: Final = ("a100", "k80", "v100")
ROUND_MS: Final = 6 * MINUTE_MS


def by_weight(problem: Problem) -> Allocation | Unsolved:
    """Return shares by weight alone: a part of every flavor, and at most all of a job's time."""
    jobs, _ = problem.shape
    of = problem.entity_of
    assert of is not None
    weights = problem.weights.copy()
    sums = np.bincount(of, weights=weights, minlength=len(problem.entities))
    owners = np.array([entity.weight for entity in problem.entities])
    weights = owners[of] * weights / sums[of]
    parts = np.outer(weights / weights.sum() / problem.scales, problem.gpus)
    parts = np.where(problem.rates > 0, parts, 0.0)
    parts /= np.maximum(1.0, parts.sum(axis=1))[:, None]
    assert len(parts) == jobs
    return alone(parts, objective=0.0, bound=0.0, method=Method.RULE)


def two_by_two(problem: Problem) -> Allocation | Unsolved:
    """Return shares by weight for some jobs, and pairs for as many others as can share."""
    found = by_weight(problem)
    assert isinstance(found, Allocation)
    jobs, flavors = problem.shape
    taken: set[int] = set()
    first, second, rows = list(range(jobs)), [ALONE] * jobs, list(found.shares)
    for number in range(0 if problem.pairs is None else len(problem.pairs)):
        assert problem.pairs is not None
        one, other = int(problem.pairs.first[number]), int(problem.pairs.second[number])
        can = (problem.pairs.rates[number] > 0).all(axis=1)
        if not taken & {one, other}:
            taken |= {one, other}
            first.append(one)
            second.append(other)
            rows.append(np.where(can, 1.0 / max(1, can.sum()), 0.0))
            rows[one] = rows[other] = np.zeros(flavors)
    return Allocation(
        first=np.array(first, dtype=np.int64),
        second=np.array(second, dtype=np.int64),
        shares=np.array(rows),
        objective=0.0,
        bound=0.0,
        method=Method.RULE,
    )


@dataclass(frozen=True, slots=True)
class Weighing:
    """A policy for tests."""

    name: str = "by_weight"
    reads_entities: bool = True
    reads_pairs: bool = False
    reads_steps: bool = False
    reads_costs: bool = False
    pairs_max: int | None = None
    jobs_max: int | None = None
    jobs_per_gpu_max: int | None = None
    reads_progress: bool = True
    is_for_the_last: bool = False
    is_smooth: bool = False
    solve: Callable[[Problem], Allocation | Unsolved] = by_weight


POLICIES: Final[Mapping[str, PoolPolicy]] = MappingProxyType({"by_weight": Weighing()})
PAIRING: Final[Mapping[str, PoolPolicy]] = MappingProxyType(
    {"two_by_two": Weighing("two_by_two", reads_pairs=True, solve=two_by_two)}
)


def pool(**changes: object) -> Pool:
    """Return the pool of all nodes that are not in the default pool."""
    fields: dict[str, object] = {
        "name": POOL,
        "selector": ((REGION, "r"),),
        "discipline": Discipline.ROUNDS,
        "policy": "by_weight",
        "round_ms": ROUND_MS,
    }
    return Pool(**(fields | changes))  # type: ignore[arg-type] # as the caller has them


def nodes(per_flavor: int = 2, gpus: int = 4, flavors: Sequence[str] = FLAVORS) -> list[Node]:
    """Return ``per_flavor`` nodes of each flavor, two in a domain."""
    return [
        Node(
            name=f"{flavor}-{number}",
            flavor=flavor,
            gpus=gpus,
            region="r",
            cluster="c",
            domain=f"{flavor}-{number // 2}",
        )
        for flavor in flavors
        for number in range(per_flavor)
    ]


def team(name: str, share_ppm: int | None = None, **limits: int) -> Owner:
    """Return an owner with a target share and hard limits."""
    return Owner(name=name, quota=Quota(fair_share_target_ppm=share_ppm, **limits))


def money(owner: str, concurrency: int = 1_000, hours: int = 24_000) -> Budget:
    """Return a budget that pays for every flavor everywhere."""
    lines = tuple(
        Envelope(
            name=flavor,
            flavor=flavor,
            selector=((REGION, "r"),),
            start_ms=START_MS - HOUR_MS,
            end_ms=START_MS + 10_000 * HOUR_MS,
            concurrency=concurrency,
            gpu_ms_max=hours * HOUR_MS,
        )
        for flavor in FLAVORS
    )
    return Budget(name=f"b-{owner}", owner=owner, envelopes=lines)


def work(
    rates: Mapping[str, float] | None = None,
    *,
    steps: int | None = 100_000,
    weight: float = 1.0,
    slo_ms: int | None = None,
) -> RoundsWork:
    """Return work with the same rate on every flavor, unless other rates are given."""
    rates = dict.fromkeys(FLAVORS, 10.0) if rates is None else rates
    return RoundsWork(
        throughputs=tuple(rates.items()), total_steps=steps, weight=weight, slo_ms=slo_ms
    )


def run(name: str, owner: str, gpus: int = 1, **changes: object) -> Run:
    """Return a run of the pool that accepts any flavor."""
    return run_of(name, owner, {"gpus": gpus, **changes})


def run_of(name: str, owner: str, changes: Mapping[str, object]) -> Run:
    """Return a run of the pool with ``changes``."""
    fields: dict[str, object] = {
        "name": name,
        "owner": owner,
        "gpus": 1,
        "flavors": FLAVORS,
        "pool": POOL,
        "rounds": work(),
        "checkpoint_ms": MINUTE_MS,
    }
    return Run(**(fields | dict(changes)))  # type: ignore[arg-type] # as the caller has them


def world(*owners: Owner, per_flavor: int = 2, gpus: int = 4) -> tuple[Applied, ...]:
    """Return a pool with nodes, and owners with money."""
    return (
        pool(),
        *nodes(per_flavor, gpus),
        *owners,
        *(money(owner.name) for owner in owners),
    )


class Room:
    """A system with a pool with rounds, in simulated time, checked after every step."""

    def __init__(
        self,
        specs: Sequence[Applied],
        *,
        truth: Truth | None = None,
        stop_ms: int = 20_000,
        policies: Mapping[str, PoolPolicy] = POLICIES,
    ) -> None:
        flavors = {spec.name: spec.flavor for spec in specs if isinstance(spec, Node)}
        self.truth = truth or Truth(work_ms=100 * HOUR_MS, checkpoint_every_ms=MINUTE_MS)
        self.truths: dict[str, Truth] = {}
        self.timeline = Timeline(VirtualClock(START_MS))
        self.executor = SimExecutor(
            self.timeline,
            truth_of=lambda run: self.truths.get(run.name, self.truth),
            stop_delay=lambda left_ms: min(left_ms, stop_ms),
            notice_ms=10 * MINUTE_MS,
            flavor_of=flavors.__getitem__,
        )
        self.simulation = Simulation(self.timeline, MemoryStore(), self.executor)
        self.simulation.share_by(policies)
        self.did(Apply(tuple(specs)))

    @property
    def view(self) -> StateView:
        """The present state."""
        engine = self.simulation.engine
        assert engine is not None
        return engine.view

    def ask(self, command: Command) -> Decision:
        """Return the decision on ``command``."""
        receipt = self.simulation.send(command, actor="somebody")
        assert receipt is not None
        self.simulation.step()
        self.look()
        return receipt.decision

    def did(self, *commands: Command) -> None:
        """Carry out ``commands``; none may be refused."""
        for command in commands:
            decision = self.ask(command)
            assert not decision.refusals, decision.refusals

    def submit_together(self, *runs: Run) -> None:
        """Submit ``runs`` at one instant, so that one round considers all of them."""
        self.did(Apply(runs))

    def pass_ms(self, ms: int) -> None:
        """Advance the time by ``ms``."""
        self.simulation.run(self.timeline.now_ms + ms)
        self.look()

    def rounds(self, count: int = 1) -> None:
        """Play ``count`` rounds, and stop in the middle of the next."""
        for _ in range(count):
            self.pass_ms(ROUND_MS)

    def look(self) -> None:
        """Check all invariants."""
        assert sweep(self.view) == []
        assert self.executor.wrongs == []
        now_ms, anew = self.timeline.now_ms, self.view.overlay()
        for pool in self.view.rounds:
            anew.owed_changed()
            for times_of in (entitlements_ms, paired_entitlements_ms):
                assert times_of(self.view, pool, now_ms) == times_of(anew, pool, now_ms)

    def events(self) -> list[Event]:
        """Return the whole history."""
        return [
            event for _, block in open_blocks(self.simulation.store.blocks()) for event in block
        ]

    def look_back(self) -> None:
        """Audit the whole history, and compare its fold with the state."""
        events = self.events()
        state = fold(events)
        assert audit(events, view=state) == []
        assert same(state, self.view.overlay()) == []
        restored = restore(take(state))
        assert restored is not None
        assert same(restored, state) == []

    def flavor(self, name: str) -> str | None:
        """Return the flavor of a run's GPUs, or None."""
        leases = [self.view.leases[lease] for lease in self.view.runs[name].leases]
        if not leases:
            return None
        return self.view.nodes[leases[0].fact.slots[0][0]].spec.flavor

    def phase(self, name: str) -> str:
        """Return the phase of a run."""
        return self.view.runs[name].phase.value

    def had_ms(self, *names: str) -> int:
        """Return the GPU time of these runs so far."""
        now_ms, found = self.timeline.now_ms, 0
        for name in names:
            had = received_ms(self.view, name, now_ms)
            found += self.view.runs[name].spec.gpus * sum(had.values())
        return found

    def pass_ms_down(self, ms: int) -> None:
        """Advance the time by ``ms`` without a running program, and open the ledger again."""
        self.simulation.run(self.timeline.now_ms + ms)
        self.simulation.reopen()
        self.look()
