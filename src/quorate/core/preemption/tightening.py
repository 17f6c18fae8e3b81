"""Brings use back within the limits of a budget after limits were lowered below the present use.

First, bundles are handed over to other payers, newest first. If use is still above a limit, a
conflict is declared, and decides which bundles end. The conflict is due as soon as enough runs
have run for their pool's minimum runtime.
"""

from __future__ import annotations

from collections.abc import Iterator

from quorate.core.decision_log import DecisionLog
from quorate.core.lifecycle.handover import hand_over
from quorate.core.preemption.conflict_scope import for_limit
from quorate.core.preemption.conflicts import declare_conflict
from quorate.core.preemption.money_limits import Limit, gpus_over, limits_of, survey_limit
from quorate.model.refusal import Refusal
from quorate.model.specs import Budget


def tighten(log: DecisionLog, budget: Budget) -> Iterator[Refusal]:
    """Bring use back within the limits of ``budget``; yield a refusal if a conflict is refused."""
    for limit in limits_of(budget):
        if gpus_over(log.view, limit):
            _hand_over(log, limit)
    for limit in limits_of(budget):
        if gpus_over(log.view, limit):
            answer = declare_conflict(log, for_limit(log.view, limit))
            if isinstance(answer, Refusal):
                yield answer


def _hand_over(log: DecisionLog, limit: Limit) -> None:
    """Hand bundles over to other payers, newest first, until use is within ``limit``."""
    survey = survey_limit(log.view, limit)
    over = gpus_over(log.view, limit)
    for run in survey.newest_first(survey.runs):
        if log.view.runs[run].stopping is not None:
            continue
        gpus: dict[int, int] = {}
        for lease in (survey.view.leases[name] for name in survey.runs[run]):
            gpus[lease.fact.bundle] = gpus.get(lease.fact.bundle, 0) + lease.gpus
        for bundle in sorted(gpus, reverse=True):
            # Use is computed again only when the handed-over GPUs may be enough.
            over = over if over > 0 else gpus_over(log.view, limit)
            if not over:
                return
            if hand_over(log, run, bundle, at_ms=log.now_ms):
                over -= gpus[bundle]
