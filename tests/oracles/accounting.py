"""A simple count of use, which visits every lease, node and instant one after the other."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import pairwise

from quorate.core.accounting.usage_books import Usage
from quorate.model.events import (
    Event,
    HoldExtended,
    LeaseEnded,
    LeaseStarted,
    NodeApplied,
    PledgeClosed,
    RunSubmitted,
    SpareFilled,
    Tier,
    lease_gpus,
)
from quorate.model.specs import EnvelopeId, Run


@dataclass(frozen=True)
class Held:
    """``gpus`` of one node, leased for a run; ``until_ms`` is None while the lease is open."""

    name: str
    run: Run
    node: str
    flavor: str
    gpus: int
    from_ms: int
    until_ms: int | None = None


def holds_of(events: Iterable[Event]) -> list[Held]:
    """Return an entry for each node of each lease, and of each filled spare, which has no GPUs."""
    runs: dict[str, Run] = {}
    flavors: dict[str, str] = {}
    found: list[Held] = []
    for event in events:
        match event:
            case RunSubmitted():
                runs[event.run.name] = event.run
            case NodeApplied():
                flavors[event.node.name] = event.node.flavor
            case LeaseStarted():
                found += [
                    Held(
                        event.lease,
                        runs[event.run],
                        node,
                        flavors[node],
                        mask.bit_count(),
                        event.start_ms,
                    )
                    for node, mask in event.slots
                ]
            case LeaseEnded():
                found = [_ended(held, event.lease, event.end_ms) for held in found]
            case SpareFilled():
                (spare,) = {held.run for held in found if held.name == event.lease}
                found += [
                    Held(event.pledge, spare, node, flavors[node], 0, event.at_ms)
                    for node, _ in event.slots
                ]
            case PledgeClosed():
                found = [_ended(held, event.pledge, event.at_ms) for held in found]
            case _:
                pass
    return found


def _ended(held: Held, name: str, until_ms: int) -> Held:
    return replace(held, until_ms=until_ms) if held.name == name else held


def usage_of(holds: Iterable[Held], from_ms: int, until_ms: int) -> Usage:
    """Return the use of ``holds`` in [``from_ms``, ``until_ms``)."""
    mine = [
        (
            held,
            max(from_ms, held.from_ms),
            min(until_ms, until_ms if held.until_ms is None else held.until_ms),
        )
        for held in holds
    ]
    mine = [each for each in mine if each[1] < each[2]]
    flavors: dict[str, int] = {}
    for held, begin_ms, end_ms in mine:
        flavors[held.flavor] = flavors.get(held.flavor, 0) + held.gpus * (end_ms - begin_ms)
    # Nothing changes between two neighbouring instants at which a lease begins or ends.
    instants = sorted({at_ms for _, begin_ms, end_ms in mine for at_ms in (begin_ms, end_ms)})
    node_ms = 0
    for begin_ms, end_ms in pairwise(instants):
        on = {held.node for held, first_ms, last_ms in mine if first_ms <= begin_ms < last_ms}
        node_ms += len(on) * (end_ms - begin_ms)
    return Usage(
        gpu_ms=sum(flavors.values()),
        node_ms=node_ms,
        flavors=tuple(sorted((flavor, used) for flavor, used in flavors.items() if used)),
    )


@dataclass
class Paid:
    """One lease: its payer, its owner, and the period for which it is charged."""

    payer: EnvelopeId
    tier: Tier
    run: Run
    gpus: int
    from_ms: int
    hold_gpu_ms: int
    until_ms: int | None = None

    def charged(self, from_ms: int, until_ms: int) -> int:
        """Return the GPU-milliseconds charged for the lease in [``from_ms``, ``until_ms``).

        An open lease is charged up to the end of its hold at most.
        """
        end_ms = self.until_ms
        if end_ms is None:
            end_ms = self.from_ms + self.hold_gpu_ms // self.gpus
        ms = min(until_ms, end_ms) - max(from_ms, self.from_ms)
        return self.gpus * max(0, ms)


def paid_of(events: Iterable[Event]) -> list[Paid]:
    """Return all leases, with their payers."""
    runs: dict[str, Run] = {}
    found: dict[str, Paid] = {}
    for event in events:
        match event:
            case RunSubmitted():
                runs[event.run.name] = event.run
            case LeaseStarted():
                found[event.lease] = Paid(
                    event.payer,
                    event.tier,
                    runs[event.run],
                    lease_gpus(event.slots),
                    event.start_ms,
                    event.hold_gpu_ms,
                )
            case HoldExtended():
                found[event.lease].hold_gpu_ms += event.gpu_ms
            case LeaseEnded():
                found[event.lease].until_ms = event.end_ms
            case _:
                pass
    return list(found.values())
