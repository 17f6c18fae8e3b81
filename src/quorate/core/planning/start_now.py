"""Starts at this instant: a waiting run is admitted in room that the plan leaves, or on spares."""

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
"""Steps of the first, short search for each start: overlapping caps make finding payers hard."""


def can_carry(view: StateView, payers: Iterable[EnvelopeId], gpus: int) -> bool:
    """Return whether ``payers`` have ``gpus`` left, all together; else they pay for no start."""
    for payer in payers:
        gpus -= max(0, view.envelopes[payer].gpus_left)
        if gpus <= 0:
            return True
    return False


class StartNow:
    """Starts runs now in addition to the plan of one walk."""

    __slots__ = ("_long_search", "_plan", "has_new_spares")

    def __init__(self, plan: WalkPlan) -> None:
        self._plan = plan
        self._long_search = SearchBudget()
        """The search steps that all starts of this walk share if a short search is not enough."""
        self.has_new_spares = False
        """Whether a run with spares has started, which runs before it in the queue could fill."""

    def begin_again(self) -> None:
        """Allow as many search steps as when the walk began."""
        self._long_search = SearchBudget()

    def start_firm(self, record: RunRecord, promise: ReservationRecord, pin: Entry) -> bool:
        """Start a firm run, whose place is not in the profile, if it can now.

        Return whether it did.
        """
        is_due = pin.start_ms <= self._plan.log.now_ms
        until_ms = pin.end_ms if is_due else self.until_ms(record.spec)
        # For a due run other firm places keep only what they need, else all that they take.
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
        """Start a run as ``admitted``; its reservation is closed."""
        plan = self._plan
        log, run = plan.log, record.spec
        if record.reservation is not None:
            close_firm(log, record.reservation, ReservationOutcome.ACTIVATED)
        leases_ever, backfill = record.leases_ever, plan.is_out_of_order
        write_start(log, run, admitted, leases_ever=leases_ever, backfill=backfill)
        plan.note_started(run, admitted)
        self.has_new_spares |= run.spares_per_group > 0

    def fill(self, record: RunRecord, room: StateView, answer: Refusal | None) -> bool:
        """Start a run on spares, if there are any and no quota forbids; return whether it did."""
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
        return True

    def room(self, record: RunRecord, reservation: str = "") -> StateView:
        """Return a view with the room that the plan leaves a run now.

        The hold of ``reservation`` counts as free.
        """
        view = self._plan.log.view
        return self.room_in(without_hold(view, reservation) if reservation else view, record.spec)

    def room_in(self, view: StateView, run: Run) -> StateView:
        """Return ``view``, in which a hold may count as free, with what the plan leaves ``run``."""
        plan = self._plan
        payers, until_ms = plan.search.asks.payers_of(run), self.until_ms(run)
        return room_beside(view, plan.profile, run, plan.log.now_ms, until_ms, payers=payers)

    def may_start(self, run: Run, until_ms: int) -> bool:
        """Return whether admission may find room for a start now: on spares, or on free GPUs."""
        view = self._plan.log.view
        return bool(view.spares) or self._plan.search.now.may_have_room(view, run, until_ms)

    def may_be_paid(self, run: Run) -> bool:
        """Return whether its payers have as many GPUs left as ``run`` needs, all together."""
        payers = self._plan.search.asks.payers_of(run)
        return can_carry(self._plan.log.view, payers, run.widths()[-1])

    def until_ms(self, run: Run) -> int:
        """Return until when a run that starts now is paid for."""
        return self._plan.log.now_ms + hold_duration_ms(run, self._plan.view.pools[run.pool])

    def admit(self, run: Run, room: StateView) -> Admitted | Refusal:
        """Return how ``run`` starts in ``room`` now, or why it cannot."""
        now_ms, has_executor = self._plan.log.now_ms, self._plan.log.has_executor
        short = SearchBudget(SHORT_SEARCH_STEPS)
        answer = admit(room, run, now_ms, has_executor=has_executor, steps=short)
        if short.exhausted and isinstance(answer, Refusal) and not self._long_search.exhausted:
            steps = self._long_search
            answer = admit(room, run, now_ms, has_executor=has_executor, steps=steps)
        return answer

    def _try_admit(self, run: Run, room: StateView) -> Admitted | Refusal | None:
        """Return how ``run`` starts in ``room`` now, or a refusal: a quota, or the search limit.

        None if room or money is short.
        """
        now_ms, has_executor = self._plan.log.now_ms, self._plan.log.has_executor
        short = SearchBudget(SHORT_SEARCH_STEPS)
        answer = try_admit(room, run, now_ms, has_executor=has_executor, steps=short)
        if short.exhausted and not isinstance(answer, Admitted) and not self._long_search.exhausted:
            steps = self._long_search
            answer = try_admit(room, run, now_ms, has_executor=has_executor, steps=steps)
        return answer

    def _admit_as_promised(self, run: Run, room: StateView, pin: Entry) -> Admitted | Refusal:
        """Return how ``run`` starts in ``room`` now.

        If the search is too long, its promised payers and width are tried instead of all others.
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
        """Return how a run that is due starts in its own place, or why it cannot.

        It needs the place only until its declared end: other runs are planned from then on.
        """
        plan = self._plan
        view, run = without_hold(plan.log.view, promise.made.reservation), record.spec
        now_ms, until_ms = plan.log.now_ms, pin.end_ms
        room = room_beside(view, plan.profile, run, now_ms, until_ms, whole_last=True)
        if not pin.is_choosy:
            return self._admit_as_promised(run, only_slice(room, run.pool, pin.slice), pin)
        # It needs certain GPUs of its domains; other runs planned there may need the same.
        domains = [domain for domain, _ in pin.slice.domains]
        there = only_domains(room, run.pool, pin.slice.flavor, domains)
        answer = self._admit_as_promised(run, there, pin)
        if isinstance(answer, Refusal):
            room = room_beside(view, plan.profile, run, now_ms, until_ms)
            there = only_domains(room, run.pool, pin.slice.flavor, domains)
            answer = self._admit_as_promised(run, there, pin)
        return answer
