"""The cost of placing gangs on a fleet that is nine tenths full, while gangs come and go.

A decision calls ``pack_gang`` and takes the slots that it found, including the updates of indexes.
Random gangs leave to make room for the next gang, and the time that this takes is measured
separately. The fragmentation of the fleet is the result of the earlier decisions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from statistics import median
from time import process_time

from benchmarks.figure import Baseline, Effort, Figure
from benchmarks.scan_packer import scan_fleet, scan_pack
from benchmarks.worlds import FLAVOR, GANGS, fleet
from quorate.core.admission.layout import Bundle, PackRequest
from quorate.core.admission.pack import PackPlan, pack_gang
from quorate.model.events import Slots
from quorate.model.specs import DEFAULT_POOL, Placement
from quorate.model.state.state import State
from quorate.testing.builders import world

EVERY_SIZE = tuple(range(1, 129))
REPEATS = 5


@dataclass(slots=True)
class Churn:
    """A fleet in use: gangs of ``sizes`` come, and gangs leave so that a tenth stays free."""

    state: State
    sizes: Sequence[int]
    placement: Placement
    rng: Random = field(default_factory=lambda: Random(1))
    live: list[list[Slots]] = field(default_factory=list)
    gpus_total: int = 0
    gpus_free: int = 0
    leaving_s: float = 0.0
    decided: int = 0
    divided: int = 0

    @classmethod
    def filled(cls, nodes: int, sizes: Sequence[int], placement: Placement) -> Churn:
        """Return a fleet of ``nodes`` nodes that is nine tenths full."""
        state = world(nodes=fleet(nodes))
        state.refresh()
        churn = cls(state, sizes, placement)
        churn.gpus_total = churn.gpus_free = 8 * nodes
        while churn.gpus_free >= churn.gpus_total // 10 + max(sizes):
            churn.seconds(1)
        return churn

    def seconds(self, decisions: int) -> float:
        """Return the CPU seconds of ``decisions`` placements."""
        requests = {gpus: self._request(gpus) for gpus in self.sizes}
        state, total = self.state, 0.0
        for _ in range(decisions):
            gpus = self.rng.choice(self.sizes)
            self._make_room(gpus)
            start = process_time()
            plan = pack_gang(state, requests[gpus])
            assert isinstance(plan, PackPlan), plan
            taken = [group.slots for group in plan.groups]
            for slots in taken:
                state.occupy(slots)
            state.refresh()
            total += process_time() - start
            self.live.append(taken)
            self.gpus_free -= gpus
            self.decided += 1
            self.divided += len(taken) > 1
        return total

    def _make_room(self, gpus: int) -> None:
        start = process_time()
        while self.gpus_free < gpus + self.gpus_total // 10:
            place = self.rng.randrange(len(self.live))
            self.live[place], self.live[-1] = self.live[-1], self.live[place]
            for slots in self.live.pop():
                self.gpus_free += self.state.vacate(slots)
        self.state.refresh()
        self.leaving_s += process_time() - start

    def _request(self, gpus: int) -> PackRequest:
        bundle = Bundle(0, gpus, None)
        return PackRequest(
            pool=DEFAULT_POOL,
            flavor=FLAVOR,
            bundles=(bundle,),
            one_domain=False,
            placement=self.placement,
        )

    def scan_seconds(self, decisions: int) -> float:
        """Return the CPU seconds of ``decisions`` scans, which must agree with the index."""
        total = 0.0
        for _ in range(decisions):
            gpus = self.rng.choice(self.sizes)
            self._make_room(gpus)
            mirror = scan_fleet(self.state)
            start = process_time()
            found = scan_pack(mirror, gpus)
            total += process_time() - start
            plan = pack_gang(self.state, self._request(gpus))
            assert isinstance(plan, PackPlan), plan
            assert found == [group.slots for group in plan.groups], (gpus, found, plan)
            self.seconds(1)
        return total


def measure(effort: Effort) -> list[Figure]:
    """Return placements per second on 10,000 nodes, and the growth of the cost from 100 nodes."""
    decisions = effort.of(4_000, 300)
    large, small = (
        Churn.filled(10_000, GANGS, Placement.TIGHT),
        Churn.filled(100, GANGS, Placement.TIGHT),
    )
    large.seconds(decisions), small.seconds(decisions)
    pairs = [(large.seconds(decisions), small.seconds(decisions)) for _ in range(REPEATS)]
    per_second = decisions / median(pair[0] for pair in pairs)
    scans = effort.of(100, 10)
    scan_rate = scans / large.scan_seconds(scans)
    return [
        Figure(
            name="placements, 10,000 nodes",
            unit="/s",
            value=per_second,
            better="more",
            target=30_000,
            baseline=Baseline("scanning every node", scan_rate),
            details=_described(large),
        ),
        Figure(
            name="placement cost, 10,000 nodes over 100",
            unit="x",
            value=median(big / little for big, little in pairs),
            better="less",
            target=3,
            details={"us at 100 nodes": median(pair[1] for pair in pairs) / decisions * 1e6},
        ),
        *(
            _told(name, sizes, placement, decisions)
            for name, sizes, placement in (
                ("placements, any size 1-128", EVERY_SIZE, Placement.TIGHT),
                ("placements, classic", GANGS, Placement.CLASSIC),
                ("placements, classic, any size 1-128", EVERY_SIZE, Placement.CLASSIC),
            )
        ),
    ]


def _told(name: str, sizes: Sequence[int], placement: Placement, decisions: int) -> Figure:
    """Return the rate of another mix of sizes on 10,000 nodes, without a target."""
    churn = Churn.filled(10_000, sizes, placement)
    churn.seconds(decisions)
    rate = median(decisions / churn.seconds(decisions) for _ in range(REPEATS))
    return Figure(name=name, unit="/s", value=rate, better="more", details=_described(churn))


def _described(churn: Churn) -> dict[str, float | int | str]:
    return {
        "GPUs in use %": 100 * (1 - churn.gpus_free / churn.gpus_total),
        "gangs in use": len(churn.live),
        "gangs divided among domains %": 100 * churn.divided / churn.decided,
        "us a placement to make room": 1e6 * churn.leaving_s / churn.decided,
    }
