"""The decision log: it collects the events of one decision, and shows later steps their effect.

Until the first event is written, the log shows the given view. If a step reads the view afterwards,
the log makes an overlay of the given view and applies the events to this overlay. If no step reads
the view after an event, no overlay is made.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec import Struct

from quorate.model.events import (
    Event,
    LeaseStarted,
    ReservationMade,
    RunRequeued,
    RunSubmitted,
)
from quorate.model.state.apply_event import apply
from quorate.model.state.state import State
from quorate.model.state.state_view import StateView

_WAITING: Final = frozenset[type[Event]]({RunSubmitted, RunRequeued})
"""The kinds of events after which a run waits."""

GoOn = Callable[[], bool]
"""A function that returns whether the decision may continue."""


def always() -> bool:
    """Return True: a decision with this function is never stopped early."""
    return True


class DecisionCutError(Exception):
    """A decision was abandoned because ``go_on`` returned False; nothing was recorded.

    ``started`` is the number of submitted or waiting runs that the decision had started by then.
    """

    def __init__(self, started: int) -> None:
        super().__init__(f"the decision was stopped after its maximum of {started} starts")
        self.started = started


class Mark(Struct, frozen=True, gc=False):
    """A point in a decision: the state there, and how many events were written before."""

    view: StateView
    written: int


class DecisionLog:
    """The events of one decision, all with the same time and the same actor.

    With an executor, a stopping lease keeps its slots until the executor confirms its end. Without
    an executor no work runs; then a stop writes both events of a lease, that it is ending and that
    it has ended, at once. Writing an event raises ``DecisionCutError`` if ``go_on`` returns False.
    """

    __slots__ = (
        "_applied",
        "_base",
        "_go_on",
        "_kinds",
        "_overlay",
        "actor",
        "before",
        "began_ms",
        "events",
        "has_executor",
        "now_ms",
    )

    def __init__(
        self,
        view: StateView,
        *,
        now_ms: int,
        actor: str,
        has_executor: bool = False,
        go_on: GoOn = always,
    ) -> None:
        self._base = self.before = view
        self._go_on = go_on
        self._overlay: State | None = None
        self._applied = 0
        self._kinds: set[type[Event]] = set()
        self.events: list[Event] = []
        self.began_ms = view.at_ms
        self.now_ms = max(now_ms, view.at_ms)
        self.actor = actor
        self.has_executor = has_executor

    @property
    def view(self) -> StateView:
        """The state with all events written so far."""
        if self._applied == len(self.events):
            return self._base if self._overlay is None else self._overlay
        if self._overlay is None:
            self._overlay = self._base.overlay()
        for event in self.events[self._applied :]:
            apply(self._overlay, event)
        self._applied = len(self.events)
        return self._overlay

    def frozen(self) -> StateView:
        """Return the state with all events written so far; later events do not change it."""
        self._base, self._overlay = self.view, None
        return self._base

    def mark(self) -> Mark:
        """Return the point that the decision has reached, for a later ``rewind``."""
        return Mark(self.frozen(), len(self.events))

    def rewind(self, mark: Mark) -> list[Event]:
        """Remove the events that were written since ``mark``, and return them."""
        removed = self.events[mark.written :]
        del self.events[mark.written :]
        self._base, self._overlay, self._applied = mark.view, None, mark.written
        self._kinds = {type(event) for event in self.events}
        return removed

    @property
    def any_run_waits(self) -> bool:
        """Whether any run may be waiting.

        The property makes no overlay. So it may be True although this decision has already started
        the last waiting run.
        """
        return bool(self._base.pending) or not self._kinds.isdisjoint(_WAITING)

    @property
    def any_reservation(self) -> bool:
        """Whether any run may have a reservation.

        The property makes no overlay. So it may be True although this decision has already ended
        the last reservation.
        """
        return bool(self._base.reservations) or ReservationMade in self._kinds

    @property
    def shares_in_rounds(self) -> bool:
        """Whether any run is in a pool of discipline ``rounds``; computed without an overlay."""
        if self._base.in_rounds or RunSubmitted not in self._kinds:
            return bool(self._base.in_rounds)
        return any(
            isinstance(event, RunSubmitted) and event.run.rounds is not None
            for event in self.events
        )

    def write(self, event: Event) -> None:
        """Add ``event`` to the decision."""
        if not self._go_on():
            started = {each.run for each in self.events if isinstance(each, LeaseStarted)}
            raise DecisionCutError(len(started))
        self.events.append(event)
        self._kinds.add(type(event))
