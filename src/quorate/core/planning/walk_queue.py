"""The queue of waiting runs that a walk visits."""

from __future__ import annotations

from quorate.core.planning.walk_plan import WalkPlan
from quorate.core.tenancy.queue_order import Queue
from quorate.model.state.line_ranks import Ranked


def queue_of(plan: WalkPlan, ranked: list[Ranked]) -> Queue:
    """Return the queue that gives the walk its next waiting run."""
    lines = plan.view.waiting.lines
    return Queue(
        ranked,
        lambda line: lines[line].places,
        plan.scores,
        skip=plan.fruitless.skip if plan.reach is None else None,
    )


def close_full(plan: WalkPlan, queue: Queue) -> None:
    """Close each pool with as many planned runs as its depth, except the pool of ``plan.reach``."""
    closed, planned = queue.closed, plan.planned
    open_pool = "" if plan.reach is None else plan.reach.pool
    for name, depth in plan.depths:
        if planned.get(name, 0) >= depth and name != open_pool:
            closed.add(name)
    queue.is_closed = len(closed) == len(plan.depths)
