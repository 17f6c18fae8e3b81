"""The latency of small writes while the service decides large batches of other callers.

Four users of four tenants submit batch after batch, each with the most runs that a request may
have, and an admin applies the whole fleet again and again. The probe runs in another process than
these callers: it calls ``whoami`` at fixed instants, and every half second it submits a run and
issues and revokes a token. The baseline is the same probe without other callers.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import count, islice, repeat
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Final

import msgspec

from benchmarks.figure import Baseline, Effort, Figure, percentile
from benchmarks.http_load import Connection, Target, ask_once, connected
from benchmarks.service import OUT, Tree, declare, documents, fleet_specs, submit_alone
from benchmarks.serving import served
from benchmarks.worlds import fleet, owner_name
from quorate.documents import render
from quorate.operations.batch_bounds import WIDTHS_MAX

NODES: Final = 10_000
CALLERS: Final = 4
PROBES_PER_S: Final = 20
WRITES_PER_S: Final = 2
TOO_LARGE: Final = 413
"""The response to a batch that the service gave up because deciding took too long."""
WHOAMI_MS: Final = 50
WRITE_MS: Final = 3_000
"""The target of a write: the time to decide a large request (at most 2 s of CPU) and to commit."""

Times = dict[str, list[float]]


def measure(effort: Effort) -> list[Figure]:
    """Return the 99th percentiles of ``whoami`` and of small writes during large batches."""
    OUT.mkdir(exist_ok=True)
    seconds, nodes = effort.of(20, 3), effort.of(NODES, 500)
    with TemporaryDirectory(dir=OUT) as folder, served(Path(folder)) as service:
        admin = service.target
        declare(admin, fleet_specs())
        users = [_user(admin, owner_name(number)) for number in (1, 2, 3, 4, 6)]
        trees = documents()
        alone = asyncio.run(_probe(admin, users[-1], trees, effort.of(5, 2)))
        with ProcessPoolExecutor(1, get_context("spawn")) as pool:
            loading = pool.submit(load, admin, users[:CALLERS], nodes, seconds)
            asyncio.run(asyncio.sleep(2))
            probed = asyncio.run(_probe(admin, users[-1], trees, seconds - 2))
            large = loading.result()
    details = {f"{what}, most s": max(times) for what, times in large.items()} | {
        what: len(times) for what, times in large.items()
    }
    return [
        Figure(
            name=f"{what} p99 beside large batches",
            unit="ms",
            value=1e3 * percentile(times, 99),
            better="less",
            target=WHOAMI_MS if what == "whoami" else WRITE_MS,
            baseline=Baseline("no other callers", 1e3 * percentile(alone[what], 99)),
            details={"asked": len(times), "median ms": 1e3 * percentile(times, 50)} | details,
        )
        for what, times in probed.items()
    ]


def _user(admin: Target, tenant: str) -> Target:
    body = msgspec.json.encode({"role": "user", "user": "ann", "tenant": tenant})
    answer = asyncio.run(ask_once(admin, admin.post("/api/v1/tokens", body)))
    return Target(admin.host, admin.port, msgspec.json.decode(answer)["token"]["secret"])


def _of_user(tree: Tree) -> Tree:
    """Return ``tree`` as a user writes it: the user's token determines owner and user."""
    spec = {key: value for key, value in tree["spec"].items() if key not in ("owner", "user")}
    return tree | {"spec": spec}


async def _probe(admin: Target, user: Target, trees: Iterator[Tree], seconds: int) -> Times:
    times: Times = {"whoami": [], "submit": [], "revoke": []}

    async def timed(connection: Connection, what: str, request: bytes, due: float) -> bytes:
        status, body = await connection.ask(request)
        assert status == 200, body[:500]
        times[what].append(perf_counter() - due)
        return body

    async def write(connection: Connection) -> None:
        request = submit_alone(user, _of_user(next(trees)))
        await timed(connection, "submit", request, perf_counter())
        asked = msgspec.json.encode({"role": "auditor", "user": "stray"})
        status, body = await connection.ask(admin.post("/api/v1/tokens", asked))
        assert status == 200, body[:500]
        name = msgspec.json.decode(body)["token"]["id"]
        revoke = admin.post(f"/api/v1/tokens/{name}", b"").replace(b"POST", b"DELETE", 1)
        await timed(connection, "revoke", revoke, perf_counter())

    async with connected(admin, 2) as (first, second), asyncio.TaskGroup() as tasks:
        start, writing = perf_counter(), None
        for number in range(seconds * PROBES_PER_S):
            due = start + number / PROBES_PER_S
            await asyncio.sleep(max(0.0, due - perf_counter()))
            is_time = number % (PROBES_PER_S // WRITES_PER_S) == 0
            if is_time and (writing is None or writing.done()):
                writing = tasks.create_task(write(second))
            await timed(first, "whoami", admin.get("/api/v1/whoami"), due)
    return times


def load(admin: Target, users: list[Target], nodes: int, seconds: int) -> Times:
    """Send batches and fleets in loops for ``seconds``; return the seconds of each request."""
    return asyncio.run(_load(admin, users, nodes, seconds))


async def _load(admin: Target, users: list[Target], nodes: int, seconds: int) -> Times:
    times: Times = defaultdict(list)
    end = perf_counter() + seconds
    trees = [render(node) for node in fleet(nodes)]
    body = msgspec.json.encode({"documents": trees})
    whole = repeat(admin.post("/api/v1/apply", body))
    await asyncio.gather(
        *(
            _send(user, _batches(user, number), "batch", times, end)
            for number, user in enumerate(users)
        ),
        _send(admin, whole, "fleet", times, end),
    )
    return dict(times)


async def _send(
    target: Target, requests: Iterator[bytes], what: str, times: Times, end: float
) -> None:
    """Send ``requests`` one after another until ``end``; wait one second after a 429 or 503."""
    async with connected(target, 1) as (connection,):
        while perf_counter() < end:
            start = perf_counter()
            status, body = await connection.ask(next(requests))
            assert status in (200, TOO_LARGE, 429, 503), body[:500]
            if status in (429, 503):
                await asyncio.sleep(1)
            else:
                times[f"{what}, {'given up' if status == TOO_LARGE else 'recorded'}"].append(
                    perf_counter() - start
                )


def _batches(target: Target, number: int) -> Iterator[bytes]:
    """Yield batches of user ``number``, without end."""
    trees = documents()
    for batch in count():
        runs = [_of_user(tree) for tree in islice(trees, WIDTHS_MAX)]
        for place, each in enumerate(runs):
            each["metadata"] = {"name": f"batch-{number}-{batch}-{place}"}
        yield target.post("/api/v1/runs/batch", msgspec.json.encode({"documents": runs}))
