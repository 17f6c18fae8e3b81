"""A fleet in which no run waits: an end leaves nothing to give out, a new run starts at once.

Most decisions of a fleet with room are of this kind. They need no walk, because there is no queue,
no plan and no spare that a start or an end could change. A decision without these shortcuts writes
the same events; a property test checks that.
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
"""Steps of the search for payers; a longer search is left to the walk."""


def is_idle(view: StateView) -> bool:
    """Return whether no run waits, is planned, may grow or shares in rounds, without any spare."""
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
    """Return whether ``log`` only ends whole runs, in an idle fleet.

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
    """Write the submission and start of a run that is alone in an idle fleet.

    Return whether it did. False leaves everything to a walk: the fleet is not idle, the run is of a
    kind that changes what others may do later, or it cannot start at once.
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
    """Return whether a start of ``run`` needs nothing but free GPUs and payers now."""
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
