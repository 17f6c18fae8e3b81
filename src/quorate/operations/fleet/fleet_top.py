"""The fleet at a glance. All callers see how much is in use; by whom, only for their own."""

from __future__ import annotations

from quorate.operations.answer_types import Answer
from quorate.operations.fleet.looking_requests import FleetTop
from quorate.operations.operation import Operation
from quorate.operations.request_context import RequestContext
from quorate.operations.visibility import tenants_of
from quorate.views.exits import UNKNOWN_NAME, CommandError, Exit
from quorate.views.runs.fleet_view import top_of


def fleet_top(context: RequestContext, asked: FleetTop, operation: Operation) -> Answer:
    """Return used and free GPUs by flavor and domain, and who has them."""
    del operation
    moment, caller = context.moment, context.caller
    if asked.pool is not None and asked.pool not in moment.view.pools:
        raise CommandError(
            Exit.REFUSED,
            f"there is no pool {asked.pool!r}; list them: quorate get pools",
            fault=UNKNOWN_NAME,
        )
    seen = None if caller.oversees else tenants_of(moment.view, caller)
    top = top_of(moment, asked.pool, seen)
    empty = () if top.flavors else ("there are no nodes",)
    return Answer(
        tree=top.tree,
        lines=lambda wide: top.lines(show_wide=wide) if top.flavors else (),
        notes=(*context.notes, *empty),
    )
