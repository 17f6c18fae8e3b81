"""Tenants are created, changed, limited and removed while runs run, as a simple model says.

The model (``tests/oracles/tenants.py``) keeps lists of leases from the events, and counts limits
over the whole family each time.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, event, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from msgspec.structs import replace

from quorate.core.audit.history_audit import audit
from quorate.core.audit.invariants import sweep
from quorate.core.commands import (
    Apply,
    Cancel,
    Command,
    Complete,
    CreateOwner,
    Decision,
    MarkNode,
    RemoveOwner,
    Submit,
    Tick,
    UpdateOwner,
)
from quorate.core.decide import decide
from quorate.core.planning.foresight import Foresight
from quorate.model.amounts import HOUR_MS, MINUTE_MS
from quorate.model.events import (
    Event,
    LeaseEnded,
    LeaseEnding,
    LeaseStarted,
    NodeStatus,
    RunEnded,
    RunRequeued,
)
from quorate.model.refusal import Refusal, RefusalCode
from quorate.model.specs import (
    Budget,
    Malleable,
    OnQuota,
    Owner,
    Placement,
    Pool,
    Quota,
    Run,
    Sharing,
)
from quorate.model.state.apply_event import apply_all
from quorate.model.state.state import State
from quorate.testing.builders import NOW_MS, budget, envelope, fleet, run
from tests.oracles.effort import IS_SOAK, examples
from tests.oracles.tenants import Tenants

NAMES = ("top", "left", "right", "leaf", "solo")
CODES = {
    RefusalCode.MAX_NODES: "nodes_max",
    RefusalCode.MAX_CONCURRENT_RUNS: "concurrent_runs_max",
}
owners = st.sampled_from(NAMES)
limits = st.sampled_from((None, 0, 1, 1, 2, 2, 3, 4))
families = st.lists(owners, max_size=2, unique=True).map(tuple)
widths = st.sampled_from((1, 1, 2, 3, 4, 4, 8, 12))


def _money(owner: str) -> Budget:
    """Return a budget that is always large enough, for the owner itself only."""
    return budget(owner, owner, replace(envelope("all", 1_000), sharing=Sharing.NONE))


class Tenancy(RuleBasedStateMachine):
    """A fleet of six nodes, and five owners at most."""

    def __init__(self) -> None:
        super().__init__()
        self.state, self.model = State(), Tenants()
        self.log: list[Event] = []
        self.now_ms, self.count = NOW_MS, 0

    @initialize(placement=st.sampled_from(Placement), limited=limits, runs=limits)
    def begin(self, placement: Placement, limited: int | None, runs: int | None) -> None:
        pool = Pool(name="default", placement=placement, disruption_rate_ppm=0)
        family = (
            Owner(name="top", quota=Quota(nodes_max=limited)),
            Owner(name="left", parents=("top",), quota=Quota(concurrent_runs_max=runs)),
            Owner(name="solo", quota=Quota(nodes_max=runs)),
        )
        money = [_money(owner.name) for owner in family]
        self.do(Apply((pool, *fleet({"A": 12, "B": 12}, gpus=4), *family, *money)))

    # --- What people ask for ---

    @rule(name=owners, parents=families, nodes=limits)
    def create(self, name: str, parents: tuple[str, ...], nodes: int | None) -> None:
        known = dict(self.model.owners)
        owner = Owner(name=name, parents=parents, quota=Quota(nodes_max=nodes))
        decision = self.do(CreateOwner(owner))
        wanted = name not in known and name not in parents and set(parents) <= known.keys()
        if name in known:
            assert [r.code for r in decision.refusals] == [RefusalCode.ALREADY_EXISTS]
        elif not wanted:
            assert decision.refusals
        else:
            assert not decision.refusals
            self.do(Apply((_money(name),)))

    @rule(name=owners, which=st.sampled_from((*CODES.values(), "gpu_ms_budget")), limit=limits)
    def limit(self, name: str, which: str, limit: int | None) -> None:
        if limit is not None and which == "gpu_ms_budget":
            limit *= HOUR_MS
        decision = self.do(UpdateOwner(name, ((which, limit),)))
        assert bool(decision.refusals) == (name not in self.model.owners)
        # A lower limit stops no run.
        ends = (LeaseEnding, LeaseEnded, RunEnded, RunRequeued)
        assert not [each for each in decision.events if isinstance(each, ends)]

    @rule(name=owners, parents=families)
    def adopt(self, name: str, parents: tuple[str, ...]) -> None:
        known = dict(self.model.owners)
        circle = [up for up in parents if up in known and name in self.model.above(up)]
        wanted = name in known and set(parents) <= known.keys() and not circle
        decision = self.do(UpdateOwner(name, parents=parents))
        assert bool(decision.refusals) == (not wanted), decision.refusals

    @rule(name=owners)
    def remove(self, name: str) -> None:
        model = self.model
        children = [o for o in model.owners.values() if name in o.parents]
        has = [r for r in model.runs.values() if r.owner == name]
        wanted = name in model.owners and not children and not has
        assert bool(self.do(RemoveOwner(name)).refusals) == (not wanted)

    @rule(
        data=st.data(),
        gpus=widths,
        on_quota=st.sampled_from((*OnQuota, OnQuota.WAIT)),
        steps=st.sampled_from((0, 0, 0, 1, 2)),
        hours=st.sampled_from((1, 3)),
        times=st.integers(1, 4),
    )
    def submit(
        self,
        *,
        data: st.DataObject,
        gpus: int,
        on_quota: OnQuota,
        steps: int,
        hours: int,
        times: int,
    ) -> None:
        if not self.model.owners:
            return
        owner = data.draw(st.sampled_from(list(self.model.owners)))
        for _ in range(times):
            self._submit(owner, gpus, on_quota, steps, hours)

    def _submit(self, owner: str, gpus: int, on_quota: OnQuota, steps: int, hours: int) -> None:
        self.count += 1
        elastic = None
        if steps:
            most = gpus + steps
            elastic = Malleable(gpus_min=gpus, gpus_max=most, gpus_step=1, gpus_desired=most)
        spec = run(
            f"r{self.count}",
            gpus + steps,
            owner,
            malleable=elastic,
            on_quota=on_quota,
            expected_duration_ms=hours * HOUR_MS,
        )
        full, fits = self.model.runs_full(owner), self.model.has_place(spec)
        foresight = Foresight.of(self.state, self.now_ms, has_executor=False)
        waiting = (self.state.runs[name] for name in self.state.pending)
        promised = any(foresight.start_of(record).entry is not None for record in waiting)
        before = len(self.model.running)
        decision = self.do(Submit(spec))
        if full or decision.refusals:
            event("over a limit on runs" if full else "over a limit on nodes")
        if full:
            assert before == len(self.model.running)
        if on_quota is OnQuota.WAIT:
            assert not decision.refusals
        elif full:
            (refusal,) = decision.refusals
            assert refusal.code is RefusalCode.MAX_CONCURRENT_RUNS
            assert refusal.subject in full
        elif fits and not promised:
            assert not decision.refusals
            assert spec.name in self.model.running
        if decision.refusals:
            assert not decision.events
            self._numbers_are_right(decision.refusals[0])

    def _numbers_are_right(self, refusal: Refusal) -> None:
        """Check that a refusal has the model's numbers."""
        quota = self.model.owners[refusal.subject].quota
        assert refusal.limit == getattr(quota, CODES[refusal.code])
        if refusal.code is RefusalCode.MAX_NODES:
            assert refusal.current == len(self.model.nodes_of(refusal.subject))
        else:
            assert refusal.current == self.model.running_of(refusal.subject)
        assert refusal.current + refusal.wanted > refusal.limit
        assert refusal.short == refusal.current + refusal.wanted - refusal.limit

    @rule(data=st.data(), times=st.integers(1, 3))
    def end(self, data: st.DataObject, times: int) -> None:
        for _ in range(times):
            if self.model.runs:
                name = data.draw(st.sampled_from(list(self.model.runs)))
                runs = name in self.model.running and data.draw(st.booleans())
                assert not self.do(Complete(name) if runs else Cancel(name)).refusals

    @rule(data=st.data(), status=st.sampled_from((*NodeStatus, NodeStatus.READY)))
    def mark(self, data: st.DataObject, status: NodeStatus) -> None:
        name = data.draw(st.sampled_from(list(self.model.nodes)))
        assert not self.do(MarkNode(name, status)).refusals

    @rule(minutes=st.sampled_from((1, 10, 60, 200)))
    def wait(self, minutes: int) -> None:
        self.now_ms += minutes * MINUTE_MS
        self.do(Tick())

    # --- What must hold ---

    def do(self, command: Command) -> Decision:
        parked = [name for waiting in self.state.parked.values() for name in waiting]
        order = [name for name in self.model.pending if name in parked]
        waited = {name: self.model.runs[name] for name in order}
        decision = decide(self.state, command, now_ms=self.now_ms, actor="test")
        apply_all(self.state, decision.events)
        self.log += decision.events
        exceeded = list(self.model.enter_all(decision.events))
        assert not exceeded, exceeded
        started = {each.run for each in decision.events if isinstance(each, LeaseStarted)}
        for number, name in enumerate(order):
            if name in started:
                event("woken")
                before = [n for n in order[:number] if _alike(waited, n, name)]
                assert not set(before) & set(self.model.pending), (name, before)
        return decision

    @invariant()
    def nothing_is_broken(self) -> None:
        assert sweep(self.state) == []
        assert audit(self.log, view=self.state) == []

    @invariant()
    def counts_are_right(self) -> None:
        for name, owner in self.model.owners.items():
            if owner.quota.is_hard:
                counts = (len(self.model.nodes_of(name)), self.model.running_of(name))
                assert self.state.holdings.held().get(name, (0, 0)) == counts

    @invariant()
    def whoever_waits_for_a_quota_has_to(self) -> None:
        if self.state.reservations:
            return  # Room that is planned for other runs is not free, and the model knows no plans.
        for waiting in self.state.parked.values():
            for name in waiting:
                spec = self.model.runs[name]
                event("waits for a quota")
                assert self.model.runs_full(spec.owner) or not self.model.has_place(spec), name


def _alike(waited: dict[str, Run], one: str, other: str) -> bool:
    """Return whether two runs differ only in their names and in ``onQuota``."""
    a, b = waited[one], waited[other]
    return replace(a, name=b.name, on_quota=b.on_quota) == b


TestTenancy = pytest.mark.heavy(Tenancy.TestCase)
TestTenancy.settings = settings(
    examples(0.6 if IS_SOAK else 0.3),
    stateful_step_count=30,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
