"""Starts waiting runs at this instant, in the room that the plan leaves or on spares."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import nullcontext
from typing import Final

from quorate.core.admission.admit import Admitted, admit, try_admit
from quorate.core.admission.hard_quota import HARD
from quorate.core.admission.holds import hold_duration_ms
from quorate.core.admission.search_budget import SearchBudget
from quorate.core.lifecycle.fill import admit_on_spares, kept_from_fill, write_fill
from quorate.core.lifecycle.starts import write_start
from quorate.core.planning.walk_plan import WalkPlan
from quorate.core.profile.firm_places import payers_of
from quorate.core.profile.plan_entry import Entry
from quorate.core.profile.reservations import close_firm, without_hold
from quorate.core.profile.room_left import only_domains, only_slice, room_beside
from quorate.model.events import ReservationOutcome
from quorate.model.refusal import Refusal, RefusalCode
from quorate.model.specs import EnvelopeId, Run
from quorate.model.state.records import ReservationRecord, RunRecord
from quorate.model.state.state_view import StateView

SHORT_SEARCH_STEPS: Final = 300
"""The most steps of the first search for a start. A search may be long if caps overlap."""


def can_carry(view: StateView, payers: Iterable[EnvelopeId], gpus: int) -> bool:
    """Return whether ``payers`` together have concurrency left for ``gpus`` GPUs.

    If not, the payers cannot pay for a start on so many GPUs.
    """
    for payer in payers:
        gpus -= max(0, view.envelopes[payer].gpus_left)
        if gpus <= 0:
            return True
    return False


class StartNow:
    """Starts runs now, without delaying the planned starts of one walk."""

    __slots__ = ("_long_search", "_plan", "has_filled", "has_new_spares")

    def __init__(self, plan: WalkPlan) -> None:
        self._plan = plan
        self._long_search = SearchBudget()
        """Search steps for starts that need more than a short search; all starts share them."""
        self.has_new_spares = False
        """Whether a run has started whose spares earlier runs in the queue could fill."""
        self.has_filled = False
        """Whether a run has started on spares.

        The profile then counts the run's GPUs twice: as GPUs of the spares, and as GPUs of the run.
        """

    def begin_again(self) -> None:
        """Reset the shared search steps to those of a new walk."""
        self._long_search = SearchBudget()

    def start_firm(self, record: RunRecord, promise: ReservationRecord, pin: Entry) -> bool:
        """Start a run with a firm start if it can start now; return whether it started.

        The entry ``pin`` of the run itself must not be in the profile.
        """
        is_due = pin.start_ms <= self._plan.log.now_ms
        until_ms = pin.end_ms if is_due else self.until_ms(record.spec)
        # When a run is due, the other firm starts keep only the GPUs that they need, even those
        # marked ``is_choosy``.
        with self._plan.profile.opened() if is_due else nullcontext():
            if not self.may_start(record.spec, until_ms):
                return False
            answer = self._admit_due(record, promise, pin) if is_due else None
        room = self.room(record, promise.made.reservation)
        if not isinstance(answer, Admitted):
            answer = self._try_admit(record.spec, room)
        if isinstance(answer, Admitted):
            self.start(record, answer)
            return True
        return self.fill(record, room, answer)

    def start(self, record: RunRecord, admitted: Admitted) -> None:
        """Start a run as ``admitted``, and close its reservation."""
        plan = self._plan
        log, run = plan.log, record.spec
        if record.reservation is not None:
            close_firm(log, record.reservation, ReservationOutcome.ACTIVATED)
        leases_ever, backfill = record.leases_ever, plan.is_out_of_order
        write_start(log, run, admitted, leases_ever=leases_ever, backfill=backfill)
        plan.note_started(run, admitted)
        self.has_new_spares |= run.spares_per_group > 0

    def fill(self, record: RunRecord, room: StateView, answer: Refusal | None) -> bool:
        """Start a run on spares of other runs, if they have room; return whether it started.

        ``answer`` is the refusal of the run in ``room``. If the refusal is for a hard quota, spares
        do not help.
        """
        plan = self._plan
        log, run = plan.log, record.spec
        if not log.view.spares or (answer is not None and answer.code in HARD):
            return False
        kept = kept_from_fill(log.view, run, log.now_ms, exempt=record.reservation or "")
        filled = admit_on_spares(room, run, log.now_ms, has_executor=log.has_executor, kept=kept)
        if filled is None:
            return False
        if record.reservation is not None:
            close_firm(log, record.reservation, ReservationOutcome.ACTIVATED)
        backfill = plan.is_out_of_order
        write_fill(log, run, filled, leases_ever=record.leases_ever, backfill=backfill)
        plan.note_started(run, filled.admitted)
        self.has_filled = True
        return True

    def room(self, record: RunRecord, reservation: str = "") -> StateView:
        """Return a view with the room that the plan leaves for a run now.

        ``reservation`` is the run's own reservation. What this reservation holds is treated as
        free.
        """
        view = self._plan.log.view
        return self.room_in(without_hold(view, reservation) if reservation else view, record.spec)

    def room_in(self, view: StateView, run: Run) -> StateView:
        """Return ``view`` with only the room that the plan leaves for ``run`` now."""
        plan = self._plan
        payers, until_ms = plan.search.asks.payers_of(run), self.until_ms(run)
        return room_beside(view, plan.profile, run, plan.log.now_ms, until_ms, payers=payers)

    def may_start(self, run: Run, until_ms: int) -> bool:
        """Return whether admission may find room for ``run`` now, on spares or free GPUs."""
        view = self._plan.log.view
        return bool(view.spares) or self._plan.search.now.may_have_room(view, run, until_ms)

    def may_be_paid(self, run: Run) -> bool:
        """Return whether the payers of ``run`` together have concurrency left for it."""
        payers = self._plan.search.asks.payers_of(run)
        return can_carry(self._plan.log.view, payers, run.widths()[-1])

    def until_ms(self, run: Run) -> int:
        """Return the end of the first hold of a run that starts now."""
        return self._plan.log.now_ms + hold_duration_ms(run, self._plan.view.pools[run.pool])

    def admit(self, run: Run, room: StateView) -> Admitted | Refusal:
        """Return how ``run`` starts in ``room`` now, or its refusal."""
        now_ms, has_executor = self._plan.log.now_ms, self._plan.log.has_executor
        short = SearchBudget(SHORT_SEARCH_STEPS)
        answer = admit(room, run, now_ms, has_executor=has_executor, steps=short)
        if short.exhausted and isinstance(answer, Refusal) and not self._long_search.exhausted:
            steps = self._long_search
            answer = admit(room, run, now_ms, has_executor=has_executor, steps=steps)
        return answer

    def _try_admit(self, run: Run, room: StateView) -> Admitted | Refusal | None:
        """Return how ``run`` starts in ``room`` now; None if room or money is short.

        A refusal is returned only for a hard quota or the search limit.
        """
        now_ms, has_executor = self._plan.log.now_ms, self._plan.log.has_executor
        short = SearchBudget(SHORT_SEARCH_STEPS)
        answer = try_admit(room, run, now_ms, has_executor=has_executor, steps=short)
        if short.exhausted and not isinstance(answer, Admitted) and not self._long_search.exhausted:
            steps = self._long_search
            answer = try_admit(room, run, now_ms, has_executor=has_executor, steps=steps)
        return answer

    def _admit_as_promised(self, run: Run, room: StateView, pin: Entry) -> Admitted | Refusal:
        """Return how ``run`` starts in ``room`` now, or its refusal.

        If the search takes too many steps, only the recorded payers and width are tried.
        """
        plan = self._plan
        answer = self.admit(run, room)
        if isinstance(answer, Admitted) or answer.code is not RefusalCode.SEARCH_LIMIT:
            return answer
        widths = run.widths()
        return admit(
            room,
            run,
            plan.log.now_ms,
            has_executor=plan.log.has_executor,
            steps=SearchBudget(),
            width=pin.slice.gpus if pin.slice.gpus in widths else widths[-1],
            barred=frozenset(payers_of(plan.view, run, pin.slice.flavor)).difference(
                share.payer for share in pin.shares
            ),
        )

    def _admit_due(
        self, record: RunRecord, promise: ReservationRecord, pin: Entry
    ) -> Admitted | Refusal:
        """Return how a run whose firm start is due starts as recorded, or its refusal.

        The recorded GPUs have to be free for the run only until its declared end, because other
        runs may be planned on these GPUs from then on.
        """
        plan = self._plan
        view, run = without_hold(plan.log.view, promise.made.reservation), record.spec
        now_ms, until_ms = plan.log.now_ms, pin.end_ms
        room = room_beside(view, plan.profile, run, now_ms, until_ms, whole_last=True)
        if not pin.is_choosy:
            return self._admit_as_promised(run, only_slice(room, run.pool, pin.slice), pin)
        # The run needs specific GPUs of its domains, which other planned runs may need too.
        domains = [domain for domain, _ in pin.slice.domains]
        there = only_domains(room, run.pool, pin.slice.flavor, domains)
        answer = self._admit_as_promised(run, there, pin)
        if isinstance(answer, Refusal):
            room = room_beside(view, plan.profile, run, now_ms, until_ms)
            there = only_domains(room, run.pool, pin.slice.flavor, domains)
            answer = self._admit_as_promised(run, there, pin)
        return answer
