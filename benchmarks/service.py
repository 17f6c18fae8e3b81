"""Submitting through the service: REST on loopback, every commit durable on SQLite.

Sixteen clients submit runs one by one, and four clients submit batches. Then requests are sent at
half the target rate, at fixed instants, to measure latencies without overload. The baseline checks,
decides and commits the same documents in process, with the engine alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, Final

import msgspec

from benchmarks.figure import Baseline, Effort, Figure, percentile
from benchmarks.http_load import Load, Target, ask_once, closed_load, open_load
from benchmarks.serving import Served, served
from benchmarks.worlds import FAMILY_SIZE, FLAVOR, budgets, families, fleet, owner_name
from quorate.adapters.clock_system import SystemClock
from quorate.adapters.stores.store_sqlite import SqliteStore
from quorate.core.commands import Applied, Apply, Submit
from quorate.documents import API_VERSION, Documents, parse_tree
from quorate.documents.render import render
from quorate.loop.engine import Engine
from quorate.model.specs import Run

NODES: Final = 10_000
OWNERS: Final = 200
CLIENTS: Final = 16
BATCH_CLIENTS: Final = 4
BATCH: Final = 50
ALONE_PER_S: Final = 300
BATCHED_PER_S: Final = 1_000
LATENCY_MS: Final = 100
GANGS: Final = (1, 1, 2, 2)
"""The GPUs of a run: so few that all submitted runs fit into the fleet."""
OUT: Final = Path(__file__).parent / "out"

_ENCODER: Final = msgspec.json.Encoder(decimal_format="number")

Tree = dict[str, Any]


def measure(effort: Effort) -> list[Figure]:
    """Return runs per second by REST, and latencies at half the target rate."""
    OUT.mkdir(exist_ok=True)
    trees = documents()
    with TemporaryDirectory(dir=OUT) as folder:
        raw = _raw(Path(folder), trees, effort)
        with served(Path(folder)) as service:
            declare(service.target, fleet_specs())
            return [
                _alone(service, trees, effort, raw[0]),
                _batched(service, trees, effort, raw[1]),
                *_half(service.target, trees, effort),
            ]


def documents() -> Iterator[Tree]:
    """Yield Run documents without end, each with a different name."""
    rng = Random(9)
    for number in count():
        team = rng.randrange(OWNERS)
        yield {
            "apiVersion": API_VERSION,
            "kind": "Run",
            "metadata": {"name": f"train-{number:07d}"},
            "spec": {
                # Parents do not run work; they pay for their teams.
                "owner": owner_name(team if team % FAMILY_SIZE else team + 1),
                "user": "alice@example.org",
                "resources": {"gpuType": FLAVOR, "totalGPUs": rng.choice(GANGS)},
                "runtime": {"expectedDuration": "4h", "checkpoint": "3m"},
                "command": ["python", "train.py", "--config", "base.yaml"],
                "nonce": f"{rng.getrandbits(128):032x}",
            },
        }


def fleet_specs() -> tuple[Applied, ...]:
    """Return a fleet with room for all submitted runs, and the owners and budgets that pay."""
    lines = budgets(OWNERS, concurrency=128, now_ms=SystemClock().now_ms())
    return (*fleet(NODES), *families(OWNERS), *lines)


def declare(target: Target, specs: tuple[Applied, ...]) -> None:
    """Apply ``specs`` to the service, in several requests because their size is limited."""
    for start in range(0, len(specs), 2_000):
        trees = [render(spec) for spec in specs[start : start + 2_000]]
        body = _ENCODER.encode({"documents": trees})
        asyncio.run(ask_once(target, target.post("/api/v1/apply", body)))


def submit_alone(target: Target, tree: Tree) -> bytes:
    """Return the request that submits one run."""
    return target.post("/api/v1/runs", msgspec.json.encode({"document": tree}))


def submit_batch(target: Target, trees: list[Tree]) -> bytes:
    """Return the request that submits runs together."""
    return target.post("/api/v1/runs/batch", msgspec.json.encode({"documents": trees}))


def _alone(service: Served, trees: Iterator[Tree], effort: Effort, raw: Baseline) -> Figure:
    runs = effort.of(4_000, 200)
    requests = [submit_alone(service.target, tree) for tree in islice(trees, runs)]
    before_s = service.cpu_s()
    load = asyncio.run(closed_load(service.target, requests, CLIENTS))
    used_s = service.cpu_s() - before_s
    return Figure(
        name="submits one by one by REST",
        unit="/s",
        value=runs / load.seconds,
        better="more",
        target=ALONE_PER_S,
        baseline=raw,
        details={
            "clients": CLIENTS,
            "runs": runs,
            "ms of the service's CPU a run": 1e3 * used_s / runs,
            **_latencies(load),
        },
    )


def _batched(service: Served, trees: Iterator[Tree], effort: Effort, raw: Baseline) -> Figure:
    batches = effort.of(120, 8)
    requests = [submit_batch(service.target, list(islice(trees, BATCH))) for _ in range(batches)]
    before_s = service.cpu_s()
    load = asyncio.run(closed_load(service.target, requests, BATCH_CLIENTS))
    used_s, runs = service.cpu_s() - before_s, batches * BATCH
    return Figure(
        name="submits in batches by REST",
        unit="/s",
        value=runs / load.seconds,
        better="more",
        target=BATCHED_PER_S,
        baseline=raw,
        details={
            "clients": BATCH_CLIENTS,
            "runs a batch": BATCH,
            "runs": runs,
            "ms of the service's CPU a run": 1e3 * used_s / runs,
            **_latencies(load),
        },
    )


def _half(target: Target, trees: Iterator[Tree], effort: Effort) -> list[Figure]:
    """Return the latencies at half the target rates."""
    seconds = effort.of(20, 2)
    alone_per_s, batches_per_s = ALONE_PER_S / 2, BATCHED_PER_S / 2 / BATCH
    alone = [submit_alone(target, t) for t in islice(trees, int(seconds * alone_per_s))]
    together = [
        submit_batch(target, list(islice(trees, BATCH)))
        for _ in range(int(seconds * batches_per_s))
    ]
    loads = {
        f"p99 of {alone_per_s:.0f} submits/s": open_load(target, alone, CLIENTS, alone_per_s),
        f"p99 of batches, {BATCHED_PER_S // 2} runs/s": open_load(
            target, together, BATCH_CLIENTS, batches_per_s
        ),
    }
    found = []
    for name, load in loads.items():
        done = asyncio.run(load)
        found.append(
            Figure(
                name=name,
                unit="ms",
                value=1e3 * percentile(done.latencies_s, 99),
                better="less",
                target=LATENCY_MS,
                details=_latencies(done),
            )
        )
    return found


def _latencies(load: Load) -> dict[str, float]:
    times = load.latencies_s
    return {
        "median ms": 1e3 * percentile(times, 50),
        "p99 ms": 1e3 * percentile(times, 99),
        "most ms": 1e3 * max(times),
    }


def _raw(folder: Path, trees: Iterator[Tree], effort: Effort) -> tuple[Baseline, Baseline]:
    """Return the rates of the same work in process: with a commit per run, and per batch."""
    alone, batches = effort.of(500, 50), effort.of(40, 4)
    with SqliteStore.create(folder / "raw.db") as store:
        clock = SystemClock()
        engine = Engine.create(store, clock, ledger_id="raw", public_key="", actor="bench")
        receipt = engine.execute(Apply(fleet_specs()), actor="bench")
        assert not receipt.decision.refusals, receipt.decision.refusals
        start = perf_counter()
        for tree in islice(trees, alone):
            engine.execute(Submit(_judged(tree)), actor="bench")
        alone_s, start = perf_counter() - start, perf_counter()
        for _ in range(batches):
            commands = [Submit(_judged(tree)) for tree in islice(trees, BATCH)]
            engine.execute_all(commands, actor="bench")
        together_s = perf_counter() - start
    return (
        Baseline("in process, a commit each", alone / alone_s),
        Baseline(f"in process, {BATCH} a commit", batches * BATCH / together_s),
    )


def _judged(tree: Tree) -> Run:
    parsed = parse_tree(None, tree)
    assert isinstance(parsed, Documents), parsed
    run = parsed.items[0].spec
    assert isinstance(run, Run), run
    return run
