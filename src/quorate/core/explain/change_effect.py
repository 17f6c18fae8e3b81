"""The effect of a change: for which runs the queue position, start, width or payers change.

The effect is the difference of two pictures of the state, before and after the change. For a dry
run, the second picture is made from the overlay to which the events of the change were applied. So
the effect is exactly that of the real change. All functions here are pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from quorate.core.tenancy.queue_order import queue_order
from quorate.model.events import (
    ConflictDeclared,
    ConflictResolved,
    EndReason,
    Event,
    LeaseEnded,
    LeaseEnding,
    LoanRecalled,
    MoveCause,
    ReservationMoved,
)
from quorate.model.specs import EnvelopeId
from quorate.model.state.records import Phase
from quorate.model.state.state_view import StateView

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Moved(Generic[T]):
    """A value of a run, such as its width, before and after the change."""

    run: str
    before: T
    after: T


Payments = tuple[tuple[EnvelopeId, int], ...]
"""Pairs of an envelope and the number of GPUs that it pays for, sorted by the envelope's name."""


@dataclass(frozen=True, slots=True)
class HandedOver:
    """A bundle of a run that continues with other payers."""

    run: str
    bundle: int
    before: Payments
    after: Payments


@dataclass(frozen=True, slots=True)
class Stop:
    """A run that stops, the instant by which it has stopped, and the reason."""

    run: str
    at_ms: int
    reason: EndReason


@dataclass(frozen=True, slots=True)
class Risk:
    """A run that may be drawn in the lottery of ``conflict``, and then ends at ``at_ms``."""

    run: str
    at_ms: int
    conflict: str


@dataclass(frozen=True, slots=True)
class Picture:
    """One picture of the state: queue positions from 1, planned starts, GPUs of runs, and payers.

    ``widths`` and ``payers`` are computed from the leases that are not stopping. ``payers`` has,
    for each (run, bundle), the GPUs that each envelope pays for.
    """

    places: Mapping[str, int]
    starts: Mapping[str, int | None]
    widths: Mapping[str, int]
    payers: Mapping[tuple[str, int], Mapping[EnvelopeId, int]]

    @classmethod
    def of(cls, view: StateView, now_ms: int) -> Picture:
        """Return the picture of ``view`` at ``now_ms``."""
        places = {name: place for place, name in enumerate(queue_order(view, now_ms), start=1)}
        starts = {r.made.run: r.planned_start_ms for r in view.reservations.values()}
        widths: dict[str, int] = {}
        payers: dict[tuple[str, int], dict[EnvelopeId, int]] = {}
        for lease in view.leases.values():
            fact = lease.fact
            if lease.ending is None:
                widths[fact.run] = widths.get(fact.run, 0) + lease.gpus
                paid = payers.setdefault((fact.run, fact.bundle), {})
                paid[fact.payer] = paid.get(fact.payer, 0) + lease.gpus
        return cls(places, starts, widths, payers)


@dataclass(frozen=True, slots=True)
class Effect:
    """The differences between two pictures. Each field is in the order of the runs' names.

    ``causes`` say why firm starts in ``starts`` were moved. ``stops`` say when and why the runs in
    ``stopped`` stop. ``risks`` are the runs that a declared conflict may end. ``recalled`` has
    (run, due time) for each run whose loans a lender has recalled.
    """

    places: tuple[Moved[int], ...] = ()
    starts: tuple[Moved[int | None], ...] = ()
    shrunk: tuple[Moved[int], ...] = ()
    grown: tuple[Moved[int], ...] = ()
    stopped: tuple[str, ...] = ()
    started: tuple[str, ...] = ()
    handed: tuple[HandedOver, ...] = ()
    causes: tuple[tuple[str, MoveCause], ...] = ()
    stops: tuple[Stop, ...] = ()
    risks: tuple[Risk, ...] = ()
    recalled: tuple[tuple[str, int], ...] = ()

    def __bool__(self) -> bool:
        """Return whether anything has changed."""
        changed = (self.places, self.starts, self.shrunk, self.grown, self.stopped, self.started)
        return any((*changed, self.handed, self.risks, self.recalled))


def effect_between(
    before: Picture, after: Picture, view: StateView, events: Iterable[Event] = ()
) -> Effect:
    """Return how ``after``, the picture of ``view``, differs from ``before``.

    A new planned start is listed as moved from None, and a lost one as moved to None. ``events``
    are the events between the two pictures. The causes and the times are taken from them.
    """
    events = tuple(events)
    stopped = tuple(sorted(before.widths.keys() - after.widths.keys()))
    waiting = before.places.keys() & after.places.keys()
    widths = before.widths.keys() & after.widths.keys()
    return Effect(
        places=_moved(waiting, before.places.__getitem__, after.places.__getitem__),
        starts=_moved(waiting, before.starts.get, after.starts.get),
        shrunk=tuple(m for m in _widths(widths, before, after) if m.after < m.before),
        grown=tuple(m for m in _widths(widths, before, after) if m.after > m.before),
        stopped=stopped,
        started=tuple(
            name
            for name in sorted(after.widths.keys() - before.widths.keys())
            if view.runs[name].phase is Phase.RUNNING
        ),
        handed=tuple(_handed(before, after)),
        causes=tuple(sorted(_causes(events).items())),
        stops=tuple(_stops(events, stopped)),
        risks=tuple(_risks(events)),
        recalled=tuple(sorted({(e.run, e.due_ms) for e in events if isinstance(e, LoanRecalled)})),
    )


def _handed(before: Picture, after: Picture) -> Iterator[HandedOver]:
    """Yield the bundles of unchanged width whose payers, or the payers' parts, have changed."""
    for key in sorted(before.payers.keys() & after.payers.keys()):
        had, has = before.payers[key], after.payers[key]
        if had != has and sum(had.values()) == sum(has.values()):
            yield HandedOver(*key, tuple(sorted(had.items())), tuple(sorted(has.items())))


def _causes(events: Iterable[Event]) -> dict[str, MoveCause]:
    """Return why the firm start of each run was moved; of several moves, the last one counts."""
    return {
        event.reservation.rpartition("@")[0]: event.cause
        for event in events
        if isinstance(event, ReservationMoved)
    }


def _stops(events: Iterable[Event], stopped: tuple[str, ...]) -> Iterator[Stop]:
    """Yield, for each run in ``stopped``, when and why it stops.

    A run stops with its last lease.
    """
    found: dict[str, Stop] = {}
    for event in events:
        if isinstance(event, LeaseEnding | LeaseEnded):
            run = event.lease.partition("/")[0]
            at_ms = event.end_ms if isinstance(event, LeaseEnded) else event.deadline_ms
            known = found.get(run)
            if run in stopped and event.reason is not EndReason.HANDOVER:
                at_ms = at_ms if known is None else max(at_ms, known.at_ms)
                found[run] = Stop(run, at_ms, event.reason)
    yield from (found[run] for run in sorted(found))


def _risks(events: Iterable[Event]) -> Iterator[Risk]:
    """Yield the runs with a token in a conflict that ``events`` declare and do not settle."""
    events = tuple(events)
    settled = {event.conflict for event in events if isinstance(event, ConflictResolved)}
    found = {
        Risk(token.run, event.due_ms, event.conflict)
        for event in events
        if isinstance(event, ConflictDeclared) and event.conflict not in settled
        for token in event.tokens
    }
    yield from sorted(found, key=lambda risk: (risk.run, risk.at_ms))


def _widths(names: set[str], before: Picture, after: Picture) -> tuple[Moved[int], ...]:
    return _moved(names, before.widths.__getitem__, after.widths.__getitem__)


def _moved(
    names: set[str], before: Callable[[str], T], after: Callable[[str], T]
) -> tuple[Moved[T], ...]:
    found = (Moved(name, before(name), after(name)) for name in sorted(names))
    return tuple(moved for moved in found if moved.before != moved.after)
