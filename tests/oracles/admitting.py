"""Admission by brute force: every placement of every width with every payment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tests.oracles.packing import Ask, Heap, Machine, divisions
from tests.oracles.paying import Bank, Cell, Demand, Purchase, payments, phases


@dataclass(frozen=True)
class Start:
    """A start of a run: its width, flavor, division among domains, and payers."""

    width: int
    flavor: str
    ask: Ask
    division: tuple[Heap, ...]
    cells: tuple[tuple[str, str, str, int], ...]


@dataclass(frozen=True)
class Job:
    """A run to admit: ``widths`` from the widest, each with its request on each flavor."""

    widths: tuple[tuple[int, Ask], ...]
    flavors: tuple[str, ...]
    purchase: Purchase


def places(division: Sequence[Heap], machines: Sequence[Machine]) -> dict[str, Demand]:
    """Return the labels of each place, and the GPUs to pay for there, in pack order.

    Places are domains, or racks if racks matter.
    """
    found: dict[str, Demand] = {}
    for heap in division:
        for (rack, _), gpus in heap.takes:
            where = f"{heap.domain}/{rack}" if rack else heap.domain
            labels: Mapping[str, str] = next(
                dict(m.labels) for m in machines if m.domain == heap.domain
            )
            here = {k: v for k, v in labels.items() if k != "rack"} | (
                {"rack": rack} if rack else {}
            )
            before = found[where][1] if where in found else 0
            found[where] = (here, before + gpus)
    return found


def starts(fleet: Mapping[str, list[Machine]], bank: Bank, job: Job) -> Iterator[Start]:
    """Yield every start of ``job``, the widest first.

    The starts of one width are ordered by payers, with family money alone first, then by flavor,
    then by places.
    """
    for width, ask in job.widths:
        by_flavor = [replace(job.purchase, flavor=flavor) for flavor in job.flavors]
        tries = [phases(bank, purchase) for purchase in by_flavor]
        for phase in range(max(len(found) for found in tries)):
            for purchase, found in zip(by_flavor, tries, strict=True):
                if phase >= len(found):
                    continue
                racks = any("rack" in dict(bank.line(key)[1].selector) for key, _ in found[-1])
                asked = replace(ask, by_rack=racks or "rack" in dict(ask.selector))
                machines = fleet.get(purchase.flavor, [])
                known: dict[str, tuple[Cell, ...] | None] = {}
                for division in divisions(machines, asked):
                    demands = places(division, machines)
                    bill = str(demands)
                    if bill not in known:
                        paid = payments(bank, purchase, found[phase], list(demands.values()))
                        known[bill] = next(paid, None)
                    cells = known[bill]
                    if cells is not None:
                        names = list(demands)
                        legs = tuple((names[i], key, tier, gpus) for i, key, tier, gpus in cells)
                        yield Start(width, purchase.flavor, asked, division, legs)
