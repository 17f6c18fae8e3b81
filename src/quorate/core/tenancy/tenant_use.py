"""The nodes and runs that each tenant and its descendants have now, as hard quotas count them.

For owners with a hard quota, ``view.holdings`` keeps these numbers up to date with each event. This
module computes them for all owners from scratch, in one pass over open leases and claims.
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
    """What an owner and its descendants have now.

    ``nodes`` are those of leases, claims and filled spares. ``running`` are the running runs, and
    ``waiting`` is the number of waiting runs.
    """

    nodes: set[str] = field(default_factory=set)
    running: set[str] = field(default_factory=set)
    waiting: int = 0


NO_USE: Final = Use()


def uses(view: StateView) -> Mapping[str, Use]:
    """Return the use of each owner with its descendants; owners without any use are absent."""
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
        # A run in rounds is running from its first round to its end, even while it has no GPUs.
        is_running = view.runs[run].phase is Phase.RUNNING
        for use in above(run):
            use.running.update((run,) if is_running else ())
            use.waiting += not is_running
    return by_owner


def _held(view: StateView) -> Iterator[tuple[str, Collection[str]]]:
    """Yield (run, nodes that it holds); a run may occur several times.

    A run holds the nodes of its leases and of its filled spares. A claim holds its nodes until they
    are wiped.
    """
    for lease in view.leases.values():
        yield lease.fact.run, [node for node, _ in lease.fact.slots]
    for pledge in view.pledges.values():
        yield pledge.run, [node for node, _ in pledge.slots]
    for node, known in view.unwiped.items():
        yield known.claim, (node,)
