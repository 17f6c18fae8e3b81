"""The queue from which a walk calls up waiting runs."""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence

from quorate.core.lifecycle.follow import eligible_since_ms, waits_for_upstream
from quorate.core.planning.walk_plan import WalkPlan
from quorate.core.planning.why_waiting import is_news
from quorate.core.tenancy.queue_order import Queue
from quorate.model.refusal import Refusal
from quorate.model.specs import Follow
from quorate.model.state.line_ranks import Ranked
from quorate.model.state.waiting_index import Line, Place, line_of


def queue_of(plan: WalkPlan, ranked: list[Ranked]) -> Queue:
    """Return the queue from which the waiting runs are called up."""
    late, lines = _followers(plan), plan.view.waiting.lines
    if late:
        ranked = [(rank, late.get(line, [first])[0], line) for rank, first, line in ranked]
        ranked.sort()

    def skip(line: Line, places: Sequence[Place], at: int) -> int:
        # Where followers change the order of a line, its runs are looked at one by one.
        return at if line in late else plan.fruitless.skip(line, places, at)

    return Queue(
        ranked,
        lambda line: late.get(line) or lines[line].places,
        plan.scores,
        skip=skip if plan.reach is None else None,
    )


def _followers(plan: WalkPlan) -> dict[Line, list[Place]]:
    """Return the lines whose order followers change, each with its places in the new order.

    A follower's age counts from when the last of its upstreams completed. A
    follower whose wait for an upstream is recorded already is not looked at.
    """
    view, found = plan.view, dict[Line, list[Place]]()
    # Runs that follow the same have one answer; tasks of an array have different upstreams.
    waits_for: dict[Follow | str | None, Refusal | None] = {}
    for name in view.followers:
        if name in view.in_rounds:
            continue  # A run in rounds is in no line.
        record = view.runs[name]
        follow = record.spec.follow if record.spec.array is None else name
        if follow not in waits_for:
            waits_for[follow] = waits_for_upstream(view, record.spec)
        waits = waits_for[follow]
        if waits is not None:
            if not is_news(record.refusal, waits):
                plan.seen.add(name)
            continue
        line = line_of(record.spec)
        since_ms = eligible_since_ms(view, record)
        if since_ms is None or since_ms == record.submitted_ms:
            continue
        places = found.setdefault(line, view.waiting.lines[line].places.copy())
        places.remove((record.submitted_ms, record.seq, name))
        insort(places, (since_ms, record.seq, name))
    return found


def close_full(plan: WalkPlan, queue: Queue) -> None:
    """Close the pools in which as many runs are planned as their depth, not ``Reach.pool``."""
    closed, planned = queue.closed, plan.planned
    open_pool = "" if plan.reach is None else plan.reach.pool
    for name, depth in plan.depths:
        if planned.get(name, 0) >= depth and name != open_pool:
            closed.add(name)
    queue.is_closed = len(closed) == len(plan.depths)
