"""The goodput of a service that gets more requests than it can answer.

Clients that wait for their responses measure the capacity. Then users of many tenants send requests
at fixed instants, at 0.5, 1, 2 and 5 times this rate, whether or not earlier requests were
answered. A response is good if it comes within the time that a request may wait; rejected requests
are counted separately. At half the capacity, no request may be rejected.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Final

import msgspec

from benchmarks.figure import Baseline, Effort, Figure, percentile
from benchmarks.http_load import Connection, Target, ask_once, closed_load, connected
from benchmarks.service import OUT, OWNERS, Tree, declare, documents, fleet_specs, submit_alone
from benchmarks.serving import Served, served
from benchmarks.worlds import FAMILY_SIZE, owner_name

CLIENTS: Final = 16
CONNECTIONS: Final = 1_200
GOOD_S_MAX: Final = 5.0
KEPT_PERCENT: Final = 80
TIMES: Final = (0.5, 1, 2, 5)


@dataclass(slots=True)
class Outcome:
    """How requests at one rate ended, and the seconds until all had ended."""

    latencies_s: list[float]
    turned_away: int = 0
    late: int = 0
    seconds: float = 0.0
    client_s: float = 0.0
    """CPU seconds of the clients, which share the machine with the service."""
    loop_s: float = 0.0
    """CPU seconds of the service's event loop, the only thread that handles rejected requests."""
    ledger_s: float = 0.0
    """CPU seconds of the service's other threads, mainly the ledger thread."""

    @property
    def good_per_s(self) -> float:
        """Good responses per second."""
        return len(self.latencies_s) / self.seconds


def measure(effort: Effort) -> list[Figure]:
    """Return the good responses per second at 0.5, 1, 2 and 5 times the service's capacity."""
    OUT.mkdir(exist_ok=True)
    trees = documents()
    seconds = effort.of(10, 2)
    with TemporaryDirectory(dir=OUT) as folder, served(Path(folder)) as service:
        declare(service.target, fleet_specs())
        teams = [n for n in range(OWNERS) if n % FAMILY_SIZE]
        users = [_user(service.target, owner_name(n)) for n in teams]
        first = [
            submit_alone(service.target, each) for each in islice(trees, effort.of(1_500, 200))
        ]
        load = asyncio.run(closed_load(service.target, first, CLIENTS))
        can_per_s = len(first) / load.seconds
        found = {
            times: _measured(service, _requests(users, trees, times * can_per_s, seconds), seconds)
            for times in TIMES
        }
    once = found[1].good_per_s
    least = found[TIMES[0]]
    return [
        Figure(
            name=f"turned away at {TIMES[0]:g}x",
            unit="requests",
            value=least.turned_away,
            better="less",
            target=0,
        ),
        *(_figure(times, outcome, can_per_s, once) for times, outcome in found.items()),
    ]


def _figure(times: float, outcome: Outcome, can_per_s: float, once: float) -> Figure:
    return Figure(
        name=f"goodput at {times:g}x",
        unit="/s",
        value=outcome.good_per_s,
        better="more",
        target=KEPT_PERCENT * once / 100 if times == TIMES[-1] else None,
        baseline=Baseline("goodput at 1x", once),
        details={
            "sent a second": times * can_per_s,
            "turned away": outcome.turned_away,
            "late": outcome.late,
            "CPU of clients": outcome.client_s / outcome.seconds,
            "CPU of the event loop": outcome.loop_s / outcome.seconds,
            "CPU of the ledger": outcome.ledger_s / outcome.seconds,
            "median ms": 1e3 * percentile(outcome.latencies_s or [0.0], 50),
            "p99 ms": 1e3 * percentile(outcome.latencies_s or [0.0], 99),
        },
    )


def _user(target: Target, tenant: str) -> Target:
    """Return ``target`` with the token of a user of ``tenant``."""
    body = msgspec.json.encode({"role": "user", "user": "ann", "tenant": tenant})
    answer = asyncio.run(ask_once(target, target.post("/api/v1/tokens", body)))
    secret = msgspec.json.decode(answer)["token"]["secret"]
    return Target(target.host, target.port, secret)


def _requests(
    users: Sequence[Target], trees: Iterator[Tree], per_s: float, seconds: int
) -> list[bytes]:
    """Return the requests of ``seconds``, by all users in turn, each for the user's tenant."""
    made = []
    for number, tree in enumerate(islice(trees, int(per_s * seconds))):
        spec = {key: value for key, value in tree["spec"].items() if key not in ("owner", "user")}
        made.append(submit_alone(users[number % len(users)], tree | {"spec": spec}))
    return made


def _measured(service: Served, requests: Sequence[bytes], seconds: int) -> Outcome:
    """Return the results of ``requests``, and their CPU time in each process."""
    loop_s, all_s, client_s = service.loop_cpu_s(), service.cpu_s(), process_time()
    outcome = asyncio.run(_sent(service.target, requests, seconds))
    outcome.client_s = process_time() - client_s
    outcome.loop_s = service.loop_cpu_s() - loop_s
    outcome.ledger_s = service.cpu_s() - all_s - outcome.loop_s
    return outcome


async def _sent(target: Target, requests: Sequence[bytes], seconds: int) -> Outcome:
    """Return the results of ``requests``, sent at fixed instants over ``seconds``."""
    outcome = Outcome([])
    async with connected(target, CONNECTIONS) as connections:
        free: asyncio.Queue[Connection] = asyncio.Queue()
        for connection in connections:
            free.put_nowait(connection)

        async def send(request: bytes, due: float) -> None:
            connection = await free.get()
            status, body = await connection.ask(request)
            took_s = perf_counter() - due
            assert status in (200, 429, 503), body[:500]
            if status != 200:
                outcome.turned_away += 1
            elif took_s > GOOD_S_MAX:
                outcome.late += 1
            else:
                outcome.latencies_s.append(took_s)
            free.put_nowait(connection)

        start = perf_counter()
        async with asyncio.TaskGroup() as tasks:
            for number, request in enumerate(requests):
                due = start + number * seconds / len(requests)
                await asyncio.sleep(max(0.0, due - perf_counter()))
                tasks.create_task(send(request, due))
        outcome.seconds = perf_counter() - start
    return outcome
