"""The work of simulated kubelets, compared with the leases of a ledger at every instant. Pure.

Work is the time from the start of a pod's containers to their end, as its kubelet knows it. At
every instant a slot with work must be under a lease of the pod's run, and no two pods may work on
one slot at once, not even pods of one run. From the failure of a node in the ledger on, work on
this node does not count, because no kubelet confirms its end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf
from typing import Any

Slot = tuple[str, int]
"""A node, and the ledger's number of one of its GPUs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Worked:
    """The work of one pod; ``ended_ms`` is infinite before its end."""

    uid: str
    run: str
    node: str
    slots: tuple[Slot, ...]
    began_ms: float
    ended_ms: float


@dataclass(slots=True)
class Leased:
    """The leases of each run and slot, and the times of node failures, from the events."""

    spans: dict[tuple[str, Slot], list[tuple[float, float]]] = field(default_factory=dict)
    failed_ms: dict[str, float] = field(default_factory=dict)

    def lost_from_ms(self, node: str) -> float:
        """Return the time from which the work on a node does not count."""
        return self.failed_ms.get(node, inf)


def leased(events: Iterable[Mapping[str, Any]]) -> Leased:
    """Return the leases in ``events`` of a ledger, in the form of its API."""
    found = Leased()
    started: dict[str, Mapping[str, Any]] = {}
    ended: dict[str, float] = {}
    for each in events:
        tag = each["tag"].partition("/")[0]
        if tag == "lease-started":
            started[each["lease"]] = each
        elif tag == "lease-ended":
            ended[each["lease"]] = each["at_ms"]
        elif tag == "node-marked" and each["status"] == "Failed":
            found.failed_ms.setdefault(each["node"], each["at_ms"])
    for name, lease in started.items():
        for place in lease["slots"]:
            for number in place["slots"]:
                spans = found.spans.setdefault((lease["run"], (place["node"], number)), [])
                spans.append((lease["start_ms"], ended.get(name, inf)))
    return found


def work_faults(worked: Sequence[Worked], leases: Leased) -> list[str]:
    """Return the faults of the work that was done; empty if all of it was leased."""
    found: list[str] = []
    by_slot: dict[Slot, list[Worked]] = {}
    for each in worked:
        for slot in each.slots:
            by_slot.setdefault(slot, []).append(each)
            if slot[0] != each.node:
                found.append(f"{each.run}: a pod for {slot[0]} works on {each.node}")
            elif not _is_covered(each, leases.spans.get((each.run, slot), ()), leases):
                found.append(f"{each.run}: works on {slot} without a lease")
    for slot, users in by_slot.items():
        lost_ms = leases.lost_from_ms(slot[0])
        in_order = sorted(users, key=lambda each: each.began_ms)
        for one, other in pairwise(in_order):
            if min(one.ended_ms, lost_ms) > other.began_ms:
                found.append(f"{slot}: {one.run} and {other.run} work there at once")
    return found


def _is_covered(each: Worked, spans: Sequence[tuple[float, float]], leases: Leased) -> bool:
    """Return whether the leases cover every instant of the work of a pod."""
    reached = each.began_ms
    until = min(each.ended_ms, leases.lost_from_ms(each.node))
    for start_ms, end_ms in sorted(spans):
        # Instants of the ledger are whole milliseconds.
        if start_ms <= reached + 1:
            reached = max(reached, end_ms + 1)
    return reached >= until
