"""The present use of each tenant and its descendants, as hard quotas count it.

``view.holdings`` updates these numbers with each event, for owners with a hard quota. This module
counts them from scratch for any owner, in one pass over open leases and claims.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from quorate.model.state.holdings import lineage
from quorate.model.state.records import Phase
from quorate.model.state.state_view import StateView


@dataclass(slots=True)
class Use:
    """Nodes under leases, claims and filled spares; running runs; the number of waiting runs."""

    nodes: set[str] = field(default_factory=set)
    running: set[str] = field(default_factory=set)
    waiting: int = 0


NO_USE: Final = Use()


def uses(view: StateView) -> Mapping[str, Use]:
    """Return the use of each owner, descendants included; owners without any use are absent."""
    by_owner: dict[str, Use] = {}
    bounds: dict[str, list[Use]] = {}

    def above(run: str) -> list[Use]:
        owner = view.runs[run].spec.owner
        if owner not in bounds:
            bounds[owner] = [by_owner.setdefault(n, Use()) for n in lineage(view.owners, owner)]
        return bounds[owner]

    for run, nodes in _held(view):
        for use in above(run):
            use.nodes.update(nodes)
            if view.runs[run].leases and not view.runs[run].spec.sensitive:
                use.running.add(run)
    for run in (*view.pending, *view.in_rounds):
        # A run that shares in rounds counts as running from its first round to its end.
        is_running = view.runs[run].phase is Phase.RUNNING
        for use in above(run):
            use.running.update((run,) if is_running else ())
            use.waiting += not is_running
    return by_owner


def _held(view: StateView) -> Iterator[tuple[str, Collection[str]]]:
    """Yield runs and the nodes that they hold.

    A run holds the nodes of its leases and of its filled spares. A claim holds its nodes until they
    are wiped.
    """
    for lease in view.leases.values():
        yield lease.fact.run, [node for node, _ in lease.fact.slots]
    for pledge in view.pledges.values():
        yield pledge.run, [node for node, _ in pledge.slots]
    for node, known in view.unwiped.items():
        yield known.claim, (node,)
