"""The starts after the end of a run, by walks that begin again if a firm run leaves its place.

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
    """The events after the end of a run, and how often a firm run left its place meanwhile.

    ``anew`` counts the new walks for such places, ``gone_on`` the walks that continued instead.
    """

    events: tuple[Event, ...]
    anew: int
    gone_on: int


class WalkAnew(Walk):
    """A walk that ends when a firm run leaves its place and a run before it waits."""

    __slots__ = ()

    def _leave(self, pin: Entry) -> None:
        started = self.plan.started_runs[pin.run]
        took = (started.start_ms, started.slice, started.shares)
        has_left = took != (pin.start_ms, pin.slice, pin.shares)
        self.has_left_place |= has_left and (self.plan.is_waiting or bool(self.plan.fruitless_runs))


def ended(view: StateView, run: str, now_ms: int, kind: type[Walk]) -> Ended:
    """Return the result of completing ``run`` with walks of ``kind``."""
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
    """Return a walk with all firm places in the profile, none of which has to move any more."""
    while True:
        stop_overstayed(log)
        written = len(log.events)
        walk = kind(log)
        walk.firm.put_pins()
        if len(log.events) == written:
            return walk
