"""The fleet at a glance. How much is in use is everybody's to see; by whom, only by their own."""

from __future__ import annotations

from quorate.answers.exits import UNKNOWN_NAME, CommandError, Exit
from quorate.answers.top import top_of
from quorate.operations.answer import Answer
from quorate.operations.asked_looking import FleetTop
from quorate.operations.desk import Desk
from quorate.operations.operation import Operation
from quorate.operations.visibility import tenants_of


def fleet_top(desk: Desk, asked: FleetTop, operation: Operation) -> Answer:
    """Return used and free GPUs by flavor and domain, and who has them."""
    del operation
    moment, caller = desk.moment, desk.caller
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
        notes=(*desk.notes, *empty),
    )
