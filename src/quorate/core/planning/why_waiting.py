"""Computes why a run does not start now, given all planned starts, and records a new reason."""

from __future__ import annotations

from itertools import chain
from typing import Final

from quorate.core.admission.hard_quota import HARD, waiting
from quorate.core.lifecycle.follow import waits_for_upstream
from quorate.core.lifecycle.held_back import held_back
from quorate.core.planning.room_now import Lack
from quorate.core.planning.start_now import StartNow
from quorate.core.planning.walk_plan import WalkPlan
from quorate.core.profile.reservations import without_hold
from quorate.core.profile.reserved_refusal import names_before, reserved
from quorate.model.events import RunRefused
from quorate.model.refusal import Refusal, RefusalCode
from quorate.model.specs import Run
from quorate.model.state.records import RunRecord

_LACKS: Final = {
    RefusalCode.WAITING_FOR_QUOTA: Lack.QUOTA,
    RefusalCode.NO_ENVELOPE: Lack.FUNDS,
    RefusalCode.INSUFFICIENT_FUNDS: Lack.FUNDS,
    RefusalCode.BORROW_LIMIT: Lack.FUNDS,
    RefusalCode.FUNDS_ELSEWHERE: Lack.FUNDS,
    RefusalCode.NO_NODES: Lack.ROOM,
    RefusalCode.INSUFFICIENT_CAPACITY: Lack.ROOM,
    RefusalCode.NO_SINGLE_DOMAIN: Lack.ROOM,
    RefusalCode.RESERVED: Lack.NOTHING,
}
"""What a run lacks if its last refusal has this code. Other refusals are computed every time."""


class WhyWaiting:
    """Computes why runs wait, given the planned starts of one walk."""

    __slots__ = ("_plan", "_starts")

    def __init__(self, plan: WalkPlan, starts: StartNow) -> None:
        self._plan = plan
        self._starts = starts

    def refuse(self, record: RunRecord, beside: Refusal | None = None) -> None:
        """Write why a run waits, if the reason has changed.

        The reason is computed only if it may have changed. If the caller has just tried to start
        the run, and the start was refused, ``beside`` may be this refusal. Then admission is not
        tried again. A run with a reservation must have no ``beside``.
        """
        plan = self._plan
        if plan.reach is not None and plan.is_beyond(record.spec.pool):
            return
        if self._may_have_changed(record):
            self.tell(record, self._why(record, beside))

    def refuse_reserved(self, record: RunRecord) -> None:
        """Write a new refusal of a run whose last refusal says that its room is reserved."""
        known = record.refusal
        is_reserved = known is not None and known.code is RefusalCode.RESERVED
        if is_reserved and self._may_have_changed(record):
            self.tell(record, self._why(record))

    def refuse_again(self, record: RunRecord) -> bool:
        """Write why a run waits, as ``refuse`` does, if the reason does not depend on the plan.

        If the reason depends on the plan, return False and write nothing.
        """
        if not self._may_have_changed(record):
            return True
        view, own = self._plan.log.view, record.reservation or ""
        answer = self._starts.admit(record.spec, without_hold(view, own) if own else view)
        if isinstance(answer, Refusal):
            self.tell(record, answer)
            return True
        return False

    def _may_have_changed(self, record: RunRecord) -> bool:
        """Return whether a run may now lack something else than its last refusal says."""
        known, plan = record.refusal, self._plan
        if known is None:
            return True
        return plan.search.now.lacks(plan.log.view, record.spec) is not _LACKS.get(known.code)

    def tell(self, record: RunRecord, refusal: Refusal) -> None:
        """Write ``refusal`` if it says something else than the last refusal of the run."""
        if refusal.code in HARD:
            refusal = waiting(self._plan.log.view, record.spec, refusal)
        if is_news(record.refusal, refusal):
            log, name = self._plan.log, record.spec.name
            log.write(RunRefused(at_ms=log.now_ms, actor=log.actor, run=name, refusal=refusal))

    def why(self, record: RunRecord) -> Refusal:
        """Return why a waiting run does not start now, given all planned starts."""
        plan = self._plan
        waits = waits_for_upstream(plan.view, record.spec) or held_back(
            plan.view, record, plan.log.now_ms
        )
        if waits is not None:
            return waits
        planned = plan.pins.get(record.spec.name) or plan.entries.get(record.spec.name)
        if planned is not None:
            plan.profile.lift(planned)
        refusal = self._why(record)
        if planned is not None:
            plan.profile.put(planned)
        view, run = plan.log.view, record.spec
        return waiting(view, run, refusal) if refusal.code in HARD else refusal

    def _why(self, record: RunRecord, beside: Refusal | None = None) -> Refusal:
        """Return why a run does not start now: what it lacks, or what the plan reserves."""
        log, run = self._plan.log, record.spec
        own = record.reservation or ""
        if own not in log.view.reservations:
            own = ""
        view = without_hold(log.view, own) if own else log.view
        answer = self._starts.admit(run, view)
        if isinstance(answer, Refusal):
            return answer
        answer = beside or self._starts.admit(run, self._starts.room_in(view, run))
        if isinstance(answer, Refusal):
            return (
                answer if answer.code in HARD else reserved(run, answer, self._planned_before(run))
            )
        # The room that is left is enough now, but it came free after the walk visited the run.
        short = Refusal(code=RefusalCode.RESERVED, wanted=run.widths()[-1])
        return reserved(run, short, self._planned_before(run))

    def _planned_before(self, run: Run) -> list[str]:
        """Return names of a few starts that reserve what ``run`` could use, firm ones first."""
        plan = self._plan
        planned = chain(plan.pins.values(), plan.entries.values())
        return names_before(plan.log.view, run, plan.log.now_ms, planned)


def is_news(known: Refusal | None, refusal: Refusal) -> bool:
    """Return whether ``refusal`` differs from ``known`` in more than its numbers.

    Two refusals differ if their codes or their upstreams differ. Two refusals by a quota also
    differ if the quotas belong to different owners, or if only one of the refusals has shortages.
    """
    if known is None or known.code is not refusal.code:
        return True
    if refusal.code is RefusalCode.WAITING_FOR_UPSTREAM:
        return known.subject != refusal.subject
    if refusal.code is not RefusalCode.WAITING_FOR_QUOTA:
        return False
    return known.subject != refusal.subject or bool(known.shortages) != bool(refusal.shortages)
