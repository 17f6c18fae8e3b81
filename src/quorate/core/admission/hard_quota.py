"""Hard quotas: how many nodes and running runs an owner and its descendants may have at once.

Quotas are checked against the same state on which the decision is committed, so two decisions
cannot exceed a quota together. An admin may lower a limit below the number of nodes or runs in use.
In this case no work is stopped, but no new work starts until fewer are in use.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from quorate.model.refusal import Refusal, RefusalCode, Shortage
from quorate.model.specs import Run
from quorate.model.state.free_slots import Island
from quorate.model.state.state_view import StateView

HARD: Final = frozenset((RefusalCode.MAX_NODES, RefusalCode.MAX_CONCURRENT_RUNS))


@dataclass(frozen=True, slots=True)
class Headroom:
    """How many more nodes an owner and each of its ancestors may hold."""

    view: StateView
    bounds: tuple[tuple[str, int], ...]
    """(owner, limit) for the owner and for each ancestor that has a limit on nodes."""

    @classmethod
    def of(cls, view: StateView, owner: str) -> Headroom | None:
        """Return the headroom of ``owner``; None if no limit on nodes applies to it."""
        names = view.holdings.bounds_of(owner)
        if not names:
            return None
        bounds = tuple(
            (name, limit)
            for name in names
            if (limit := view.owners[name].quota.nodes_max) is not None
        )
        return cls(view, bounds) if bounds else None

    def refuses(self, nodes: Iterable[str]) -> Refusal | None:
        """Return the refusal for the limit that taking ``nodes`` would exceed, or None.

        If a limit was lowered and more nodes are in use than it allows, the owner cannot even take
        nodes that it already uses. In a plan, the owner's work on one of ``nodes`` may end before
        the planned run ends. From the end of that work on, the node is counted as a node that the
        planned run takes (``Holdings.kept_on``).
        """
        wanted = set(nodes)
        holdings = self.view.holdings
        for owner, limit in self.bounds:
            new = sum(not holdings.has(owner, node) for node in wanted)
            current = holdings.nodes.get(owner, 0)
            if current + new > limit:
                return _over(RefusalCode.MAX_NODES, owner, current, new, limit)
            kept_on = holdings.kept_on
            later = sorted(kept_on[owner, node] for node in wanted if (owner, node) in kept_on)
            # When the present work on a node has ended, the node is counted as new. From then on,
            # at most ``left`` new nodes may be kept. The earlier the work ends, the smaller
            # ``left`` is.
            for count, left in enumerate(later, new + 1):
                if count > left:
                    return _over(RefusalCode.MAX_NODES, owner, limit - left, count, limit)
        return None

    def outlasting(self, island: Island) -> int:
        """Return the nodes of ``kept`` on which the present work outlasts the new run."""
        kept_on = self.view.holdings.kept_on
        return self._held(
            island, lambda owner, node: self._has(owner, node) and (owner, node) not in kept_on
        )

    def kept(self, island: Island) -> int:
        """Return, as a bit set, the nodes of ``island`` that no limit would count again.

        Every owner in ``bounds`` already holds these nodes.
        """
        return self._held(island, self._has)

    def _has(self, owner: str, node: str) -> bool:
        return self.view.holdings.has(owner, node)

    def _held(self, island: Island, has: Callable[[str, str], bool]) -> int:
        held = 0
        open_nodes = 0
        for nodes in island.buckets[1:]:
            open_nodes |= nodes
        while open_nodes:
            low = open_nodes & -open_nodes
            open_nodes ^= low
            name = island.nodes[low.bit_length() - 1].name
            if all(has(owner, name) for owner, _ in self.bounds):
                held |= low
        return held

    def refuses_wherever(self, islands: Sequence[Island], gpus: int) -> Refusal | None:
        """Return the refusal for a limit that ``gpus`` GPUs exceed in any placement, or None.

        The nodes are those of ``islands``. The check counts the fewest new nodes that any placement
        can have. A placement has the fewest new nodes if it first uses nodes that the owner holds,
        and then the emptiest nodes.
        """
        for owner, limit in self.bounds:
            current = self.view.holdings.nodes.get(owner, 0)
            new = self._new_at_least(owner, islands, gpus)
            if new > limit - current:
                return _over(RefusalCode.MAX_NODES, owner, current, new, limit)
        return None

    def _new_at_least(self, owner: str, islands: Sequence[Island], gpus: int) -> int:
        """Return how many nodes ``owner`` must take, at least, in addition to the nodes it holds.

        The nodes are for ``gpus`` GPUs; free GPUs on the nodes that ``owner`` holds are used first.
        """
        has, others = self.view.holdings.has, Counter[int]()
        for island in islands:
            for position, free in enumerate(island.free):
                if not free:
                    continue
                if has(owner, island.nodes[position].name):
                    gpus -= free.bit_count()
                else:
                    others[free.bit_count()] += 1
        new = 0
        for size in sorted(others, reverse=True):
            if gpus <= 0:
                break
            nodes = min(others[size], -(-gpus // size))
            gpus -= nodes * size
            new += nodes
        return new

    def refuses_at_least(self, run: Run) -> Refusal | None:
        """Return the refusal for a limit that ``run`` exceeds whatever nodes it gets, or None.

        Free GPUs on nodes that the owner holds already are used first, and need no new nodes.
        """
        view, least = self.view, run.widths()[-1]
        nodes = None
        for flavor in run.flavors:
            islands = [view.island(key) for key in view.domains(run.pool, flavor).keys]
            if not islands:
                continue
            free = sum(_free(island, self.kept(island)) for island in islands)
            size = max(max(island.sizes) for island in islands)
            needs = -(-max(0, least - free) // size)
            nodes = needs if nodes is None else min(nodes, needs)
        for owner, limit in self.bounds:
            current = view.holdings.nodes.get(owner, 0)
            if current + (nodes or 0) > limit:
                return _over(RefusalCode.MAX_NODES, owner, current, nodes or 0, limit)
        return None


def _free(island: Island, nodes: int) -> int:
    return sum(count * (bits & nodes).bit_count() for count, bits in enumerate(island.buckets))


def too_many_runs(view: StateView, owner: str, more: int = 1) -> Refusal | None:
    """Return the refusal if ``more`` further runs of ``owner`` exceed a limit on runs, or None."""
    for name in view.holdings.bounds_of(owner):
        limit = view.owners[name].quota.concurrent_runs_max
        current = view.holdings.runs.get(name, 0)
        if limit is not None and current + more > limit:
            return _over(RefusalCode.MAX_CONCURRENT_RUNS, name, current, more, limit)
    return None


def _over(code: RefusalCode, owner: str, current: int, wanted: int, limit: int) -> Refusal:
    return Refusal(
        code=code,
        subject=owner,
        wanted=wanted,
        short=current + wanted - limit,
        current=current,
        limit=limit,
        remedy=(
            "wait until runs of this tenant end, ask an admin to raise the limit, or submit with "
            "onQuota: wait"
        ),
    )


def refuses_ever_so(view: StateView, run: Run) -> Refusal | None:
    """Return the refusal by a hard quota that ``run`` exceeds whatever nodes it gets, or None."""
    refusal = too_many_runs(view, run.owner)
    headroom = Headroom.of(view, run.owner)
    if refusal is None and headroom is not None:
        refusal = headroom.refuses_at_least(run)
    return refusal


def waiting(view: StateView, run: Run, refusal: Refusal) -> Refusal:
    """Return the hard-quota ``refusal`` as the reason why an accepted run waits.

    If the run could also start when GPUs on the owner's nodes become free, the refusal has a
    shortage of nodes. A run with this shortage in its refusal is tried after every change. A run
    without it is tried only after changes in what its owner uses.
    """
    held = held_by_quota(view, run)
    cause = refusal if held is None else held
    left = max(0, cause.limit - cause.current)
    elsewhere = Shortage(where="nodes", wanted=cause.wanted, available=left, limit="max_nodes")
    return Refusal(
        code=RefusalCode.WAITING_FOR_QUOTA,
        subject=cause.subject,
        wanted=cause.wanted,
        short=cause.short,
        shortages=(elsewhere,) if held is None else (),
        current=cause.current,
        limit=cause.limit,
        also=cause,
    )


def held_by_quota(view: StateView, run: Run) -> Refusal | None:
    """Return the refusal by a hard quota that would remain if no other owner had work, or None.

    If no other owner had work, only the owner's own runs would use GPUs on the nodes that it holds.
    The check counts the nodes that ``run`` needs in addition to these nodes.
    """
    refusal = too_many_runs(view, run.owner)
    headroom = Headroom.of(view, run.owner)
    if refusal is not None or headroom is None:
        return refusal
    sizes = [
        max(view.island(key).sizes)
        for flavor in run.flavors
        for key in view.domains(run.pool, flavor).keys
    ]
    for owner, limit in headroom.bounds if sizes else ():
        current = view.holdings.nodes.get(owner, 0)
        room = view.holdings.room.get(owner, 0)
        nodes = -(-max(0, run.widths()[-1] - room) // max(sizes))
        if current + nodes > limit:
            return _over(RefusalCode.MAX_NODES, owner, current, nodes, limit)
    return None
