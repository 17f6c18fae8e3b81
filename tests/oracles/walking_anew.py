"""What the end of a run gives out; also where a new walk begins at each place that is left.

For ledgers without an executor, loans, spares and conflicts.
"""

from __future__ import annotations

from typing import NamedTuple

from quorate.core.decision_log import DecisionLog
from quorate.core.lifecycle.run_phases import complete_run
from quorate.core.lifecycle.settle import settle_holds
from quorate.core.planning.overstay import stop_overstayed
from quorate.core.planning.queue_walk import Walk
from quorate.core.profile.plan_entry import Entry
from quorate.model.events import Event, Outcome
from quorate.model.state.state_view import StateView

WALKS_MAX = 16


class Ended(NamedTuple):
    """What the end of a run writes, and how often a firm run left its place meanwhile.

    ``anew`` counts the walks that were begun for that, ``gone_on`` those that went on instead.
    """

    events: tuple[Event, ...]
    anew: int
    gone_on: int


class WalkAnew(Walk):
    """A walk that ends wherever a firm run leaves its place and a run before it waits."""

    __slots__ = ()

    def _leave(self, pin: Entry) -> None:
        started = self.plan.started_runs[pin.run]
        took = (started.start_ms, started.slice, started.shares)
        has_left = took != (pin.start_ms, pin.slice, pin.shares)
        self.has_left_place |= has_left and (self.plan.is_waiting or bool(self.plan.fruitless_runs))


def ended(view: StateView, run: str, now_ms: int, kind: type[Walk]) -> Ended:
    """Return what completing ``run`` comes to where the queue is walked by walks of ``kind``."""
    log = DecisionLog(view, now_ms=now_ms, actor="test")
    settle_holds(log)
    complete_run(log, log.view.runs[run], Outcome.COMPLETED, "")
    anew, gone_on, left = 0, 0, WALKS_MAX - 1
    while True:
        walk = _standing(log, kind)
        after = walk.run(starts_anew=left)
        gone_on += left - after
        if not walk.has_left_place or not after:
            break
        anew, left = anew + 1, after - 1
    settle_holds(log)
    return Ended(tuple(log.events), anew, gone_on)


def _standing(log: DecisionLog, kind: type[Walk]) -> Walk:
    """Return a walk with all firm places put in, none of which has to move any more."""
    while True:
        stop_overstayed(log)
        written = len(log.events)
        walk = kind(log)
        walk.firm.put_pins()
        if len(log.events) == written:
            return walk
