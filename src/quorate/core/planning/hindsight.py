"""Decides whether to repeat a decision that has moved a firm start needlessly.

A decision puts firm starts into the profile before all its events are known. So a decision may move
a start needlessly, in two cases:

- An overstaying bundle holds resources that the start needs, and may not be stopped for this start.
  Later the same decision stops the bundle for another start.
- The moved start is right behind a late start, which should have begun before now. The late start
  also ends late, and is therefore in the way of the moved start. Afterwards the same decision moves
  the late start, too, because counting finds room for the late start, but admission refuses it.

In both cases the decision is made again, with these bundles and late starts known from the
beginning. The new decision is used if it leaves a start in place that the first decision moved.
``Hindsight.is_better`` has all conditions.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from quorate.core.profile.firm_places import pin_of, recorded_end_ms
from quorate.model.events import EndReason, Event, LeaseEnding, ReservationMoved
from quorate.model.state.records import ReservationRecord
from quorate.model.state.state_view import StateView


class Hindsight(Struct, frozen=True):
    """The findings of the trials of a decision.

    In all methods, ``view`` is the state before the trials.
    """

    stops: tuple[tuple[str, int], ...] = ()
    """The overstaying bundles that were stopped after a start had moved, as (run, bundle)."""
    stuck: tuple[str, ...] = ()
    """The runs whose late start a trial moved only after it had moved a start right behind it."""

    def with_more(self, view: StateView, events: Sequence[Event], now_ms: int) -> Hindsight:
        """Return these findings, extended by those of the trial that wrote ``events``."""
        stops, stuck = set(self.stops), set(self.stuck)
        moved: list[ReservationRecord] = []
        for event in events:
            if isinstance(event, ReservationMoved):
                record = _moved_later(view, event)
                if record is None:
                    continue
                if any(_is_behind(view, each, record, now_ms) for each in moved):
                    stuck.add(record.made.run)
                moved.append(record)
            elif moved and isinstance(event, LeaseEnding) and event.reason is EndReason.OVERSTAYED:
                lease = view.leases.get(event.lease)
                if lease is not None:  # Otherwise this decision has started the lease.
                    stops.add((lease.fact.run, lease.fact.bundle))
        return Hindsight(tuple(sorted(stops)), tuple(sorted(stuck)))

    def is_better(
        self, view: StateView, before: Sequence[Event], after: Sequence[Event], now_ms: int
    ) -> bool:
        """Return whether a new trial is better than the trial before it.

        ``before`` are the events of the earlier trial, and ``after`` those of the new one. The new
        trial is better if three conditions are met:

        - ``before`` moves at least one start that ``after`` does not move.
        - Each start that only ``after`` moves is right behind a late start that only ``before``
          moves. A late start that is not moved also ends later, so the start behind it has to move.
        - ``after`` moves the starts of all runs in ``stuck``. The plan counted these starts only
          until their recorded ends, which is wrong for a late start that is not moved.
        """
        moved_before, moved_after = _moved(view, before), _moved(view, after)
        kept = [record for run, record in moved_before.items() if run not in moved_after]
        others = [record for run, record in moved_after.items() if run not in moved_before]
        return (
            bool(kept)
            and moved_after.keys() >= set(self.stuck)
            and all(any(_is_behind(view, each, late, now_ms) for late in kept) for each in others)
        )


def _moved(view: StateView, events: Sequence[Event]) -> dict[str, ReservationRecord]:
    """Return the reservations that ``events`` move later, as they were in ``view``, by run."""
    moves = (event for event in events if isinstance(event, ReservationMoved))
    records = (_moved_later(view, event) for event in moves)
    return {record.made.run: record for record in records if record is not None}


def _moved_later(view: StateView, event: ReservationMoved) -> ReservationRecord | None:
    """Return the reservation, as it was in ``view``, if ``event`` moves it later or blocks it.

    Return None for other moves. Return None, too, if ``view`` has no such reservation, or if the
    reservation has no start in ``view`` or a start by a conflict.
    """
    record = view.reservations.get(event.reservation)
    if record is None or record.planned_start_ms is None or record.by_conflict:
        return None
    start_ms = event.planned_start_ms
    is_later = start_ms is None or start_ms > record.planned_start_ms
    return record if is_later else None


def _is_behind(
    view: StateView, behind: ReservationRecord, late: ReservationRecord, now_ms: int
) -> bool:
    """Return whether the start of ``behind`` is right behind the late start of ``late``.

    This is so if the run of ``late`` will end after the start of ``behind``, but would have ended
    by then if it had started in time.
    """
    pin = pin_of(view, late, now_ms)
    assert pin is not None, late
    assert behind.planned_start_ms is not None, behind
    return recorded_end_ms(late, pin) <= behind.planned_start_ms < pin.end_ms
