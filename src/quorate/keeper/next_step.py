"""Computes a keeper's next step: a pure function of the wanted and the actual processes.

The processes of a run start together and stop together. If the wanted slots change, the processes
are warned, and restart when all of them have ended. So a script only needs to save its work and to
continue from the saved work.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from quorate.keeper.wanted import Exited, Slot, Wanted


@dataclass(frozen=True, slots=True, kw_only=True)
class Gang:
    """The processes of one start of the work; ``stop_by_ms`` is their deadline if warned to stop.

    Processes on ``lost`` slots have already been killed.
    """

    life: str
    slots: frozenset[Slot]
    stop_by_ms: int | None = None
    lost: frozenset[Slot] = frozenset()
    is_killed: bool = False


@dataclass(frozen=True, slots=True)
class Start:
    """Start a process for each rank."""


@dataclass(frozen=True, slots=True)
class Warn:
    """Warn the processes to stop by ``by_ms``, and kill the processes on ``lost`` slots.

    ``kind`` is ``resize`` if the run continues on other slots.
    """

    by_ms: int
    kind: str
    lost: frozenset[Slot]


@dataclass(frozen=True, slots=True)
class Drop:
    """Kill the processes on ``lost`` slots; the other processes may run until their deadline."""

    lost: frozenset[Slot]


@dataclass(frozen=True, slots=True)
class Kill:
    """Kill every process."""


@dataclass(frozen=True, slots=True)
class Rest:
    """Nothing is due until ``until_ms``, or until something changes."""

    until_ms: int | None = None


Step = Start | Warn | Drop | Kill | Rest


def next_step(wanted: Wanted, gang: Gang | None, exited: Exited | None, now_ms: int) -> Step:
    """Return the step that is due now; a step stays due until it is taken."""
    if gang is None:
        is_over = exited is not None and exited.life == wanted.life
        return Rest() if is_over or wanted.stands_still or not wanted.slots else Start()
    if gang.is_killed:
        return Rest()
    if gang.life != wanted.life or not wanted.parts:
        # For the ledger, the run's present processes have ended, although nobody has confirmed
        # their end. So none of them may remain.
        return Kill()
    lost = gang.slots - wanted.all_slots
    if gang.stop_by_ms is not None:
        by_ms = min([gang.stop_by_ms, *_deadlines(wanted)])
        waiting = Rest(by_ms) if lost <= gang.lost else Drop(lost)
        return Kill() if now_ms >= by_ms else waiting
    if gang.slots == frozenset(wanted.slots):
        return Rest()
    # The ledger sets the deadline of a stop. If there is no stop, the grace sets the deadline.
    return Warn(
        by_ms=min(_deadlines(wanted), default=now_ms + wanted.work.grace_ms),
        kind="resize" if wanted.slots and not wanted.stands_still else "stop",
        lost=lost,
    )


Dues = Mapping[tuple[str, int], int]
"""Deadlines of leases: (lease, deadline as a time of day) -> deadline on the keeper's clock."""


def on_own_clock(wanted: Wanted, known: Dues, ahead_ms: int) -> tuple[Wanted, Dues]:
    """Return ``wanted`` with deadlines on the keeper's clock, and a table of these deadlines.

    ``ahead_ms`` is the time of day minus the time on the keeper's clock. A deadline in ``known`` is
    not converted again, so it does not change when the time of day is set.
    """
    dues = {
        (part.lease, part.stop_by_ms): known.get(
            (part.lease, part.stop_by_ms), part.stop_by_ms - ahead_ms
        )
        for part in wanted.parts
        if part.stop_by_ms is not None
    }
    parts = tuple(
        part
        if part.stop_by_ms is None
        else replace(part, stop_by_ms=dues[part.lease, part.stop_by_ms])
        for part in wanted.parts
    )
    return replace(wanted, parts=parts), dues


def gone(wanted: Wanted, gang: Gang | None) -> tuple[str, ...]:
    """Return the stopping leases that no longer have a process."""
    busy = frozenset[Slot]() if gang is None else gang.slots
    return tuple(
        part.lease
        for part in wanted.parts
        if part.stop_by_ms is not None and busy.isdisjoint(part.slots)
    )


def _deadlines(wanted: Wanted) -> list[int]:
    return [part.stop_by_ms for part in wanted.parts if part.stop_by_ms is not None]
