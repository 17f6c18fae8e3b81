"""Packs openb's pods of whole GPUs by the production engine and by published rules.

The benchmark needs the published nodes and pods beside the repository, in ``../shared``; without
them it prints a message and measures nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from time import process_time
from typing import Final

from benchmarks.figure import Baseline, Effort, Figure
from benchmarks.node_packing import (
    Packer,
    Piece,
    RulePacker,
    best_fit,
    first_fit,
    least_gradient,
    parts_of,
)
from benchmarks.packing_play import EnginePacker, come_and_go, drawn, fill
from quorate.model.specs import Placement
from quorate.sim.traces.cluster_traces import read_openb_nodes, read_openb_pods

TRACES: Final = Path(__file__).parents[2] / "shared" / "data" / "traces"
PERCENTS: Final = (50, 75, 90, 100)
"""Fragments are counted when this percentage of the fleet's GPUs has been requested."""


def measure(effort: Effort) -> list[Figure]:
    """Return the fragments that the engine leaves, with best fit as the baseline."""
    if not (TRACES / "openb_pods.csv").is_file():
        print(f"openb: not measured: {TRACES} has no openb_pods.csv", file=sys.stderr)
        return []
    nodes = read_openb_nodes((TRACES / "openb_nodes.csv").read_text("utf-8"))
    jobs = read_openb_pods((TRACES / "openb_pods.csv").read_text("utf-8")).jobs
    sizes = [node.gpus for node in nodes][:: effort.of(1, 10)]
    jobs = jobs[:: effort.of(1, 10)]
    pieces = [Piece(job.name, job.gpus) for job in jobs]
    parts, gpus = parts_of(pieces), sum(sizes)
    packers = _packers(sizes, parts)
    full = drawn(pieces, gpus)
    details: dict[str, float | int | str] = {
        "nodes": len(sizes),
        "GPUs": gpus,
        "pods of whole GPUs": len(pieces),
        "GPUs of these pods": sum(piece.gpus for piece in pieces),
        "pods drawn until the fleet is full": len(full),
    }
    left, mean = dict[str, float](), dict[str, float]()
    for name, make in packers.items():
        began_s = process_time()
        found = fill(make(), full, parts, PERCENTS)
        lives = come_and_go(make(), jobs, parts)
        left[name], mean[name] = found.fragments_at[PERCENTS[-1]], lives.fragments_mean
        shown = ", ".join(f"{at} %: {value:.1f}" for at, value in found.fragments_at.items())
        details[name] = (
            f"filled: {found.gpus_placed} GPUs placed, {found.refused} pods refused, the first at "
            f"{found.first_refusal_gpus} GPUs; fragments at {shown}; recorded: "
            f"{lives.placed} pods placed, {lives.refused} refused, fragments {mean[name]:.2f} on "
            f"average; {process_time() - began_s:.1f} s of CPU"
        )
    return [
        Figure(
            name="openb: expected fragments of the full fleet, production engine",
            unit="GPUs",
            value=left["engine"],
            better="less",
            baseline=Baseline("best fit", left["best fit"]),
            details=details,
        ),
        Figure(
            name="openb: expected fragments on average, pods come and go",
            unit="GPUs",
            value=mean["engine"],
            better="less",
            baseline=Baseline("best fit", mean["best fit"]),
        ),
    ]


def _packers(sizes: Sequence[int], parts: Mapping[int, float]) -> dict[str, Callable[[], Packer]]:
    """Return functions that make each packer with empty nodes."""
    return {
        "engine": lambda: EnginePacker(sizes),
        "engine, classic": lambda: EnginePacker(sizes, Placement.CLASSIC),
        "first fit": lambda: RulePacker(sizes, first_fit),
        "best fit": lambda: RulePacker(sizes, best_fit),
        "gradient": lambda: RulePacker(sizes, least_gradient(parts)),
    }
