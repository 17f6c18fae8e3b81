"""The command: measures, prints figures and targets, writes JSON, fails on a missed target."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter

from benchmarks import (
    archive,
    batches,
    beside_slurm,
    bodies,
    command,
    cover,
    custom_resources,
    dashboard,
    durable,
    etcd_ledger,
    gaming,
    gavel_default,
    gavel_traces,
    memory,
    openb_packing,
    overload,
    philly_rounds,
    philly_trace,
    placement,
    planning,
    policies,
    policies_pool,
    policies_water,
    quorum,
    racing,
    reads,
    replay,
    resolver,
    rounds_pool,
    rounds_starvation,
    scrape,
    service,
    tenancy,
    thrash,
)
from benchmarks.figure import Effort, Figure
from benchmarks.machine import describe_machine
from benchmarks.report import details, table, write_json

BENCHMARKS: dict[str, Callable[[Effort], list[Figure]]] = {
    "placement": placement.measure,
    "cover": cover.measure,
    "durable": durable.measure,
    "racing": racing.measure,
    "etcd": etcd_ledger.measure,
    "quorum": quorum.measure,
    "kubernetes": custom_resources.measure,
    "replay": replay.measure,
    "archive": archive.measure,
    "command": command.measure,
    "resolver": resolver.measure,
    "planning": planning.measure,
    "memory": memory.measure,
    "gaming": gaming.measure,
    "tenancy": tenancy.measure,
    "scrape": scrape.measure,
    "bodies": bodies.measure,
    "service": service.measure,
    "reads": reads.measure,
    "dashboard": dashboard.measure,
    "overload": overload.measure,
    "batches": batches.measure,
    "slurm": beside_slurm.measure,
    "openb": openb_packing.measure,
    "philly": philly_trace.measure,
    "philly-rounds": philly_rounds.measure,
    "gavel": gavel_traces.measure,
    "gavel-default": gavel_default.measure,
    "thrash": thrash.measure,
    "policies": policies.measure,
    "water": policies_water.measure,
    "pool-policies": policies_pool.measure,
    "rounds-pool": rounds_pool.measure,
    "rounds-starvation": rounds_starvation.measure,
}
LONG = frozenset({"philly-rounds"})
"""Benchmarks that take a quarter of an hour or more: measured only if ``--only`` names them."""
RESULTS = Path(__file__).parent / "out" / "results.json"


def main(args: Sequence[str]) -> int:
    """Return 0 if every target is met, and 1 if a target is missed.

    Also return 1 if a benchmark named by ``--only`` gave no figure; the benchmark prints why.
    """
    asked = _parse(args)
    machine = describe_machine()
    print(", ".join(f"{name} {value}" for name, value in machine.items()))
    if asked.quick:
        print("quick: small sizes; a missed target does not fail")
    figures: list[Figure] = []
    unmeasured: list[str] = []
    for name in asked.only or (name for name in BENCHMARKS if name not in LONG):
        start = perf_counter()
        found = BENCHMARKS[name](Effort(quick=asked.quick))
        figures += found
        if not found:
            unmeasured.append(name)
            continue
        print(
            f"\n{name} ({perf_counter() - start:.0f} s)\n{table(found)}\n{details(found)}",
            flush=True,
        )
    write_json(asked.json, figures, machine, quick=asked.quick)
    print(f"\nwritten to {asked.json}")
    missed = [figure.name for figure in figures if figure.ok is False]
    if missed:
        print(f"below target: {', '.join(missed)}")
    if unmeasured:
        print(f"not measured: {', '.join(unmeasured)}")
    is_short = bool(missed) and not asked.quick
    return 1 if is_short or (asked.only and unmeasured) else 0


def _parse(args: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "--only",
        action="append",
        choices=BENCHMARKS,
        metavar="NAME",
        help=f"measure only this; may be given again: {', '.join(BENCHMARKS)}; "
        f"without it all are measured but {', '.join(LONG)}",
    )
    parser.add_argument("--quick", action="store_true", help="small sizes, no targets")
    parser.add_argument(
        "--json", type=Path, default=RESULTS, metavar="FILE", help="where the figures are written"
    )
    return parser.parse_args(args)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
