"""Recall, compared with brute force: which loans are recalled, when, and that no other is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from quorate.core.commands import Apply, Confirm, Submit, Tick
from quorate.ledger.snapshot import fingerprint, restore, take
from quorate.model.amounts import HOUR_MS, MINUTE_MS
from quorate.model.events import EndReason, LoanRecalled, RecallWithdrawn
from quorate.model.specs import Budget, Run
from quorate.model.state.apply_event import apply_all
from quorate.model.state.records import Phase
from quorate.model.state.state import State
from quorate.testing.builders import NOW_MS, borrowing, budget, envelope, fleet, lending
from tests.oracles.lives import Life, ends, stops
from tests.oracles.plans import alone, firm_ms, of, quiet_pool

LONG = 50 * 60
"""The declared minutes of running work: no run ends by itself."""


@dataclass(frozen=True)
class Borrowed:
    """A run that borrows: its owner, its GPUs, and the minute at which it starts."""

    name: str
    owner: str
    gpus: int
    checkpoint_ms: int


@dataclass(frozen=True)
class World:
    """One lender with two envelopes, borrowers that may get money later, and other owners."""

    lines: tuple[tuple[int, int | None], ...]
    loans: tuple[Borrowed, ...]
    own: dict[str, int]
    busy: int
    room: int
    wanted: int
    has_executor: bool


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """Draw a world of one domain in which every loan starts."""
    notices = st.sampled_from((None, MINUTE_MS, 10 * MINUTE_MS, 3 * HOUR_MS))
    lines = tuple((draw(st.integers(1, 8)), draw(notices)) for _ in range(draw(st.integers(1, 2))))
    left, loans = sum(gpus for gpus, _ in lines), list[Borrowed]()
    for number in range(draw(st.integers(1, 4))):
        if left:
            gpus = draw(st.integers(1, left))
            grace_ms = draw(st.sampled_from((0, 2 * MINUTE_MS)))
            loans.append(Borrowed(f"l{number}", draw(st.sampled_from("xy")), gpus, grace_ms))
            left -= gpus
    busy = draw(st.integers(0, 6))
    lent = sum(loan.gpus for loan in loans)
    return World(
        lines,
        tuple(loans),
        {owner: draw(st.integers(0, 8)) for owner in "xy"},
        busy,
        lent + busy + draw(st.integers(0, 10)),
        draw(st.integers(1, sum(gpus for gpus, _ in lines))),
        draw(st.booleans()),
    )


def lent_life(world: World) -> Life:
    """Return the ledger of ``world`` with all loans running, after which borrowers got money."""
    lines = [
        alone(envelope(f"e{n}", gpus, lending=lending(recall_notice_ms=notice_ms)))
        for n, (gpus, notice_ms) in enumerate(world.lines)
    ]
    life = Life(
        nodes=fleet({"A": world.room}, gpus=1),
        budgets=[budget("b", "lender", *lines), *(_own(owner, 0) for owner in "xy"), _own("z", 64)],
        pools=[quiet_pool(horizon_ms=HOUR_MS)],
        has_executor=world.has_executor,
        audits=False,
    )
    if world.busy:
        life.do(Submit(of("busy", world.busy, "z", LONG)))
    for minute, loan in enumerate(world.loans):
        life.do(Submit(_run(loan)), NOW_MS + minute * MINUTE_MS)
        assert life.phase(loan.name) is Phase.RUNNING
    apply_own = [_own(owner, gpus) for owner, gpus in world.own.items() if gpus]
    if apply_own:
        life.do(Apply(tuple(apply_own)))
    return life


def _own(owner: str, gpus: int) -> Budget:
    flavor = "H100" if gpus else "none"
    return budget(f"b-{owner}", owner, alone(envelope("own", max(1, gpus), flavor=flavor)))


def _run(loan: Borrowed) -> Run:
    return of(
        loan.name,
        loan.gpus,
        loan.owner,
        LONG,
        funding=borrowing(),
        checkpoint_ms=loan.checkpoint_ms,
    )


class Oracle:
    """The rules, by counting and by trying every set of loans."""

    def __init__(self, world: World, state: State, now_ms: int) -> None:
        self.world = world
        self.paid: dict[str, dict[str, int]] = {}
        for loan in world.loans:
            bill = self.paid.setdefault(loan.name, {})
            for name in state.runs[loan.name].leases:
                lease = state.leases[name]
                bill[lease.fact.payer] = bill.get(lease.fact.payer, 0) + lease.gpus
        notices = {f"b/e{n}": notice_ms for n, (_, notice_ms) in enumerate(world.lines)}
        self.due_ms = {
            loan.name: now_ms
            + max(
                *(notices[payer] or 0 for payer in self.paid[loan.name]),
                loan.checkpoint_ms if world.has_executor else 0,
                1,
            )
            for loan in world.loans
        }
        # The newest is the last that started; a loan without a notice is never recalled.
        self.newest = [
            loan
            for loan in reversed(world.loans)
            if any(notices[payer] is not None for payer in self.paid[loan.name])
        ]
        self.width = sum(gpus for gpus, _ in world.lines) - sum(g.gpus for g in world.loans)
        self.free = world.room - world.busy - sum(g.gpus for g in world.loans)

    def holds(self, gone: Sequence[Borrowed], handed: Sequence[Borrowed] = ()) -> bool:
        """Return whether the run has its width and its GPUs without these loans."""
        room = self.free + sum(loan.gpus for loan in gone)
        width = self.width + sum(loan.gpus for loan in (*gone, *handed))
        return min(room, width) >= self.world.wanted

    def room_alone(self, gone: Sequence[Borrowed]) -> bool:
        """Return whether the run would start with these loans' GPUs but not their width."""
        room = self.free + sum(loan.gpus for loan in gone)
        return room >= self.world.wanted <= self.width

    def payable(self, handed: Sequence[Borrowed]) -> bool:
        """Return whether the borrowers can pay for all of these loans themselves."""
        return all(
            sum(loan.gpus for loan in handed if loan.owner == owner) <= gpus
            for owner, gpus in self.world.own.items()
        )

    def starts_by_hand_over(self) -> bool:
        """Return whether loans can be handed over so that the run starts at once."""
        return any(
            self.payable(some) and self.holds((), some)
            for count in range(1, len(self.newest) + 1)
            for some in combinations(self.newest, count)
        )

    def told(self) -> list[Borrowed]:
        """Return the loans to recall: the newest ones that are enough, without unnecessary ones."""
        if not self.holds(self.newest):
            return []
        length = next(n for n in range(len(self.newest) + 1) if self.holds(self.newest[:n]))
        kept = self.newest[:length]
        for loan in reversed(kept):
            rest = [other for other in kept if other != loan]
            if self.holds(rest):
                kept = rest
        return [] if self.room_alone(kept) else kept


@pytest.mark.heavy
@given(worlds())
def test_exactly_the_loans_that_are_needed_come_back(world: World) -> None:
    life = lent_life(world)
    now_ms = life.now_ms
    oracle = Oracle(world, life.state, now_ms)
    mine = of("mine", world.wanted, "lender", LONG)
    again = life.ask(Submit(mine))
    decision = life.do(Submit(mine))
    assert again.events == decision.events
    told = {e.run: e for e in decision.events if isinstance(e, LoanRecalled)}
    # If it was stopped at once, it may continue on money of the lender that the run does not need.
    goes_on = {e.run for e in decision.events if isinstance(e, RecallWithdrawn)}
    handed = [
        run
        for lease, why in ends(decision)
        if why is EndReason.HANDOVER and (run := lease.partition("/")[0]) not in goes_on
    ]
    if oracle.holds(()):
        event("starts by itself")
        assert (told, handed, life.phase("mine")) == ({}, [], Phase.RUNNING)
        return
    if oracle.starts_by_hand_over():
        event("hand-over")
        assert (told, life.phase("mine")) == ({}, Phase.RUNNING)
        return
    wanted = oracle.told()
    by_name = {loan.name: loan for loan in world.loans}
    assert sorted({*told, *handed}) == sorted(loan.name for loan in wanted)
    if not wanted:
        event("waits for something else")
        assert life.phase("mine") is Phase.PENDING
        return
    event(f"recalls {len(told)}, hands over {len(set(handed))}")
    # Loans that could be handed over without using the run's room were handed over.
    gone = [by_name[name] for name in told]
    went_on = [by_name[name] for name in dict.fromkeys(handed)]
    assert oracle.payable(went_on)
    assert oracle.holds(gone, went_on)
    for loan in gone:
        rest = [other for other in gone if other != loan]
        more = [*went_on, loan]
        assert not (oracle.payable(more) and oracle.holds(rest, more))
    for name, event_ in told.items():
        assert event_.due_ms == oracle.due_ms[name]
        assert event_.waiting_run == "mine"
    # A loan whose grace is as long as its notice is ordered to stop at once, others later.
    at_once = {name for name, _ in stops(decision)}
    assert all(_is_at_once(life, by_name[name.partition("/")[0]], told) for name in at_once)
    due_ms = max(event_.due_ms for event_ in told.values())
    assert firm_ms(life, "mine") in ({due_ms} if not goes_on else {due_ms, None})
    _until_due(life, told, goes_on, due_ms)


def _is_at_once(life: Life, loan: Borrowed, told: dict[str, LoanRecalled]) -> bool:
    return life.has_executor and told[loan.name].due_ms == life.now_ms + loan.checkpoint_ms


def _until_due(life: Life, told: dict[str, LoanRecalled], goes_on: set[str], due_ms: int) -> None:
    """Tick until the notice is over: recalled loans end then and not before, and the run starts."""
    seen: list[tuple[str, int]] = []
    for _ in range(50):
        at_ms = life.due_ms()
        if at_ms is None or at_ms > due_ms:
            break
        decision = life.do(Tick(), at_ms)
        goes_on |= {e.run for e in decision.events if isinstance(e, RecallWithdrawn)}
        seen += [
            (lease.partition("/")[0], at_ms)
            for lease, reason in ends(decision)
            if reason is EndReason.RECALLED
        ]
        if life.has_executor:
            seen += _confirmed(life, due_ms)
    life.do(Tick(), max(due_ms, life.now_ms))
    if life.has_executor:
        seen += _confirmed(life, due_ms)
    assert life.phase("mine") is Phase.RUNNING
    assert {run for run, _ in seen} == set(told) - goes_on
    assert all(life.phase(run) is Phase.RUNNING for run in goes_on)
    assert all(at_ms >= told[run].due_ms for run, at_ms in seen)
    assert life.state.recalls == {}
    life.audit()
    _replays(life)


def _confirmed(life: Life, due_ms: int) -> list[tuple[str, int]]:
    """Confirm stops at the end of their grace, and return the ended leases."""
    found = []
    for name in life.stopping():
        ending = life.state.leases[name].ending
        assert ending is not None
        assert ending.deadline_ms <= due_ms
        life.do(Confirm(name), max(life.now_ms, ending.deadline_ms))
        found.append((name.partition("/")[0], life.now_ms))
    return found


def _replays(life: Life) -> None:
    """Check that the events give the state, and that a snapshot has all of it."""
    folded = State()
    apply_all(folded, life.events)
    assert fingerprint(folded) == fingerprint(life.state)
    restored = restore(take(life.state))
    assert restored is not None
    assert fingerprint(restored) == fingerprint(life.state)
