"""The latency of ``whoami`` and of a submission while eight other callers read in loops.

The fleet is full and 50,000 runs wait. Eight auditors, each with its own connection, call list,
queue, plan and explain, one request after another. They run in another process than the probe, so
that reading their long responses does not delay the probe. The probe calls ``whoami`` at fixed
instants, and submits a run every second. The baseline is the same probe without other callers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import count, islice
from multiprocessing import get_context
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Final

import msgspec

from benchmarks.figure import Baseline, Effort, Figure, percentile
from benchmarks.http_load import Connection, Target, ask_once, connected
from benchmarks.queues import Busy, budgets_of, history, owners_of
from benchmarks.serving import served
from benchmarks.worlds import FLAVOR, fleet
from quorate.adapters.clock_system import SystemClock
from quorate.adapters.stores.store_sqlite import SqliteStore
from quorate.cli.creation import create_ledger
from quorate.core.commands import Applied, Apply
from quorate.documents import API_VERSION
from quorate.ledger.chain import seal
from quorate.ledger.fold import replay
from quorate.ledger.snapshot import take
from quorate.loop.engine import Engine
from quorate.model.amounts import DAY_MS
from quorate.model.events import Event
from quorate.model.specs import Pool
from quorate.model.state.state import State

NODES: Final = 10_000
OWNERS: Final = 500
WAITING: Final = 50_000
CALLERS: Final = 8
WHOAMI_MS: Final = 50
PROBES_PER_S: Final = 20
BLOCK_EVENTS: Final = 10_000
NOTICE_MS: Final = 7 * DAY_MS
OUT: Final = Path(__file__).parent / "out"

Times = dict[str, list[float]]


def measure(effort: Effort) -> list[Figure]:
    """Return the latencies of ``whoami``, of submissions and of the reads."""
    OUT.mkdir(exist_ok=True)
    nodes, owners, waiting = effort.of(NODES, 100), effort.of(OWNERS, 20), effort.of(WAITING, 500)
    with TemporaryDirectory(dir=OUT) as folder:
        runs = full_ledger(Path(folder) / "service.db", nodes, owners, waiting)
        with served(Path(folder)) as service:
            admin, seconds = service.target, effort.of(30, 3)
            auditors = [_auditor(admin, number) for number in range(CALLERS)]
            alone = asyncio.run(_probe(admin, "alone", effort.of(10, 2)))
            with ProcessPoolExecutor(1, get_context("spawn")) as pool:
                reading = pool.submit(read_in_loops, auditors, runs[:: len(runs) // 200], seconds)
                # Readers read their state with their first answers.
                asyncio.run(_warm(admin))
                probed = asyncio.run(_probe(admin, "beside", seconds - 2))
                read = reading.result()
    return _figures(alone, probed, read, seconds, {"nodes": nodes, "waiting": waiting})


def _figures(
    alone: Times, probed: Times, read: Times, seconds: int, size: dict[str, int]
) -> list[Figure]:
    whoami, quiet = probed["whoami"], alone["whoami"]
    slowest = {
        f"{what}, {part}": 1e3 * percentile(times, percent)
        for what, times in read.items()
        for part, percent in (("median ms", 50), ("p99 ms", 99))
    }
    return [
        Figure(
            name=f"whoami p99 while {CALLERS} callers read",
            unit="ms",
            value=1e3 * percentile(whoami, 99),
            better="less",
            target=WHOAMI_MS,
            baseline=Baseline("no other callers", 1e3 * percentile(quiet, 99)),
            details={
                **size,
                "asked": len(whoami),
                "median ms": 1e3 * percentile(whoami, 50),
                "most ms": 1e3 * max(whoami),
            },
        ),
        Figure(
            name="submit, median while they read",
            unit="ms",
            value=1e3 * percentile(probed["submit"], 50),
            better="less",
            baseline=Baseline("no other callers", 1e3 * percentile(alone["submit"], 50)),
            details={"asked": len(probed["submit"]), "most ms": 1e3 * max(probed["submit"])},
        ),
        Figure(
            name="reads answered",
            unit="/s",
            value=sum(map(len, read.values())) / seconds,
            better="more",
            details=slowest,
        ),
    ]


def full_ledger(path: Path, nodes: int, owners: int, waiting: int) -> list[str]:
    """Make a ledger of a full fleet with a queue at ``path``; return the waiting runs."""
    clock = SystemClock()
    create_ledger(str(path), clock, actor="bench")
    machines = fleet(nodes, nodes_per_domain=max(1, nodes // 128))
    with SqliteStore.open(path) as store:
        engine = Engine.open(store, clock)
        now_ms = engine.now_ms()
        specs: tuple[Applied, ...] = (
            # No start uses a conflict, because other benchmarks measure draws.
            Pool(name="default", notice_ms=NOTICE_MS),
            *machines,
            *owners_of(owners),
            *budgets_of(owners, nodes, now_ms=now_ms),
        )
        receipt = engine.execute(Apply(specs), actor="bench")
        assert not receipt.decision.refusals, receipt.decision.refusals
        found = Busy(State(), Random(1), owners, now_ms=engine.recorded_ms)
        events = history(found, [node.name for node in machines], waiting)
        head = engine.head
        for part in _parts(events):
            block = seal(head, part)
            store.append(block, expected=head)
            head = block.head
        state, _ = replay(store.blocks())
        assert len(state.pending) == waiting, len(state.pending)
        store.save_snapshot(head, take(state))
        return list(state.pending)


def _parts(events: Iterator[Event]) -> Iterator[list[Event]]:
    while part := list(islice(events, BLOCK_EVENTS)):
        yield part


def _auditor(admin: Target, number: int) -> Target:
    """Return the service with the token of an auditor, who sees everything."""
    body = msgspec.json.encode({"role": "auditor", "user": f"auditor{number}"})
    answer = asyncio.run(ask_once(admin, admin.post("/api/v1/tokens", body)))
    return Target(admin.host, admin.port, msgspec.json.decode(answer)["token"]["secret"])


async def _warm(target: Target) -> None:
    await ask_once(target, target.get("/api/v1/queue?limit=1"))


async def _probe(target: Target, name: str, seconds: int) -> Times:
    """Return the times of ``whoami`` at fixed instants, and of a submission every second."""
    times: Times = {"whoami": [], "submit": []}

    async def ask(connection: Connection, what: str, request: bytes, due: float) -> None:
        status, body = await connection.ask(request)
        assert status == 200, body[:500]
        times[what].append(perf_counter() - due)

    async with connected(target, 2) as (first, second), asyncio.TaskGroup() as tasks:
        start, submitting = perf_counter(), None
        for number in range(seconds * PROBES_PER_S):
            due = start + number / PROBES_PER_S
            await asyncio.sleep(max(0.0, due - perf_counter()))
            if number % PROBES_PER_S == 0 and (submitting is None or submitting.done()):
                request = _submit(target, f"{name}-{number}")
                submitting = tasks.create_task(ask(second, "submit", request, perf_counter()))
            await ask(first, "whoami", target.get("/api/v1/whoami"), due)
    return times


def _submit(target: Target, name: str) -> bytes:
    document = {
        "apiVersion": API_VERSION,
        "kind": "Run",
        "metadata": {"name": name},
        "spec": {"owner": "o001", "resources": {"gpuType": FLAVOR, "totalGPUs": 8}},
    }
    return target.post("/api/v1/runs", msgspec.json.encode({"document": document}))


def read_in_loops(callers: list[Target], runs: list[str], seconds: int) -> Times:
    """Return the times of each kind of request, sent by all ``callers`` for ``seconds``."""
    return asyncio.run(_read_in_loops(callers, runs, seconds))


async def _read_in_loops(callers: list[Target], runs: list[str], seconds: int) -> Times:
    times: Times = {}
    end = perf_counter() + seconds

    async def loop(target: Target, first: int) -> None:
        async with connected(target, 1) as (connection,):
            for number in count(first):
                if perf_counter() >= end:
                    return
                run = runs[number * 7 % len(runs)]
                what, path = (
                    ("list", "/runs?limit=1000"),
                    ("queue", "/queue?limit=100"),
                    ("plan", f"/runs/{run}/plan"),
                    ("explain", f"/runs/{run}/explanation"),
                )[number % 4]
                start = perf_counter()
                status, body = await connection.ask(target.get(f"/api/v1{path}"))
                assert status == 200, body[:500]
                times.setdefault(what, []).append(perf_counter() - start)

    await asyncio.gather(*(loop(target, number) for number, target in enumerate(callers)))
    return times
