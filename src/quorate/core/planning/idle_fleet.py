"""A fleet in which nothing waits: what ends leaves nothing to give out, what comes starts at once.

Most decisions of a fleet with room are of this kind. They need no walk, because there is no queue,
no plan and no spare that a start or an end could change. A decision without these shortcuts writes
the same events; a property holds them to that.
"""

from __future__ import annotations

from typing import Final

from quorate.core.admission.admit import Admitted, admit
from quorate.core.admission.search_budget import SearchBudget
from quorate.core.decision_log import DecisionLog
from quorate.core.lifecycle.starts import write_start
from quorate.model.events import LeaseEnded, RunEnded, RunSubmitted
from quorate.model.specs import Run
from quorate.model.state.durations import grace_ms
from quorate.model.state.state_view import StateView

STEPS_MAX: Final = 100
"""Steps of the search for payers; one that takes longer is left to the walk."""


def is_idle(view: StateView) -> bool:
    """Return whether nothing waits, is planned or announced, may grow, or is a spare."""
    return not (
        view.pending
        or view.reservations
        or view.announced
        or view.open_conflicts
        or view.recalls
        or view.spares
        or view.pledges
        or view.growable
        or view.in_rounds
    )


def only_ends(log: DecisionLog) -> bool:
    """Return whether all that ``log`` writes is that whole runs end, in an idle fleet.

    Then no run can start, grow or take a spare, and no planned start can move.
    """
    view = log.before
    if not is_idle(view):
        return False
    over = {event.run for event in log.events if isinstance(event, RunEnded)}
    return all(
        isinstance(event, RunEnded)
        or (isinstance(event, LeaseEnded) and view.leases[event.lease].fact.run in over)
        for event in log.events
    )


def start_alone(log: DecisionLog, submitted: RunSubmitted) -> bool:
    """Write that a run comes and starts, if it is alone in an idle fleet; return whether it did.

    False leaves everything to a walk: the fleet is not idle, the run is of a kind that changes what
    others may do later, or it cannot start at once.
    """
    run, view = submitted.run, log.view
    if not is_idle(view) or not _is_plain(view, run):
        return False
    steps = SearchBudget(STEPS_MAX)
    answer = admit(view, run, log.now_ms, has_executor=log.has_executor, steps=steps)
    if steps.exhausted or not isinstance(answer, Admitted) or not _lasts(view, run, answer):
        return False
    log.write(submitted)
    write_start(log, run, answer, leases_ever=0)
    return True


def _is_plain(view: StateView, run: Run) -> bool:
    """Return whether counting what is free and paid now is all that a start of ``run`` needs."""
    return not (
        run.follow is not None
        or run.malleable is not None
        or run.spares_per_group
        or view.holdings.bounds_of(run.owner)
    )


def _lasts(view: StateView, run: Run, answer: Admitted) -> bool:
    """Return whether the payers of ``answer`` pay for longer than a grace.

    A hold as short as its grace would be renewed at once.
    """
    longest_ms = grace_ms(run, view.pools[run.pool])
    return all(leg.hold_ms > longest_ms for leg in answer.legs)
