"""Giving out: after every command, what can start starts, and the rest is planned.

Overstayers, and loans whose recall is due, are told first, then the walk starts and plans, then
conflicts that are due are called, running work grows into what is left, and rounds place what they
granted.
"""

from __future__ import annotations

from typing import Final

from quorate.core.disruption_account import deferrals_due_ms
from quorate.core.elastic import grow_running
from quorate.core.failure import settle_spares
from quorate.core.held_back import release_due_ms
from quorate.core.planning.conflict_starts import look_ms
from quorate.core.planning.overstay import stop_instants_ms, stop_overstayed
from quorate.core.planning.pins import replan_due_ms
from quorate.core.planning.recall import recall_instants_ms, stop_recalled
from quorate.core.planning.walk import Walk
from quorate.core.round_place import place_granted
from quorate.core.scribe import Scribe
from quorate.core.settle import settle_holds
from quorate.model.events import HoldExtended, StepsCounted, TokenIssued, TokenRevoked

PASSES_MAX: Final = 4
"""How often firm places are looked at again in one decision because some have moved."""
_STARTS_NOTHING: Final = (HoldExtended, TokenIssued, TokenRevoked, StepsCounted)
"""Events after which nothing can start that could not before."""


def give_out(scribe: Scribe) -> None:
    """Start what waits and grow what runs; plan what still waits."""
    if not stirs(scribe) and not _is_due(scribe):
        return
    walk = _standing(scribe)
    if scribe.somebody_waits:
        walk.run()
        # Work whose grace is as long as the notice of its recall is told to stop at once.
        stop_recalled(scribe, _firm_places_stand)
        walk.call_due_conflicts()
        # A firm start that was moved may hold less now, which is left to those slow to stop.
        settle_holds(scribe)
    grow_running(scribe, walk.profile, backfill=walk.is_out_of_order)
    place_granted(scribe)


def _standing(scribe: Scribe) -> Walk:
    """Return a walk with all firm places put in, nothing overstaying in front of them.

    A place that was moved may have others in front of it, which is found out by looking again.
    """
    for left in reversed(range(PASSES_MAX)):
        has_stopped = stop_overstayed(scribe)
        if stop_recalled(scribe, _firm_places_stand) or has_stopped:
            settle_spares(scribe)
        written = len(scribe.events)
        walk = Walk(scribe)
        walk.put_pins()
        if len(scribe.events) == written or not left:
            return walk
    raise AssertionError(PASSES_MAX)


def _firm_places_stand(scribe: Scribe) -> bool:
    """Return whether every firm place stands in the view of ``scribe``, which is a trial."""
    written = len(scribe.events)
    Walk(scribe).put_pins()
    return len(scribe.events) == written


def stirs(scribe: Scribe) -> bool:
    """Return whether anything happened that may let a run start: a longer hold never does."""
    if any(not isinstance(event, _STARTS_NOTHING) for event in scribe.events):
        return True
    view = scribe.view
    let_go_ms = release_due_ms(view, scribe.began_ms)
    let_go = let_go_ms is not None and let_go_ms <= scribe.now_ms
    is_covered = any(e <= scribe.now_ms for e in deferrals_due_ms(view, scribe.began_ms))
    return let_go or is_covered or view.window_opened(scribe.began_ms, scribe.now_ms)


def _is_due(scribe: Scribe) -> bool:
    """Return whether a firm start, or a stop for one, is due, or firm places may have to move."""
    view, now_ms, has_executor = scribe.view, scribe.now_ms, scribe.has_executor
    if any(at_ms <= now_ms for at_ms in recall_instants_ms(view, has_executor=has_executor)):
        return True
    if not view.reservations:
        return _was_passed(scribe)
    if scribe.events:
        return True  # A lease that needs a longer hold has overrun, perhaps into a firm place.
    for record in view.reservations.values():
        at_ms = look_ms(view, record, has_executor=has_executor)
        if at_ms is not None and at_ms <= now_ms:
            return True
    stops = stop_instants_ms(view, has_executor=has_executor)
    return any(scribe.began_ms < at_ms <= now_ms for at_ms in stops) or _was_passed(scribe)


def _was_passed(scribe: Scribe) -> bool:
    """Return whether the queue was to be planned again since the last event."""
    at_ms = replan_due_ms(scribe.view, scribe.began_ms)
    return at_ms is not None and at_ms <= scribe.now_ms
