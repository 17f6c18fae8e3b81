"""The outlook: plan, queue order and settled state at one instant, computed once.

The settled state is the state after all due changes. The time to compute an outlook grows with the
length of the queue. So a reader that answers many questions about one state keeps the outlook of
this state, and uses it for all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from quorate.core.commands import Tick
from quorate.core.decide import decide
from quorate.core.explain.remedies import ACTOR
from quorate.core.planning.foresight import Foresight
from quorate.core.tenancy.queue_order import queue_turns
from quorate.model.state.apply_event import apply_all
from quorate.model.state.state import State
from quorate.model.state.state_view import StateView


class QueueOrder:
    """Runs in the order of ``turns``, an iterator that is read once, and no further than needed."""

    def __init__(self, turns: Iterator[str]) -> None:
        self._turns = turns
        self._places: dict[str, int] = {}
        self._known: list[str] = []

    def __iter__(self) -> Iterator[str]:
        place = 0
        while place < len(self._known) or self._read():
            yield self._known[place]
            place += 1

    def place_of(self, run: str) -> int:
        """Return the position of ``run``, from 0; raise ``KeyError`` if ``run`` does not wait."""
        while run not in self._places:
            if not self._read():
                raise KeyError(run)
        return self._places[run]

    def _read(self) -> bool:
        """Read the next run; return False if no run is left."""
        name = next(self._turns, None)
        if name is None:
            return False
        self._places[name] = len(self._known)
        self._known.append(name)
        return True


class Outlook:
    """The outlook on one state, for one thread at a time; ``view`` must not change."""

    def __init__(self, view: StateView, now_ms: int, *, has_executor: bool = False) -> None:
        self.view = view
        self.now_ms = max(now_ms, view.at_ms)
        self.has_executor = has_executor

    @cached_property
    def plan(self) -> Foresight:
        """The planned starts of the waiting runs."""
        return Foresight.of(self.view, self.now_ms, has_executor=self.has_executor)

    def plan_for(self, run: str, *, is_exact: bool) -> Foresight:
        """Return a plan from which the start of a waiting run can be read.

        If ``is_exact`` is true and the run is beyond the depth of the usual plan, the result is a
        plan that is extended up to this run. Each call computes the extended plan again.
        """
        if not is_exact or self.plan.planned_start_of(self.view.runs[run]) is not None:
            return self.plan
        return Foresight.up_to(self.view, run, self.now_ms, has_executor=self.has_executor)

    @cached_property
    def order(self) -> QueueOrder:
        """The order of the queue, read only as far as needed."""
        return QueueOrder(queue_turns(self.view, self.now_ms))

    @cached_property
    def queue(self) -> tuple[str, ...]:
        """The waiting runs in queue order."""
        return tuple(self.order)

    @cached_property
    def settled(self) -> State:
        """The state after all due changes."""
        decision = decide(
            self.view, Tick(), now_ms=self.now_ms, actor=ACTOR, has_executor=self.has_executor
        )
        found = self.view.overlay()
        apply_all(found, decision.events)
        return found

    @cached_property
    def after_due(self) -> Outlook:
        """The outlook on the state after all due changes."""
        return Outlook(self.settled, self.now_ms, has_executor=self.has_executor)
