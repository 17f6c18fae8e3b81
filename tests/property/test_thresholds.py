"""Thresholds are recorded as by a scan of all owners, at any time and in any order of reads.

Leases begin and end, some reported late; budgets, the period and the flavors change; some changes
are only tried. After each change the crossings equal those of the scan
(``tests/oracles/thresholds.py``).
"""

from __future__ import annotations

import pytest
from hypothesis import event, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from quorate.core.decision_log import DecisionLog
from quorate.core.tenancy.thresholds import settle_thresholds, threshold_due_ms
from quorate.ledger.snapshot import restore, take
from quorate.model.amounts import DAY_MS, HOUR_MS, MINUTE_MS
from quorate.model.events import (
    Allowance,
    BudgetFellBack,
    BudgetReported,
    EndReason,
    Event,
    LeaseEnded,
    LeaseStarted,
    NodeApplied,
    OwnerApplied,
    OwnerRemoved,
    Role,
    RunSubmitted,
    StartReason,
    SystemApplied,
    ThresholdCrossed,
    Tier,
)
from quorate.model.specs import EnvelopeId, Owner, Quota, System
from quorate.model.state.apply_event import apply, apply_all
from quorate.model.state.crossings import next_crossings_ms
from quorate.model.state.state import State
from quorate.testing.builders import NOW_MS, budget, envelope, node, opening, run
from tests.oracles.effort import examples
from tests.oracles.thresholds import Told, crossed_by, due_ms

NAMES = ("ada", "ben", "cy", "dee")
FLAVORS = ("H100", "A100")
NODES, GPUS = 6, 8

names = st.sampled_from(NAMES)
hours = st.sampled_from((None, None, 0, *(5, 20, 60, 100, 150, 300) * 3))
spans_ms = (
    st.sampled_from((0, 1, MINUTE_MS, 20 * MINUTE_MS, HOUR_MS, 5 * HOUR_MS, DAY_MS, 4 * DAY_MS))
    | st.integers(0, 3 * HOUR_MS)
    | st.integers(0, 2 * DAY_MS)
)


allowances = st.builds(
    Allowance,
    st.sampled_from((0, 10 * HOUR_MS)),
    st.sampled_from([tenths * HOUR_MS for tenths in (-3, -2, 0, 1, 2, 3, 5, 10, 12)]),
)


@st.composite
def quotas(draw: st.DrawFn) -> Quota:
    """Draw budgets that are soon used up, or soon reset."""
    gpu, nodes = draw(hours), draw(hours)
    return Quota(
        gpu_ms_budget=None if gpu is None else gpu * HOUR_MS + draw(st.integers(0, 2)),
        node_ms_budget=None if nodes is None else nodes * HOUR_MS // 4,
    )


def crossings(state: State, now_ms: int) -> list[Event]:
    """Return the crossings at ``now_ms``."""
    log = DecisionLog(state, now_ms=now_ms, actor="test")
    settle_thresholds(log)
    return log.events


def in_short(events: list[Event]) -> list[Told]:
    """Return the thresholds in the events."""
    return [
        (e.owner, e.percent, e.is_above, e.used_ppm)
        for e in events
        if isinstance(e, ThresholdCrossed)
    ]


class Thresholds(RuleBasedStateMachine):
    """Four owners on a few nodes. Events are applied without decisions."""

    def __init__(self) -> None:
        super().__init__()
        self.state, self.now_ms, self.count = State(), NOW_MS, 0
        self.free = {f"n{n}": (1 << GPUS) - 1 for n in range(NODES)}

    @initialize(
        given=st.lists(quotas(), min_size=4, max_size=4),
        days=st.sampled_from((1, 1, 2, 9)),
        has_both=st.sampled_from((False, False, True)),
    )
    def begin(self, *, given: list[Quota], days: int, has_both: bool) -> None:
        owners = [Owner(name=n, quota=q) for n, q in zip(NAMES, given, strict=True)]
        money = budget("all", "bank", *(envelope(f, 1_000, flavor=f) for f in FLAVORS))
        fleet = [node(f"n{n}", GPUS, "A") for n in range(NODES)]
        apply_all(self.state, opening(nodes=fleet, owners=owners, budgets=[money]))
        for name in NAMES:
            told = RunSubmitted(at_ms=NOW_MS, actor="test", run=run(f"run-{name}", 1, name))
            apply(self.state, told)
        self.apply(self.period_of(days))
        if has_both:
            self.add_a_node(0)

    def apply(self, *events: Event) -> None:
        """Apply events, and record the thresholds that they cross."""
        apply_all(self.state, events)
        told = crossings(self.state, self.now_ms)
        apply_all(self.state, told)
        if any(isinstance(e, ThresholdCrossed) and not e.is_above for e in told):
            event("armed again")
        elif told:
            event("crossed")

    def period_of(self, days: int) -> SystemApplied:
        system = System(budget_period_days=days)
        return SystemApplied(at_ms=self.now_ms, actor="test", system=system)

    def lease(self, owner: str, flavor: str, gpus: int, on: tuple[str, ...]) -> LeaseStarted:
        """Return the start of a lease of ``gpus`` GPUs, or all free ones, on each of ``on``."""
        self.count += 1
        slots = []
        for name in on:
            bits = [1 << bit for bit in range(GPUS) if self.free[name] >> bit & 1]
            slots.append((name, sum(bits[:gpus])))
        return LeaseStarted(
            at_ms=self.now_ms,
            actor="test",
            lease=f"l{self.count}",
            run=f"run-{owner}",
            partner=None,
            comp_path="group/0",
            bundle=0,
            role=Role.ACTIVE,
            slots=tuple(slots),
            payer=EnvelopeId(f"all/{flavor}"),
            tier=Tier.BORROWED,
            hold_gpu_ms=0,
            start_ms=self.now_ms,
            reason=StartReason.START,
        )

    # --- What happens, some time after the last ---

    @rule(
        span_ms=spans_ms,
        owner=names,
        flavor=st.sampled_from((*FLAVORS, "H100")),
        gpus=st.integers(1, GPUS),
        nodes=st.integers(1, 2),
    )
    def start(self, *, span_ms: int, owner: str, flavor: str, gpus: int, nodes: int) -> None:
        self.now_ms += span_ms
        room = [name for name, free in self.free.items() if free]
        if room:
            lease = self.lease(owner, flavor, gpus, tuple(room[-nodes:]))
            for name, mask in lease.slots:
                self.free[name] ^= mask
            self.apply(lease)

    @rule(
        owner=names,
        flavor=st.sampled_from((*FLAVORS, "H100")),
        gpus=st.integers(1, GPUS),
        span_ms=st.integers(HOUR_MS, 20 * HOUR_MS),
        apart_ms=spans_ms,
    )
    def work(self, owner: str, flavor: str, gpus: int, span_ms: int, apart_ms: int) -> None:
        """Run something for a while, and wait for a while after it."""
        room = [name for name, free in self.free.items() if free]
        if room:
            lease = self.lease(owner, flavor, gpus, tuple(room[:1]))
            self.apply(lease)
            self.wait(span_ms)
            self.apply(self.ended(lease.lease, 0))
            self.wait(apart_ms)

    @rule(span_ms=spans_ms, data=st.data(), late=st.booleans(), times=st.integers(1, 3))
    def end(self, *, span_ms: int, data: st.DataObject, late: bool, times: int) -> None:
        """End leases, some of them long ago and in any order."""
        self.now_ms += span_ms
        for _ in range(times):
            if self.state.leases:
                name = data.draw(st.sampled_from(sorted(self.state.leases)))
                since_ms = self.now_ms - self.state.leases[name].fact.start_ms
                late_ms = data.draw(st.integers(0, min(since_ms, DAY_MS))) if late else 0
                for on, mask in self.state.leases[name].fact.slots:
                    self.free[on] |= mask
                self.apply(self.ended(name, late_ms))

    def ended(self, lease: str, late_ms: int) -> LeaseEnded:
        end_ms = max(self.state.leases[lease].fact.start_ms, self.now_ms - late_ms)
        return LeaseEnded(
            at_ms=self.now_ms, actor="test", lease=lease, reason=EndReason.END, end_ms=end_ms
        )

    @rule(span_ms=spans_ms)
    def wait(self, span_ms: int) -> None:
        self.now_ms += span_ms
        self.apply()

    @rule(times=st.integers(1, 3))
    def wait_until_due(self, times: int) -> None:
        for _ in range(times):
            self.now_ms = threshold_due_ms(self.state, self.now_ms) or self.now_ms
            self.apply()

    @rule(span_ms=spans_ms, given=st.dictionaries(names, quotas() | st.just(Quota()), min_size=1))
    def limit(self, span_ms: int, given: dict[str, Quota]) -> None:
        self.now_ms += span_ms
        self.apply()
        owners = [Owner(name=name, quota=quota) for name, quota in given.items()]
        self.apply(*(OwnerApplied(at_ms=self.now_ms, actor="test", owner=o) for o in owners))

    @rule(span_ms=spans_ms, name=names)
    def remove(self, span_ms: int, name: str) -> None:
        self.now_ms += span_ms
        if name in self.state.owners:
            self.apply(OwnerRemoved(at_ms=self.now_ms, actor="test", owner=name))

    @rule(span_ms=spans_ms, name=names, gpu=allowances, node=st.none() | allowances)
    def tell(self, span_ms: int, name: str, gpu: Allowance, node: Allowance | None) -> None:
        """Let an accounting system report an owner's remaining hours."""
        self.now_ms += span_ms
        self.apply()
        if name in self.state.owners:
            told = BudgetReported(self.now_ms, "test", name, "waldur", gpu, node)
            self.apply(told)

    @rule(span_ms=spans_ms, name=names, is_linked=st.booleans())
    def fall_silent(self, *, span_ms: int, name: str, is_linked: bool) -> None:
        self.now_ms += span_ms
        self.apply()
        if name in self.state.owners:
            self.apply(BudgetFellBack(self.now_ms, "test", name, "waldur", is_linked, ""))

    @rule(span_ms=spans_ms, days=st.integers(1, 4))
    def change_the_period(self, span_ms: int, days: int) -> None:
        self.now_ms += span_ms
        self.apply(self.period_of(days))

    @rule(span_ms=spans_ms)
    def add_a_node(self, span_ms: int) -> None:
        """Add a node of the other flavor; earlier use of this flavor counts from now on."""
        self.now_ms += span_ms
        self.apply()
        more = node("more", GPUS, "B", FLAVORS[1])
        self.apply(NodeApplied(at_ms=self.now_ms, actor="test", node=more))

    @rule()
    def open_a_snapshot(self) -> None:
        found = restore(take(self.state))
        assert found is not None
        self.state = found

    @rule(owner=names, quota=quotas(), data=st.data(), spans=st.lists(spans_ms, max_size=2))
    def try_out(self, owner: str, quota: Quota, data: st.DataObject, spans: list[int]) -> None:
        """Try changes in overlays at later times, and drop them."""
        now_ms, over = self.now_ms, self.state
        for span_ms in (0, *spans):
            self.now_ms += span_ms
            over = over.overlay()
            tried: list[Event] = [
                OwnerApplied(at_ms=self.now_ms, actor="test", owner=Owner(name=owner, quota=quota)),
                *map(self.ended, sorted(over.leases)[:1], (0,)),
            ]
            kept = data.draw(st.lists(st.sampled_from(tried), unique_by=type))
            apply_all(over, kept)
            self.same(over)
            apply_all(over, crossings(over, self.now_ms))
            self.same(over)
        self.now_ms = now_ms

    # --- What must hold ---

    @invariant()
    def crossings_are_those_of_the_walk(self) -> None:
        self.same(self.state)

    def same(self, state: State) -> None:
        """Check that the recorded and due crossings are right at any time."""
        begin_ms = max(state.at_ms, self.now_ms)
        found = {begin_ms + span_ms for span_ms in (DAY_MS, 0, 7 * MINUTE_MS, 5 * HOUR_MS)}
        for name in NAMES:
            for at_ms in next_crossings_ms(state, name):
                if at_ms is not None and at_ms > begin_ms:
                    found |= {at_ms - 1, at_ms}
        for now_ms in found:
            assert in_short(crossings(state, now_ms)) == crossed_by(state, now_ms)
            assert threshold_due_ms(state, now_ms) == due_ms(state, now_ms)


TestThresholds = pytest.mark.slow(Thresholds.TestCase)
TestThresholds.settings = settings(examples(3), stateful_step_count=20)
