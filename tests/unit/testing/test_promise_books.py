"""The books of promises find what a planner with a mistake would write."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from quorate.core.commands import Apply, Command, Submit
from quorate.model.amounts import HOUR_MS, MINUTE_MS
from quorate.model.events import (
    Event,
    MoveCause,
    MoveCode,
    ReservationMoved,
    ReservationStatus,
)
from quorate.model.specs import Budget, Cap, OnQuota, Owner, Quota
from quorate.model.state.apply_event import apply_all
from quorate.testing.builders import NOW_MS, budget, envelope
from quorate.testing.promise_books import PromiseBooks
from tests.oracles.lives import Life
from tests.oracles.plans import alone, of, planned_life

SECRET, LENGTH = b"x" * 32, 10


class Book:
    """A ledger whose blocks are entered into books of promises."""

    def __init__(self, life: Life) -> None:
        self.life = life
        self.books = PromiseBooks(SECRET, LENGTH)
        self._height = 0
        assert self.enter(life.events) == []

    def enter(self, events: Sequence[Event]) -> list[str]:
        """Return what is wrong with a block that is in the state already."""
        self._height += 1
        return list(self.books.enter(self._height, events, self.life.state))

    def do(self, command: Command, at_ms: int | None = None) -> list[str]:
        """Return what is wrong with what is decided."""
        self.books.looked(self.life.now_ms if at_ms is None else at_ms)
        return self.enter(self.life.do(command, at_ms).events)

    def write(self, *events: Event) -> list[str]:
        """Return what is wrong with events that no planner decided."""
        apply_all(self.life.state, events)
        return self.enter(events)

    def moved(self, name: str, to_ms: int, cause: MoveCause) -> list[str]:
        """Return what is wrong with moving the firm start of a run."""
        record = self.life.state.reservations[f"{name}@1"]
        return self.write(
            ReservationMoved(
                at_ms=self.life.now_ms,
                actor="test",
                reservation=f"{name}@1",
                status=ReservationStatus.DEFERRED,
                slice=record.slice,
                payers=record.payers,
                planned_start_ms=to_ms,
                natural_start_ms=to_ms,
                by_conflict=False,
                cause=cause,
            )
        )


def waiting(budgets: Sequence[Budget] = (), owners: Sequence[Owner] = ()) -> Book:
    """Return books in which ``first`` is promised the place of ``runs``, which ends in an hour."""
    found = Book(planned_life(16, budgets=budgets, owners=owners))
    assert found.do(Submit(of("runs", 16, "one", 60))) == []
    assert found.do(Submit(of("first", 8, "two", 60))) == []
    return found


def beside(found: Book) -> list[str]:
    """Return what is wrong with promising ``second`` a start beside ``first``."""
    assert found.do(Submit(of("second", 8, "two", 60, on_quota=OnQuota.WAIT))) == []
    start_ms = found.life.state.reservations["first@1"].made.planned_start_ms
    return found.moved("second", start_ms, MoveCause(MoveCode.LOANS_RECALLED))


LINE = alone(envelope("e", 8))
CAPPED = Budget(
    name="b-two",
    owner="two",
    envelopes=(alone(envelope("e", 64)),),
    caps=(Cap(name="all", flavor="H100", envelopes=("e",), concurrency_max=8),),
)


@pytest.mark.parametrize(
    ("budgets", "owners", "lacks"),
    [
        ([budget("b-two", "two", LINE)], [], "envelope b-two/e has 8 GPUs too few"),
        ([CAPPED], [], "cap b-two/all has 8 GPUs too few"),
        (
            [],
            [Owner(name="two", quota=Quota(concurrent_runs_max=1))],
            "quota of two has 0 of 1 run",
        ),
        ([], [Owner(name="two", quota=Quota(nodes_max=1))], "quota of two has 1 nodes too few"),
    ],
    ids=["envelope", "cap", "runs", "nodes"],
)
def test_two_places_that_cannot_both_be_kept_are_found(
    budgets: list[Budget], owners: list[Owner], lacks: str
) -> None:
    found = waiting(budgets=budgets, owners=owners)
    assert any(lacks in text for text in beside(found))


def test_two_places_in_the_same_room_are_found() -> None:
    found = waiting()
    assert found.do(Submit(of("wide", 16, "three", 60))) == []
    start_ms = found.life.state.reservations["first@1"].made.planned_start_ms
    texts = found.moved("wide", start_ms, MoveCause(MoveCode.LOANS_RECALLED))
    assert any("first@1 cannot be kept: ['domain r/c/A has 0 of 8" in text for text in texts)


@pytest.mark.parametrize(
    "cause",
    [
        MoveCause(MoveCode.BUDGET_CHANGED, (("envelope", "b-two/e"),)),
        MoveCause(MoveCode.QUOTA_CHANGED, (("owner", "two"),)),
        MoveCause(MoveCode.NODES_CHANGED, (("domain", "r/c/A"),)),
        MoveCause(MoveCode.NODE_LOST, (("node", "a0"),)),
        MoveCause(MoveCode.LEASE_OVERRAN, (("lease", "runs/0"),)),
    ],
    ids=lambda cause: cause.code.value,
)
def test_cause_that_is_not_so_is_found(cause: MoveCause) -> None:
    found = waiting()
    texts = found.moved("first", NOW_MS + 2 * HOUR_MS, cause)
    assert any(text.endswith("though its place stands") for text in texts)
    assert any(text.endswith("and nothing of that has changed") for text in texts)


def test_budget_that_is_applied_as_it_was_is_no_cause() -> None:
    found = waiting()
    line = found.life.state.budgets["b-two"]
    cause = MoveCause(MoveCode.BUDGET_CHANGED, (("envelope", "b-two/e"),))
    assert found.do(Apply((line,)), NOW_MS + MINUTE_MS) == []
    texts = found.moved("first", NOW_MS + 2 * HOUR_MS, cause)
    assert any(text.endswith("and nothing of that has changed") for text in texts)


def test_budget_that_has_changed_is_a_cause() -> None:
    found = waiting()
    line = replace(found.life.state.budgets["b-two"].envelopes[0], concurrency=4)
    changed = replace(found.life.state.budgets["b-two"], envelopes=(line,))
    assert found.do(Apply((changed,)), NOW_MS + MINUTE_MS) == []
    assert found.books.moved_later == 1


def test_being_down_excuses_only_what_was_due_meanwhile() -> None:
    found = waiting()
    start_ms = found.life.state.reservations["first@1"].made.planned_start_ms
    found.books.shaken(NOW_MS + 10 * MINUTE_MS)
    cause = MoveCause(MoveCode.LEASE_OVERRAN, (("lease", "runs/0"),))
    assert any("though its place" in text for text in found.moved("first", start_ms + 1, cause))
