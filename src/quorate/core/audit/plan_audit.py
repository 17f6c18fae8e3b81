"""The audit of the cached plan: planning must have the same result with and without the cache."""

from __future__ import annotations

from collections.abc import Iterator

from quorate.core.admission.run_shape import Violation
from quorate.core.planning.foresight import Foresight
from quorate.core.profile.gained_rooms import KeptPlan
from quorate.model.state.state_view import StateView


def check_plan(view: StateView) -> Iterator[Violation]:
    """Yield a violation (I8) if cached starts lead to another plan than a search from scratch."""
    known: KeptPlan | None = view.room_index.last_plan()[0]
    if known is None:
        return
    fresh, now_ms = view.overlay(), max(view.at_ms, known.now_ms)
    fresh.ends_changed()
    kept, found = (
        Foresight.of(each, now_ms, has_executor=known.has_executor).walk.plan
        for each in (view, fresh)
    )
    for name in sorted({*kept.pins, *kept.entries, *found.pins, *found.entries}):
        mine = kept.pins.get(name) or kept.entries.get(name)
        anew = found.pins.get(name) or found.entries.get(name)
        if mine != anew:
            yield Violation(
                "I8", name, f"is planned as {mine}, but computing it again gives {anew}"
            )
    if kept.log.events != found.log.events:
        yield Violation(
            "I8", "plan", "starts or reserves other runs than the same plan computed again"
        )
