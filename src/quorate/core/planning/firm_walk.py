"""The first part of a walk: puts firm starts into the profile, and moves those that do not fit.

Late starts are inserted first. Starts by a conflict that is not settled are inserted last.
Otherwise the starts are inserted in the order in which they became firm. Starts that no longer fit
are planned again around the other firm starts, and the cause is recorded.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType

from msgspec.structs import replace

from quorate.core.planning.conflict_starts import call_conflict, cleared_ms, look_ms
from quorate.core.planning.firm_or_tentative import first_promisable
from quorate.core.planning.late_cuts import late_cuts
from quorate.core.planning.move_causes import cause_of, withdrawn
from quorate.core.planning.overstay import can_stay
from quorate.core.planning.walk_plan import WalkPlan
from quorate.core.profile.firm_places import (
    firm_entry,
    in_order,
    pin_of,
    recorded_end_ms,
    stands,
    stands_again,
)
from quorate.core.profile.overstayers import Overstayer, overstayers
from quorate.core.profile.plan_entry import Entry
from quorate.core.profile.reservations import is_cleared, move_firm
from quorate.model.events import MoveCause, MoveCode, PoolApplied, ReservationStatus
from quorate.model.state.records import ReservationRecord


class FirmWalk:
    """Puts firm starts into the plan of one walk."""

    __slots__ = (
        "_known",
        "_late",
        "_moved_behind",
        "_stuck",
        "all_stand",
        "are_apart",
        "plan",
        "stood",
    )

    def __init__(self, plan: WalkPlan) -> None:
        self.plan = plan
        self._late: list[Overstayer] | None = None
        self._known: Mapping[str, Entry] = {}
        self._stuck: Collection[str] = ()
        self.all_stand = True
        """Whether all firm starts have what they need even if no running work is stopped."""
        self.stood: dict[str, Entry] = {}
        """The firm starts, by run, that had all they need when they were put into the profile."""
        self._moved_behind: list[Entry] = []
        """The starts that this walk has moved because the leases cut for them end late."""
        self.are_apart = True
        """Whether all firm starts fit together even if no running work is stopped.

        If so, the starts in ``stood`` still fit when moved starts are inserted between them.
        """

    def put_pins(
        self, known: Mapping[str, Entry] = MappingProxyType({}), stuck: Collection[str] = ()
    ) -> None:
        """Put all firm starts into the profile; move those that no longer fit, and record why.

        ``known`` are starts whose needs are certainly met. ``stuck`` are late runs whose starts
        this decision will move anyway. The profile counts their starts only until their recorded
        ends, so that no start behind them moves.
        """
        self._known, self._stuck = known, stuck
        aside: list[tuple[ReservationRecord, Entry]] = []
        now_ms = self.plan.log.now_ms
        view, has_executor = self.plan.view, self.plan.log.has_executor
        # Late starts come first: they also end later, so the starts right behind them have to move.
        # A start is late, too, if leases that were cut for it end late.
        records = [record for _, record in in_order(view)]
        records.sort(key=lambda each: (each.planned_start_ms or now_ms) >= now_ms)
        cuts = late_cuts(view, records, now_ms, has_executor=has_executor)
        records.sort(
            key=lambda each: (
                (each.planned_start_ms or now_ms) >= now_ms
                and each.made.reservation not in cuts.first
            )
        )
        clearing: list[tuple[ReservationRecord, Entry]] = []
        unsettled: list[ReservationRecord] = []
        for record in records:
            gone_ms = cuts.gone_ms.get(record.made.reservation)
            if self._put_settled(record, gone_ms, clearing):
                continue
            if record.by_conflict:
                unsettled.append(record)
            else:
                self._put_record(record, aside)
        causes = self._causes([pin for _, pin in aside])
        causes += [
            withdrawn(self.plan.profile, pin, self.plan.log.events) or self._clearing(record)
            for record, pin in clearing
        ]
        aside += clearing
        # Any other start by a conflict takes only room that the other firm starts leave, and moves
        # none of them.
        for record in unsettled:
            self._put_by_conflict(record, aside, causes)
        self.plan.profile.shut()
        for (record, pin), cause in zip(aside, causes, strict=True):
            self._move(record, pin, cause)

    def _put_settled(
        self,
        record: ReservationRecord,
        gone_ms: int | None,
        clearing: list[tuple[ReservationRecord, Entry]],
    ) -> bool:
        """Put a start for which a conflict has cut leases into the profile.

        If ``gone_ms`` is given, the start has to wait for these leases until then, and moves to
        ``gone_ms``. If the start does not fit at ``gone_ms``, it is added to ``clearing``.

        Return False, and do nothing, in two cases: no conflict has cut leases for the start, or the
        start does not have to wait and still does not fit.
        """
        plan = self.plan
        if gone_ms is None and not is_cleared(plan.view, record):
            return False
        pin = pin_of(plan.view, record, plan.log.now_ms)
        if pin is None:
            return False
        self.are_apart = False
        later = pin if gone_ms is None else firm_entry(plan.view, record, gone_ms)
        if not stands(plan.profile, later):
            if gone_ms is not None:
                clearing.append((record, pin))
            return gone_ms is not None
        if gone_ms is not None:
            move_firm(
                plan.log,
                record,
                later,
                ReservationStatus.CLEARING,
                self._clearing(record),
                natural_ms=record.natural_start_ms,
                by_conflict=True,
            )
            self._moved_behind.append(later)
        plan.put_pin(later)
        return True

    @staticmethod
    def _clearing(record: ReservationRecord) -> MoveCause:
        return MoveCause(MoveCode.CONFLICT_CLEARING, (("conflict", record.conflict),))

    def _put_by_conflict(
        self,
        record: ReservationRecord,
        aside: list[tuple[ReservationRecord, Entry]],
        causes: list[MoveCause],
    ) -> None:
        """Put a start by a conflict into the profile, or set it aside with the cause.

        The start is set aside if no conflict can make it possible (``withdrawn``). For example, its
        payers may no longer pay for it, or its domains no longer have enough GPUs.
        """
        plan = self.plan
        pin = pin_of(plan.view, record, plan.log.now_ms)
        if pin is None:
            return
        if not pin.by_conflict:
            # The conflict has made room, but the start no longer fits.
            pin = firm_entry(plan.view, record, pin.start_ms, by_conflict=True)
        self.are_apart = False
        cause = withdrawn(plan.profile, pin, plan.log.events)
        if cause is None:
            plan.put_pin(pin)
        else:
            aside.append((record, pin))
            causes.append(cause)

    def _put_record(
        self, record: ReservationRecord, aside: list[tuple[ReservationRecord, Entry]]
    ) -> None:
        """Put one firm start into the profile. If it no longer fits, add it to ``aside``."""
        plan = self.plan
        now_ms = plan.log.now_ms
        pin = pin_of(plan.view, record, now_ms)
        if pin is None:
            return
        if pin.run in self._stuck:
            pin = replace(pin, end_ms=recorded_end_ms(record, pin))
        is_known = self._known.get(pin.run) is pin
        is_standing = stands_again(plan.profile, pin, is_known=is_known)
        plan.put_pin(pin)
        if is_standing:
            self.stood[pin.run] = pin
            return
        self.all_stand = False
        late, has_executor = self.overstayers(), plan.log.has_executor
        if can_stay(plan.profile, record, pin, late, has_executor=has_executor):
            self.are_apart = False
        else:
            plan.lift_pin(pin)
            aside.append((record, pin))

    def _causes(self, pins: Sequence[Entry]) -> list[MoveCause]:
        """Return why each of the firm starts ``pins`` no longer fits.

        None of these starts is in the profile.
        """
        plan = self.plan
        if not pins:
            return []
        now_ms = plan.log.now_ms
        overdue = [
            plan.pins[record.made.run]
            for record in plan.view.reservations.values()
            if (record.planned_start_ms or now_ms) < now_ms and record.made.run in plan.pins
        ]
        overdue += [each for each in self._moved_behind if each not in overdue]
        causes = [cause_of(plan.profile, pin, overdue, plan.log.events) for pin in pins]
        pools = [("pool", e.pool.name) for e in plan.log.events if isinstance(e, PoolApplied)]
        if not pools:
            return causes
        # When the selector of a pool changes, it may take nodes from another pool.
        moved = MoveCause(MoveCode.POOL_CHANGED, tuple(pools))
        return [moved if cause.code is MoveCode.NODES_CHANGED else cause for cause in causes]

    def overstayers(self) -> list[Overstayer]:
        """Return the backfill that runs past its declared end; the list is computed once."""
        if self._late is None:
            self._late = overstayers(self.plan.view, self.plan.log.now_ms)
        return self._late

    def _move(self, record: ReservationRecord, pin: Entry, cause: MoveCause) -> None:
        """Move a reservation that no longer fits to its next start beside other firm starts."""
        self.plan.hold_hours(pin, -1)
        self.move_to(record, pin.start_ms, cause)

    def move_to(self, record: ReservationRecord, from_ms: int | None, cause: MoveCause) -> None:
        """Move a reservation to its first start from ``from_ms`` on.

        The old entry of the reservation must not be in the profile. If there is no such start, or
        ``from_ms`` is None, the reservation is blocked.
        """
        plan = self.plan
        run = plan.view.runs[record.made.run].spec
        entry = None if from_ms is None else first_promisable(plan, run, from_ms)
        status = ReservationStatus.BLOCKED if entry is None else ReservationStatus.DEFERRED
        move_firm(plan.log, record, entry, status, cause)
        if entry is not None:
            plan.put_pin(entry)

    def call_due_conflicts(self) -> bool:
        """Call the conflicts that are due; return whether a start was moved instead.

        If a conflict cannot be called, the start that needs the conflict is moved. After such a
        move no more conflicts are called, because the move may leave room for other starts.
        """
        plan = self.plan
        for name, _ in in_order(plan.view):
            record = plan.log.view.reservations.get(name)
            if record is None or not record.by_conflict:
                continue
            look = look_ms(plan.log.view, record, has_executor=plan.log.has_executor)
            if look is None or look > plan.log.now_ms:
                continue
            if cleared_ms(plan.log.view, record, plan.log.now_ms) is not None:
                continue
            cause = call_conflict(plan.log, record)
            if cause is not None:
                pin = plan.pins[record.made.run]
                plan.lift_pin(pin)
                for entry in plan.entries.values():
                    plan.profile.lift(entry)  # The moved start has to avoid firm starts only.
                plan.entries.clear()
                self._move(record, pin, cause)
                return True
        return False
