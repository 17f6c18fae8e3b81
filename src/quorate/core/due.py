"""Due: when somebody has to tick next, if nobody asks for anything before."""

from __future__ import annotations

from heapq import heappop, heappush

from quorate.model.view import StateView


def next_due_ms(view: StateView, *, has_executor: bool) -> int | None:
    """Return the first instant at which a ``Tick`` has something to do; None when it never will.

    That is when the first hold must be renewed: with an executor one grace before it runs out, so
    that what nobody pays for is gone in time. A lease that is ending makes nothing due: its hold is
    looked at whenever anything is decided, its confirmation included. Looks at the top of the heap
    of holds only, however many leases there are; without an executor, also at those whose grace
    begins before the first hold ends.
    """
    heap = view.holds_due()
    while heap and _is_outdated(view, heap[0]):
        heappop(heap)  # Nobody needs it any more, and it would be passed over each time.
    found: int | None = None
    places = [(*heap[0], 0)] if heap else []
    while places:
        renew_ms, name, place = heappop(places)
        if found is not None and renew_ms >= found:
            break
        lease = view.leases.get(name)
        if lease is not None and lease.renew_ms == renew_ms and lease.ending is None:
            due_ms = renew_ms if has_executor else lease.hold_ends_ms
            found = due_ms if found is None else min(found, due_ms)
        for below in (2 * place + 1, 2 * place + 2):
            if below < len(heap):
                heappush(places, (*heap[below], below))
    return found


def _is_outdated(view: StateView, entry: tuple[int, str]) -> bool:
    renew_ms, name = entry
    lease = view.leases.get(name)
    return lease is None or lease.renew_ms != renew_ms
