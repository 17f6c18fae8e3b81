"""Packs the same work by the production engine and by published rules.

In the engine, every node is a separate domain and each run stays in one domain. So a run needs one
node, as it does with the other packers. One owner pays for all runs, so only GPUs can be short.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from random import Random
from typing import Final

from benchmarks.node_packing import Packer, Piece, fragments_in
from quorate.adapters.stores.store_memory import MemoryStore
from quorate.core.commands import Apply, Cancel, Complete, Submit
from quorate.loop.engine import Engine
from quorate.model.events import LeaseStarted, lease_gpus
from quorate.model.specs import Budget, Envelope, Node, Owner, Placement, Pool, Run
from quorate.sim.fleet_simulation import REGION_NAME, START_MS, WINDOW_MS
from quorate.sim.simulation import VirtualClock
from quorate.sim.traces.trace_job import TraceJob

ACTOR: Final = "packing"
FLAVOR: Final = "gpu"
OWNER: Final = "all"


class EnginePacker:
    """The production engine as a packer: it submits runs, and cancels runs that must wait."""

    def __init__(self, sizes: Sequence[int], placement: Placement = Placement.TIGHT) -> None:
        self._numbers = {f"node-{number:05d}": number for number in range(len(sizes))}
        self._free = list(sizes)
        self._at: dict[str, tuple[int, int]] = {}
        pool = Pool(name="packed", placement=placement, disruption_rate_ppm=0)
        nodes = [
            Node(
                name=name,
                flavor=FLAVOR,
                gpus=sizes[number],
                region=REGION_NAME,
                cluster=FLAVOR,
                domain=name,
            )
            for name, number in self._numbers.items()
        ]
        line = Envelope(
            name=FLAVOR,
            flavor=FLAVOR,
            selector=(("region", REGION_NAME),),
            start_ms=START_MS,
            end_ms=START_MS + WINDOW_MS,
            concurrency=sum(sizes),
        )
        budget = Budget(name=OWNER, owner=OWNER, envelopes=(line,))
        self._engine = Engine.create(
            MemoryStore(),
            VirtualClock(START_MS),
            ledger_id="packed",
            public_key="",
            actor=ACTOR,
        )
        self._engine.execute(Apply((pool, *nodes, Owner(name=OWNER), budget)), actor=ACTOR)

    def place(self, piece: Piece) -> bool:
        """Submit ``piece``; if it does not start at once, cancel it and return False."""
        run = Run(
            name=piece.name,
            owner=OWNER,
            flavors=(FLAVOR,),
            gpus=piece.gpus,
            pool="packed",
            cross_group_spread=False,
        )
        receipt = self._engine.execute(Submit(run), actor=ACTOR)
        assert not receipt.decision.refusals, receipt.decision.refusals
        started = [event for event in receipt.decision.events if isinstance(event, LeaseStarted)]
        if not started:
            self._engine.execute(Cancel(piece.name, "found no node"), actor=ACTOR)
            return False
        ((node, _),) = (slot for event in started for slot in event.slots)
        taken = sum(lease_gpus(event.slots) for event in started)
        self._at[piece.name] = (self._numbers[node], taken)
        self._free[self._numbers[node]] -= taken
        return True

    def remove(self, piece: Piece) -> None:
        """Complete the run of ``piece``."""
        receipt = self._engine.execute(Complete(piece.name, has_gone=True), actor=ACTOR)
        assert not receipt.decision.refusals, receipt.decision.refusals
        number, gpus = self._at.pop(piece.name)
        self._free[number] += gpus

    def free(self) -> Sequence[int]:
        """Return the number of free GPUs of each node, by the leases that started and ended."""
        return self._free


@dataclass(slots=True, kw_only=True)
class Packed:
    """The result of packing some work with one packer; fragments are in GPUs."""

    placed: int = 0
    gpus_placed: int = 0
    refused: int = 0
    first_refusal_gpus: int | None = None
    """The GPUs in use when the first piece found no node; None if all pieces found a node."""
    fragments_at: dict[int, float] = field(default_factory=dict)
    """Expected fragments, by the percentage of the GPUs that had been requested."""
    fragments_mean: float = 0.0
    """The mean over time of the expected fragments, if work comes and goes."""


def drawn(pieces: Sequence[Piece], gpus: int, seed: int = 0) -> list[Piece]:
    """Return pieces drawn from ``pieces``, with new names, which need at least ``gpus`` GPUs."""
    chance, found, asked = Random(seed), list[Piece](), 0
    while asked < gpus:
        piece = chance.choice(pieces)
        asked += piece.gpus
        found.append(Piece(f"{piece.name}-{len(found)}", piece.gpus))
    return found


def fill(
    packer: Packer,
    pieces: Iterable[Piece],
    parts: Mapping[int, float],
    percents: Sequence[int] = (),
) -> Packed:
    """Return the result of placing ``pieces`` in order, without removing any."""
    packed, size = Packed(), sum(packer.free())
    asked, left = 0, list(percents)
    for piece in pieces:
        asked += piece.gpus
        if packer.place(piece):
            packed.placed += 1
            packed.gpus_placed += piece.gpus
        else:
            packed.refused += 1
            if packed.first_refusal_gpus is None:
                packed.first_refusal_gpus = packed.gpus_placed
        while left and asked * 100 >= left[0] * size:
            packed.fragments_at[left.pop(0)] = fragments_in(packer.free(), parts)
    return packed


def come_and_go(packer: Packer, jobs: Sequence[TraceJob], parts: Mapping[int, float]) -> Packed:
    """Return the result of placing ``jobs``, which come and go as recorded, without retries.

    Jobs that end at an instant leave before other jobs come.
    """
    packed, now_s, weighted, span_s = Packed(), 0.0, 0.0, 0.0
    ends: list[tuple[float, int, Piece]] = []

    def pass_until(at_s: float) -> None:
        nonlocal now_s, weighted, span_s
        weighted += fragments_in(packer.free(), parts) * (at_s - now_s)
        span_s += at_s - now_s
        now_s = at_s

    now_s = jobs[0].arrives_s if jobs else 0.0
    for number, job in enumerate(jobs):
        while ends and ends[0][0] <= job.arrives_s:
            end_s, _, piece = heappop(ends)
            pass_until(end_s)
            packer.remove(piece)
        pass_until(job.arrives_s)
        piece = Piece(job.name, job.gpus)
        if packer.place(piece):
            packed.placed += 1
            packed.gpus_placed += job.gpus
            heappush(ends, (job.arrives_s + (job.duration_s or 0.0), number, piece))
        else:
            packed.refused += 1
    packed.fragments_mean = weighted / span_s if span_s else 0.0
    return packed
