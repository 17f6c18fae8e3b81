"""Inspections: simulations that are checked while they run, each with its own random seed.

After every commit, an inspection checks the invariants of the changed objects, and sometimes of the
whole state. A second tick at the same instant must change nothing. The executor must get no
impossible order. A repeated request must change nothing, and must get the response of the first
request. After every crash, all acknowledged requests must still be recorded. At the end, the whole
history is audited, replayed and compared, and no run may hang. Each kind of event is counted, so
that a test can check that it occurs.
"""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from quorate.core.audit.commit_checks import check_touched
from quorate.core.audit.history_audit import audit
from quorate.core.audit.invariants import Violation, sweep
from quorate.core.commands import Command, Keyed, Tick
from quorate.core.decide import decide
from quorate.core.decision_log import DecisionLog
from quorate.core.next_due import next_due_ms
from quorate.core.planning.queue_walk import Walk
from quorate.core.planning.walk_plan import WalkPlan
from quorate.core.profile.reserved_refusal import admit_beside
from quorate.ledger.chain import GENESIS, Head, open_blocks
from quorate.ledger.fold import fold
from quorate.ledger.snapshot import restore, take
from quorate.loop.commit_types import Receipt
from quorate.loop.engine import Engine
from quorate.loop.rounds.round_problem import PoolPolicy
from quorate.model.events import Event, LeaseEnded, LeaseStarted, RunRefused, tag_of
from quorate.model.refusal import Refusal
from quorate.model.state.state_view import StateView
from quorate.sim.demand import Size
from quorate.sim.fault_plan import RESCUE_AFTER_MS
from quorate.sim.random_world import draw_world
from quorate.sim.round_world import draw_round_world
from quorate.sim.seed_trial import Draw, Trial
from quorate.sim.simulation import LOTTERY_LENGTH, LOTTERY_SECRET
from quorate.testing.promise_books import PromiseBooks
from quorate.testing.request_books import RequestBooks
from quorate.testing.shrinking import Deed, unsettled
from quorate.testing.states import same

SWEEP_EVERY: Final = 20
"""The number of commits after which the whole state is checked, not only the changed objects."""


@dataclass(frozen=True, slots=True)
class Happened:
    """Something that happened in a simulation: the name of an event, a reason or a refusal."""

    what: str
    name: str


@dataclass(slots=True)
class Findings:
    """The result of one seed.

    ``failure`` is the full text of the failure; it is empty if all checks passed.

    ``deeds`` has the commands up to the failure, so that ``shrink`` can shorten them.
    """

    seed: int
    events: int = 0
    failure: str = ""
    happened: Counter[Happened] = field(default_factory=Counter)
    moved_later: int = 0
    """How often a firm start moved later."""
    shared_slack: int = 0
    """How many of the moves in ``moved_later`` would not have happened without a younger lease.

    In each of these cases, the younger lease used slack that an overdue older lease needed.
    """
    deeds: tuple[Deed, ...] = ()


def inspect(seed: int, size: Size | None = None) -> Findings:
    """Return the findings of the trial of ``seed``, whether it passes or fails."""
    return _found(Inspection(seed, size))


def inspect_rounds(
    seed: int, size: Size | None, policies: Mapping[str, PoolPolicy], *, with_pairs: bool = False
) -> Findings:
    """Return the findings of a trial with a pool of discipline ``rounds`` and one of ``policies``.

    If ``with_pairs``, the pool has types of jobs that can share GPUs.
    """
    draw = partial(draw_round_world, policies=tuple(policies), with_pairs=with_pairs)
    inspection = Inspection(seed, size, draw)
    inspection.trial.simulation.share_by(policies)
    return _found(inspection)


def _found(inspection: Inspection) -> Findings:
    try:
        inspection.run()
    except Exception:  # noqa: BLE001 - whatever a seed dies of, it must be named with the seed
        inspection.findings.failure = traceback.format_exc()
        inspection.findings.deeds = tuple(inspection.deeds)
    inspection.count_moves()
    return inspection.findings


class Inspection:
    """Watches the trial of ``seed``; at the first fault an assertion fails."""

    def __init__(self, seed: int, size: Size | None = None, draw: Draw = draw_world) -> None:
        self.findings = Findings(seed)
        self.trial = Trial(seed, size=size, observers=[self], draw=draw)
        self._commits = 0
        self._answered: dict[int, Head] = {}
        self._books = PromiseBooks(LOTTERY_SECRET, LOTTERY_LENGTH)
        self._requests = RequestBooks()
        self._read: Head = GENESIS
        self.deeds: list[Deed] = []
        self._unanswered = 0

    def run(self) -> None:
        """Run the trial, and check the whole history at the end."""
        self.trial.run()
        self._look_back()

    def count_moves(self) -> None:
        """Record how often firm starts moved later, and how often because of a younger lease."""
        self.findings.moved_later = self._books.moved_later
        self.findings.shared_slack = self._books.shared_slack

    # --- While it happens ---

    def asked(self, commands: Sequence[Command], now_ms: int) -> None:
        """Record the commands."""
        self._books.looked(now_ms)
        self.deeds += [Deed(now_ms, command) for command in commands]
        self._unanswered = len(commands)

    def decided(self, command: Command, receipt: Receipt, view: StateView) -> None:
        """Count the events, and check that a second tick would record nothing."""
        decision = receipt.decision
        for refusal in decision.refusals:
            self.findings.happened[Happened("refusal", refusal.code.value)] += 1
        if decision.events:
            self._answered[receipt.head.height] = receipt.head
        if decision.repeats is not None:
            self.findings.happened[Happened("answer", "repeated")] += 1
        if isinstance(command, Keyed):
            faults = list(self._requests.answered(command.key, receipt, self._engine))
            assert not faults, faults
        if isinstance(command, Tick):
            again = decide(view, command, now_ms=view.at_ms, actor="again", has_executor=True)
            assert not decision.events or not unsettled(view, again), ("a second tick", again)
            due_ms = next_due_ms(view, has_executor=True, after_ms=view.at_ms)
            assert due_ms is None or due_ms > view.at_ms, ("left undone", due_ms)

    def committed(self, receipts: Sequence[Receipt], view: StateView) -> None:
        """Check the invariants of the changed objects, and sometimes of the whole state."""
        self._unanswered = 0
        events = [event for receipt in receipts for event in receipt.decision.events]
        _expect_none(check_touched(view, events))
        self._commits += 1
        if self._commits % SWEEP_EVERY == 0:
            _expect_none(sweep(view))
            expect_started(view)
        self._read_on(view)
        self._see_the_executor(view)
        expect_waiting(view)
        _expect_tenants(view)

    def reopened(self, view: StateView) -> None:
        """Check that no acknowledged request is lost, and that the state is complete."""
        if self.trial.store.head() == self._read:
            # The last command was lost in the crash.
            del self.deeds[len(self.deeds) - self._unanswered :]
        self._unanswered = 0
        now_ms = max(view.at_ms, self.trial.timeline.clock.now_ms())
        self.deeds.append(Deed(now_ms, None))
        _expect_none(sweep(view))
        self._read_on(view)  # A committed decision counts even if its answer was lost.
        self._books.shaken(now_ms)
        if self._answered:
            last = self._answered[max(self._answered)]
            block = next(self.trial.store.blocks(from_height=last.height), None)
            assert block is not None, ("answered, and lost", last)
            assert block.head == last, ("answered, and changed", last, block.head)
        faults = list(self._requests.look(view, self._engine))
        assert not faults, faults[:5]
        self._see_the_executor(view)

    @property
    def _engine(self) -> Engine:
        engine = self.trial.simulation.engine
        assert engine is not None, "the simulated service is down: it has no engine"
        return engine

    def _read_on(self, view: StateView) -> None:
        """Read the new blocks, and check the rules of ``PromiseBooks`` for them."""
        blocks = self.trial.store.blocks(from_height=self._read.height + 1)
        for head, events in open_blocks(blocks, after=self._read):
            self._read = head
            self._count(events)
            faults = list(self._books.enter(head.height, events, view))
            faults += self._requests.enter(head, events)
            assert not faults, faults[:5]

    def _see_the_executor(self, view: StateView) -> None:
        """Check that the executor has the leases of the ledger, and got no impossible order."""
        executor = self.trial.executor
        assert not executor.wrongs, executor.wrongs
        ledger = {name: lease.ending is not None for name, lease in view.leases.items()}
        assert executor.known() == ledger, ("told otherwise", executor.known(), ledger)

    # --- Afterwards ---

    def _look_back(self) -> None:
        trial = self.trial
        trial.simulation.reopen()
        engine = trial.simulation.engine
        assert engine is not None, "the engine did not come back"
        blocks = list(trial.store.blocks())
        events = [event for _, block in open_blocks(blocks) for event in block]
        self.findings.events = len(events)
        state = fold(events)
        _expect_none(audit(events, view=state))
        _expect_none(sweep(engine.view))
        opened = engine.view.overlay()
        assert same(opened, state) == [], same(opened, state)[:5]
        restored = restore(take(state))
        assert restored is not None, "the last snapshot cannot be read"
        assert same(restored, state) == [], same(restored, state)[:5]
        heads = {block.head.height: block.head for block in blocks}
        lost = {height: head for height, head in self._answered.items() if heads[height] != head}
        assert not lost, ("answered, and lost", lost)
        long_ago_ms = trial.timeline.now_ms - 2 * RESCUE_AFTER_MS
        hanging = [
            name
            for name, lease in state.leases.items()
            if lease.ending is not None and lease.ending.at_ms < long_ago_ms
        ]
        assert not hanging, ("was ordered to stop long ago", hanging)

    def _count(self, events: Sequence[Event]) -> None:
        happened = self.findings.happened
        for event in events:
            happened[Happened("event", tag_of(event))] += 1
            match event:
                case LeaseStarted():
                    happened[Happened("start", event.reason.value)] += 1
                    if event.partner is not None:
                        happened[Happened("pair", event.reason.value)] += 1
                case LeaseEnded():
                    happened[Happened("end", event.reason.value)] += 1
                case RunRefused():
                    happened[Happened("refusal", event.refusal.code.value)] += 1
                case _:
                    pass


def expect_waiting(view: StateView) -> None:
    """Check that a run that waits for a quota could not start now.

    If the firm starts leave room for the run, another walk must have tried the run, and other
    planned starts must need what is left of the quota.
    """
    for names in view.parked.values():
        for name in names:
            answer = admit_beside(view, view.runs[name].spec, view.at_ms, has_executor=True)
            if not isinstance(answer, Refusal):
                plan = _walked_again(view)
                others = plan.entries.keys() - {name}
                assert others, ("not woken", name, view.runs[name].refusal)
                is_beyond = name not in plan.seen
                is_planned = name in plan.entries or name in plan.pins
                is_tried = is_beyond or is_planned or plan.is_fruitless(name)
                assert is_tried, ("not tried", name, view.runs[name].refusal)


def expect_started(view: StateView) -> None:
    """Check that another walk of the queue at this instant would start no run."""
    _walked_again(view)


def _walked_again(view: StateView) -> WalkPlan:
    """Return the plan of another walk of the queue at this instant, which must start no run."""
    log = DecisionLog(view, now_ms=view.at_ms, actor="again", has_executor=True)
    walk = Walk(log)
    walk.firm.put_pins()
    walk.run()
    started = [event.run for event in log.events if isinstance(event, LeaseStarted)]
    assert not started, ("could have started", started)
    return walk.plan


def _expect_tenants(view: StateView) -> None:
    """Check that no access token outlives its tenant."""
    tenants = {known.issued.tenant for known in view.tokens.values() if known.revoked_ms is None}
    assert tenants <= {"", *view.owners}, ("tokens of unknown tenants", tenants)


def _expect_none(found: Sequence[Violation]) -> None:
    assert not found, "; ".join(str(violation) for violation in found[:5])
