"""Usage and statements of random histories equal a sum over leases, to the millisecond.

Small histories are drawn event by event, with ends that are reported late and nodes that several
leases share; long ones are simulated, with an executor and with all kinds of faults.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.core.accounting.period_statement import Asked, make_statement
from quorate.core.accounting.usage_books import UsageBooks
from quorate.ledger.chain import open_blocks
from quorate.ledger.fold import fold
from quorate.model.events import (
    EndReason,
    Event,
    LeaseEnded,
    LeaseStarted,
    NodeApplied,
    OwnerApplied,
    PledgeClosed,
    Role,
    RunSubmitted,
    SpareFilled,
    StartReason,
    Tier,
)
from quorate.model.specs import EnvelopeId, Owner
from quorate.sim.demand import Size
from quorate.sim.seed_trial import Trial
from quorate.testing.builders import node, run
from tests.oracles.accounting import holds_of, paid_of, usage_of
from tests.oracles.choosing import Chooser, chooser
from tests.oracles.effort import examples, few_of

_PARENTS = {"top": (), "left": ("top",), "right": ("top",), "below": ("left", "right"), "alone": ()}
_BELOW = {
    "top": {"top", "left", "right", "below"},
    "left": {"left", "below"},
    "right": {"right", "below"},
    "below": {"below"},
    "alone": {"alone"},
}
_USERS = ("ada", "ben", "")
_NODES = ("n0", "n1", "n2")
_SEEDS = 8


@dataclass
class _Story:
    """A history drawn event by event; two leases may take one slot, which does not matter here."""

    choose: Chooser
    at_ms: int = 50
    events: list[Event] = field(default_factory=list)
    open: dict[str, LeaseStarted] = field(default_factory=dict)
    pledges: list[str] = field(default_factory=list)
    runs: list[str] = field(default_factory=list)

    def begin(self) -> None:
        for number, name in enumerate(_NODES):
            flavor = "A100" if number == 2 else "H100"
            spec = node(name, 4, flavor=flavor)
            self.events.append(NodeApplied(at_ms=self.at_ms, actor="t", node=spec))
        for name, parents in _PARENTS.items():
            owner = Owner(name=name, parents=parents)
            self.events.append(OwnerApplied(at_ms=self.at_ms, actor="t", owner=owner))
        for number in range(self.choose.number(1, 5)):
            owner_name, user = self.choose.one_of(tuple(_PARENTS)), self.choose.one_of(_USERS)
            spec_run = run(f"run{number}", 1, owner_name, user=user)
            self.runs.append(spec_run.name)
            self.events.append(RunSubmitted(at_ms=self.at_ms, actor="t", run=spec_run))

    def go_on(self) -> None:
        self.at_ms += self.choose.number(0, 6)
        what = self.choose.number(0, 5)
        if what <= 1 or not self.open:
            self._start()
        elif what <= 3:
            self._end()
        elif what == 4:
            self._fill()
        elif self.pledges:
            pledge = self.pledges.pop(self.choose.number(0, len(self.pledges) - 1))
            self.events.append(PledgeClosed(at_ms=self.at_ms, actor="t", pledge=pledge))

    def _start(self) -> None:
        on = self.choose.some(_NODES, 1, 3)
        fact = LeaseStarted(
            at_ms=self.at_ms,
            actor="t",
            lease=f"lease{len(self.events)}",
            run=self.choose.one_of(self.runs),
            partner=None,
            comp_path="group/0",
            bundle=0,
            role=self.choose.one_of(tuple(Role)),
            slots=tuple((name, self.choose.number(1, 15)) for name in on),
            payer=EnvelopeId("b/e"),
            tier=Tier.OWNED,
            hold_gpu_ms=0,
            start_ms=self.at_ms - self.choose.one_of((0, 0, 3, 40)),
            reason=StartReason.START,
        )
        self.open[fact.lease] = fact
        self.events.append(fact)

    def _end(self) -> None:
        name = self.choose.one_of(tuple(self.open))
        fact = self.open.pop(name)
        end_ms = max(fact.start_ms, self.at_ms - self.choose.one_of((0, 0, 2, 9, 60)))
        ended = LeaseEnded(
            at_ms=self.at_ms, actor="t", lease=name, reason=EndReason.END, end_ms=end_ms
        )
        self.events.append(ended)

    def _fill(self) -> None:
        fact = self.open[self.choose.one_of(tuple(self.open))]
        pledge = f"{fact.lease}#{len(self.events)}"
        self.pledges.append(pledge)
        self.events.append(
            SpareFilled(
                at_ms=self.at_ms,
                actor="t",
                pledge=pledge,
                lease=fact.lease,
                filler="other",
                slots=((self.choose.one_of(fact.slots)[0], 1),),
                hold_gpu_ms=0,
            )
        )


@st.composite
def _stories(draw: st.DrawFn) -> _Story:
    story = _Story(chooser(draw))
    story.begin()
    return story


def _agree(books: UsageBooks, events: Sequence[Event], from_ms: int, until_ms: int) -> None:
    """Check that ``books`` agree with the sum for [``from_ms``, ``until_ms``)."""
    holds = holds_of(events)
    for owner, below in _BELOW.items():
        mine = usage_of([h for h in holds if h.run.owner == owner], from_ms, until_ms)
        assert books.owner(owner, from_ms=from_ms, until_ms=until_ms) == mine
        ours = usage_of([h for h in holds if h.run.owner in below], from_ms, until_ms)
        assert books.family(owner, from_ms=from_ms, until_ms=until_ms) == ours
    found = books.users(from_ms=from_ms, until_ms=until_ms)
    shown = {(each.owner, each.user): each.usage for each in found}
    for owner, user in {(held.run.owner, held.run.user) for held in holds}:
        theirs = [h for h in holds if (h.run.owner, h.run.user) == (owner, user)]
        used = usage_of(theirs, from_ms, until_ms)
        assert books.user(owner, user, from_ms=from_ms, until_ms=until_ms) == used
        assert shown.pop((owner, user), None) == (used if used.node_ms else None)
    assert not shown


@pytest.mark.heavy
@examples(2)
@given(story=_stories())
def test_usage_is_what_every_lease_adds_up_to(story: _Story) -> None:
    for _ in range(story.choose.number(1, 25)):
        story.go_on()
    books = UsageBooks()
    books.fold_all(story.events)
    until_ms = story.choose.number(0, story.at_ms + 20)
    _agree(books, story.events, story.choose.number(0, until_ms), until_ms)
    _agree(books, story.events, 0, story.at_ms + 20)


@pytest.mark.heavy
@examples(1)
@given(story=_stories())
def test_books_that_forget_what_left_the_window_still_tell_the_window(story: _Story) -> None:
    window_ms = story.choose.number(1, 40)
    books = UsageBooks(window_ms=window_ms)
    told = 0
    for _ in range(story.choose.number(1, 20)):
        story.go_on()
        books.fold_all(story.events[told:])
        told = len(story.events)
        now_ms = story.at_ms + story.choose.number(0, 5)
        _agree(books, story.events, story.at_ms - window_ms, now_ms)


@cache
def _lived(seed: int) -> list[Event]:
    """Return the events of a simulated machine room with all kinds of faults."""
    trial = Trial(seed, size=Size(hours=30, runs=50, wishes=40))
    trial.run()
    return [event for _, events in open_blocks(trial.store.blocks()) for event in events]


@pytest.mark.soak
def test_the_simulated_systems_have_filled_spares_and_loans() -> None:
    events = [event for seed in range(_SEEDS) for event in _lived(seed)]
    assert any(isinstance(event, SpareFilled) for event in events)
    assert any(isinstance(event, LeaseStarted) and event.tier is Tier.BORROWED for event in events)


@pytest.mark.slow
@pytest.mark.parametrize("seed", few_of(range(_SEEDS), 1))
def test_usage_of_a_simulated_system(seed: int) -> None:
    events = _lived(seed)
    first_ms, last_ms = events[0].at_ms, events[-1].at_ms
    third_ms = (last_ms - first_ms) // 3
    whole, windowed = UsageBooks(), UsageBooks(window_ms=third_ms)
    whole.fold_all(events)
    windowed.fold_all(events)
    holds = holds_of(events)
    for owner in {held.run.owner for held in holds}:
        own = [held for held in holds if held.run.owner == owner]
        for from_ms, until_ms in (
            (first_ms, last_ms),
            (first_ms + third_ms, first_ms + 2 * third_ms),
            (last_ms - third_ms, last_ms),
        ):
            mine = usage_of(own, from_ms, until_ms)
            assert whole.owner(owner, from_ms=from_ms, until_ms=until_ms) == mine
        last = usage_of(own, last_ms - third_ms, last_ms)
        assert windowed.owner(owner, from_ms=last_ms - third_ms, until_ms=last_ms) == last


@pytest.mark.slow
@pytest.mark.parametrize("seed", few_of(range(_SEEDS), 1))
def test_statements_of_a_simulated_system_add_up(seed: int) -> None:
    events = _lived(seed)
    first_ms, last_ms = events[0].at_ms, events[-1].at_ms
    for part in range(1, 7):
        until_ms = first_ms + (last_ms - first_ms) * part // 6
        from_ms = until_ms - (last_ms - first_ms) // 4
        known = [event for event in events if event.at_ms <= until_ms]
        state = fold(known)
        asked = Asked(from_ms=from_ms, until_ms=until_ms, prices={"H100": 2_345_678})
        found = make_statement(known, state, asked)
        leases = paid_of(known)
        for line in found.lines:
            paid = [each for each in leases if each.payer == line.envelope]
            assert line.spent_gpu_ms == sum(each.charged(0, until_ms) for each in paid)
            assert line.period_gpu_ms == sum(each.charged(from_ms, until_ms) for each in paid)
            lent = [each for each in paid if each.tier is Tier.BORROWED]
            assert line.lent_gpu_ms == sum(each.charged(from_ms, until_ms) for each in lent)
            granted = line.spent_gpu_ms + line.held_gpu_ms + line.free_gpu_ms
            assert line.granted_gpu_ms == granted
            assert line.held_gpu_ms >= 0
            assert line.free_gpu_ms >= 0
            account = state.envelopes[line.envelope]
            assert line.spent_gpu_ms + line.held_gpu_ms == account.committed_gpu_ms
        assert found.total.spent_gpu_ms == sum(each.charged(0, until_ms) for each in leases)
        assert found.total.lent_gpu_ms == found.total.borrowed_gpu_ms
        for sums in (found.budgets, found.owners):
            assert sum(each.spent_gpu_ms for each in sums) == found.total.spent_gpu_ms
            assert sum(each.granted_gpu_ms for each in sums) == found.total.granted_gpu_ms
            assert sum(each.cost_micros or 0 for each in sums) == (found.total.cost_micros or 0)
            for each in (*sums, found.total):
                parts = each.spent_gpu_ms + each.held_gpu_ms + each.free_gpu_ms
                assert each.granted_gpu_ms == parts
