"""The effect of a change: whose place in the queue, planned start or width is another afterwards.

How everything stands is noted before and after, and the two are compared: a dry run compares with
what it has only tried, so what it shows is what then happens. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from quorate.core.queue import queue_order
from quorate.model.records import Phase
from quorate.model.view import StateView

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Moved(Generic[T]):
    """What a run had ``before`` and has ``after``."""

    run: str
    before: T
    after: T


@dataclass(frozen=True, slots=True)
class Picture:
    """How everything stands: places in the queue from 1, planned starts, and GPUs that work."""

    places: Mapping[str, int]
    starts: Mapping[str, int | None]
    widths: Mapping[str, int]

    @classmethod
    def of(cls, view: StateView, now_ms: int) -> Picture:
        """Return how everything stands in ``view`` at ``now_ms``."""
        places = {name: place for place, name in enumerate(queue_order(view, now_ms), start=1)}
        starts = {r.made.run: r.planned_start_ms for r in view.reservations.values()}
        widths: dict[str, int] = {}
        for lease in view.leases.values():
            if lease.ending is None:
                widths[lease.fact.run] = widths.get(lease.fact.run, 0) + lease.gpus
        return cls(places, starts, widths)


@dataclass(frozen=True, slots=True)
class Effect:
    """What is another than it was; each in the order of names."""

    places: tuple[Moved[int], ...] = ()
    starts: tuple[Moved[int | None], ...] = ()
    shrunk: tuple[Moved[int], ...] = ()
    grown: tuple[Moved[int], ...] = ()
    stopped: tuple[str, ...] = ()
    started: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Return whether there is any."""
        return any((self.places, self.starts, self.shrunk, self.grown, self.stopped, self.started))


def effect_between(before: Picture, after: Picture, view: StateView) -> Effect:
    """Return how ``after``, which is how things stand in ``view``, differs from ``before``.

    A start that was promised or is promised no longer has moved from or to None.
    """
    waiting = before.places.keys() & after.places.keys()
    widths = before.widths.keys() & after.widths.keys()
    return Effect(
        places=_moved(waiting, before.places.__getitem__, after.places.__getitem__),
        starts=_moved(waiting, before.starts.get, after.starts.get),
        shrunk=tuple(m for m in _widths(widths, before, after) if m.after < m.before),
        grown=tuple(m for m in _widths(widths, before, after) if m.after > m.before),
        stopped=tuple(sorted(before.widths.keys() - after.widths.keys())),
        started=tuple(
            name
            for name in sorted(after.widths.keys() - before.widths.keys())
            if view.runs[name].phase is Phase.RUNNING
        ),
    )


def _widths(names: set[str], before: Picture, after: Picture) -> tuple[Moved[int], ...]:
    return _moved(names, before.widths.__getitem__, after.widths.__getitem__)


def _moved(
    names: set[str], before: Callable[[str], T], after: Callable[[str], T]
) -> tuple[Moved[T], ...]:
    found = (Moved(name, before(name), after(name)) for name in sorted(names))
    return tuple(moved for moved in found if moved.before != moved.after)
