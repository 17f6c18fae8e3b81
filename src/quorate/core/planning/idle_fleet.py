"""Handles the start of a new run, or the ends of runs, without a queue walk if the fleet is idle.

In a fleet with free GPUs, most decisions need no queue walk, because there is no queue, no plan and
no spare that a start or an end could change. A decision with a walk would write the same events, as
a property test checks.
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
"""The most steps of the search for payers. A longer search is left to a walk."""


def is_idle(view: StateView) -> bool:
    """Return whether ``view`` is idle: it has nothing that a start or an end could change.

    In an idle fleet no run waits, has a planned start, may grow, or gets GPUs in rounds. There are
    no spares, no open conflicts and no recalled loans.
    """
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
    """Return whether the fleet is idle and all events of ``log`` are ends of whole runs.

    In an idle fleet, ends of runs let no run start or grow, and move no planned start.
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
    """Write the submission and the start of a run if the fleet is idle.

    Return whether both were written. If not, the decision needs a walk: the fleet is not idle, the
    run is not plain (``_is_plain``), or the run cannot start at once.
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
    """Return whether a start of ``run`` depends only on free GPUs and payers."""
    return not (
        run.follow is not None
        or run.malleable is not None
        or run.spares_per_group
        or view.holdings.bounds_of(run.owner)
    )


def _lasts(view: StateView, run: Run, answer: Admitted) -> bool:
    """Return whether each hold of ``answer`` is longer than the run's grace.

    A shorter hold would be extended at once.
    """
    longest_ms = grace_ms(run, view.pools[run.pool])
    return all(leg.hold_ms > longest_ms for leg in answer.legs)
