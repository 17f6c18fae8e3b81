"""When the next ``Tick`` command is needed, if no other command comes before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from heapq import heappop, heappush
from types import MappingProxyType
from typing import Final

from quorate.core.lifecycle.follow import follow_due_ms
from quorate.core.lifecycle.held_back import release_due_ms
from quorate.core.lifecycle.spares import pledges_due_ms
from quorate.core.planning.conflict_starts import look_ms
from quorate.core.planning.overstay import stop_instants_ms
from quorate.core.planning.recall import recall_instants_ms
from quorate.core.preemption.disruption_account import deferrals_due_ms
from quorate.core.profile.firm_places import outlasted_ms, replan_due_ms
from quorate.core.rounds.begin_round import rounds_due
from quorate.core.tenancy.thresholds import threshold_due_ms
from quorate.model.state.records import Lease
from quorate.model.state.state_view import StateView

_LOOKED_MIN: Final = 32
_LOOKED_PART: Final = 16
"""When a search has read one in 16 leases of the heap of holds, it scans all leases instead.

It never does so before it has read ``_LOOKED_MIN`` leases of the heap.
"""


def next_due_ms(
    view: StateView,
    *,
    has_executor: bool,
    after_ms: int | None = None,
    round_waits: Mapping[str, int] = MappingProxyType({}),
) -> int | None:
    """Return the first instant at which a ``Tick`` has something to do; None if there is none.

    At this instant a hold must be renewed, a round begins, or the plan needs a ``Tick``
    (``_plan_due_ms``). With an executor, a hold is renewed one grace period before it runs out; so
    if no payer is found, the lease has time to end. A lease that is stopping needs no ``Tick``: its
    hold is examined in every decision, including the decision that confirms its end.

    Usually the search reads only the top of the heap of holds, however many leases there are.
    ``after_ms`` is the instant of the last tick, and everything that this tick has handled is left
    out. If a start waits for an event that is expected at exactly ``after_ms``, the start is due
    right after ``after_ms``. ``round_waits`` gives, for some pools, the earliest instant at which
    the next round is due.
    """
    first_ms = _plan_due_ms(view, has_executor=has_executor, after_ms=after_ms)
    least_ms = 0 if after_ms is None else after_ms + 1
    for ends_ms, pool in rounds_due(view) if view.in_rounds else ():
        due_ms = max(ends_ms, least_ms, round_waits.get(pool, 0))
        first_ms = due_ms if first_ms is None else min(first_ms, due_ms)
    heap = view.holds_due() if has_executor else view.holds_ending()
    places = [(*heap[0], 0)] if heap else []
    looked = 0
    while places:
        due_ms, name, place = heappop(places)
        if first_ms is not None and due_ms >= first_ms:
            break
        if _makes_due(view, name, due_ms, has_executor=has_executor):
            return due_ms
        looked += 1
        if looked > _LOOKED_MIN and looked * _LOOKED_PART > len(heap):
            # For example at the end of a round, so many leases stop at once that a scan of all
            # leases is quicker.
            return _least_due(view, heap, first_ms, has_executor=has_executor)
        for below in (2 * place + 1, 2 * place + 2):
            if below < len(heap):
                heappush(places, (*heap[below], below))
    return first_ms


def _makes_due(view: StateView, name: str, due_ms: int, *, has_executor: bool) -> bool:
    """Return whether a lease still has to be renewed at ``due_ms``.

    The result is False if the lease has ended, is stopping, or was renewed in the meantime.
    """
    lease = view.leases.get(name)
    return lease is not None and lease.ending is None and _due_of(lease, has_executor) == due_ms


def _least_due(
    view: StateView, heap: Sequence[tuple[int, str]], found: int | None, *, has_executor: bool
) -> int | None:
    """Return the first instant at which a lease of ``heap`` must be renewed, or ``found``.

    ``found`` is the first instant at which a ``Tick`` is needed for other reasons, or None. It is
    returned if no lease must be renewed before.
    """
    for due_ms, name in heap:
        if (found is None or due_ms < found) and _makes_due(
            view, name, due_ms, has_executor=has_executor
        ):
            found = due_ms
    return found


def _due_of(lease: Lease, has_executor: bool) -> int:  # noqa: FBT001 - passed on from its callers
    return lease.renew_ms if has_executor else lease.hold_ends_ms


def _plan_due_ms(view: StateView, *, has_executor: bool, after_ms: int | None) -> int | None:
    """Return the first instant at which the plan needs a ``Tick``; None if there is none.

    The plan needs a ``Tick`` when one of these things happens:

    - A reservation starts, or a bundle has to stop for a reservation.
    - A lease has lasted longer than the expected end that reservations were planned with.
    - A recalled bundle has to stop, or a conflict is due.
    - A run fails because a run that it follows has failed, or a pledge for a filled spare is given
      up.
    - A run that was cut by hand may start or grow again.
    - An owner's use of a budget crosses a threshold.
    - An owner's disruption account covers the conflict that a waiting run would call.
    - While any run waits: the next window opens, or the queue has to be planned again.

    A late reservation with an open conflict waits until the conflict is settled.
    """
    # A simulation calls this after every commit, and usually finds none of these instants.
    least_ms = 0 if after_ms is None else after_ms + 1
    dues: list[int] = []
    if view.reservations:
        dues.extend(_starts_ms(view, least_ms, has_executor=has_executor))
        stops = stop_instants_ms(view, has_executor=has_executor)
        dues.extend(stop_ms for stop_ms in stops if stop_ms >= least_ms)
    if view.recalls:
        recalls = recall_instants_ms(view, has_executor=has_executor)
        dues.extend(max(stop_ms, least_ms) for stop_ms in recalls)
    if view.open_conflicts:
        conflicts = (view.conflicts[name].declared.due_ms for name in view.open_conflicts)
        dues.extend(due_ms for due_ms in conflicts if due_ms >= least_ms)
    seen_ms = view.at_ms if after_ms is None else max(view.at_ms, after_ms)
    others = [follow_due_ms(view), release_due_ms(view, seen_ms), threshold_due_ms(view, seen_ms)]
    if view.reservations:
        others.append(outlasted_ms(view, seen_ms))
    if view.pledges:
        others.append(pledges_due_ms(view))
    if view.deferred:
        others.append(min(deferrals_due_ms(view, seen_ms), default=None))
    if view.pending:
        others.append(view.next_opening_ms(seen_ms))  # A run may wait for this window.
        others.append(replan_due_ms(view, seen_ms))
    dues.extend(due_ms for due_ms in others if due_ms is not None)
    return min(dues, default=None)


def _starts_ms(view: StateView, least_ms: int, *, has_executor: bool) -> Iterator[int]:
    """Yield, for each reservation, when it has to be examined next, not before ``least_ms``."""
    for record in view.reservations.values():
        at_ms = look_ms(view, record, has_executor=has_executor)
        if at_ms is not None and at_ms < least_ms:
            # The reservation was examined before its planned start, and is due again at the start.
            at_ms = record.planned_start_ms
        # A late reservation is not due while a conflict is open: it waits for its own conflict, or
        # for that of an earlier reservation.
        if at_ms is not None and (at_ms >= least_ms or not view.open_conflicts):
            yield max(at_ms, least_ms)
