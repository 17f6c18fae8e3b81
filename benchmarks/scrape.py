"""The cost of one scrape of the metrics when very many runs wait.

The first half, reading the state, runs on the ledger thread and delays the next commit. The second
half, formatting the text, runs on another thread. The baseline counts the waiting runs by reason at
each scrape; Quorate updates these counts with each event.
"""

from __future__ import annotations

from benchmarks.figure import Baseline, Effort, Figure, cpu_s, median_of
from benchmarks.worlds import FLAVOR, REGION_NAME, fleet
from quorate.ledger.chain import Head
from quorate.model.events import Event, RunRefused, RunSubmitted
from quorate.model.refusal import Refusal, RefusalCode
from quorate.model.selector import REGION
from quorate.model.specs import Owner, Quota, Run
from quorate.model.state.apply_event import apply_all
from quorate.model.state.state import State
from quorate.service.metrics.registry import Metrics
from quorate.service.metrics.tallies import Tallies
from quorate.testing.builders import NOW_MS, budget, envelope, world

REPEATS = 9
LATER_MS = 60_000
_CODES = (
    RefusalCode.INSUFFICIENT_CAPACITY,
    RefusalCode.RESERVED,
    RefusalCode.INSUFFICIENT_FUNDS,
    RefusalCode.WAITING_FOR_UPSTREAM,
)


def measure(effort: Effort) -> list[Figure]:
    """Return the CPU milliseconds of a scrape."""
    waiting, tenants = effort.of(100_000, 5_000), effort.of(10_000, 500)
    state, events = _crowded(waiting, tenants)
    metrics = Metrics(version="bench", operations=())
    apply_all(state, events)
    head, at_ms = Head(height=1, seq=state.seq, hash=bytes(32)), NOW_MS + LATER_MS
    counting_s = cpu_s(lambda: metrics.seen(events, state, head, now_ms=at_ms))
    reading_ms = 1e3 * median_of(REPEATS, lambda: cpu_s(lambda: metrics.collect(state, at_ms)))
    standing = metrics.collect(state, at_ms)
    text = metrics.render(standing).decode()
    writing_ms = 1e3 * median_of(REPEATS, lambda: cpu_s(lambda: metrics.render(standing)))
    walking_ms = 1e3 * median_of(3, lambda: cpu_s(lambda: Tallies().read(state)))
    assert f'quorate_queue_runs{{code="reserved"}} {waiting // 4}.0' in text, "all are there"
    return [
        Figure(
            name="a scrape with many waiting runs",
            unit="ms",
            value=reading_ms + writing_ms,
            better="less",
            target=100,
            baseline=Baseline("the queue walked each time", walking_ms + reading_ms + writing_ms),
            details={
                "waiting": waiting,
                "tenants": tenants,
                "envelopes": tenants,
                "of it on the ledger's thread": reading_ms,
                "lines": text.count("\n"),
                "us to note an event": 1e6 * counting_s / len(events),
            },
        )
    ]


def _crowded(waiting: int, tenants: int) -> tuple[State, list[Event]]:
    """Return tenants with quotas and envelopes, and the events with which ``waiting`` runs wait."""
    quota = Quota(nodes_max=8, concurrent_runs_max=4, gpu_ms_budget=10**9, node_ms_budget=10**9)
    owners = [Owner(name=f"tenant-{n}", quota=quota) for n in range(tenants)]
    lines = [envelope("e", 8, selector=((REGION, REGION_NAME),)) for _ in owners]
    state = world(
        nodes=fleet(10_000),
        owners=owners,
        budgets=[budget(f"b-{o.name}", o.name, e) for o, e in zip(owners, lines, strict=True)],
    )
    events: list[Event] = []
    for number in range(waiting):
        name, at_ms = f"run-{number}", NOW_MS + number // 10
        run = Run(name=name, owner=f"tenant-{number % tenants}", flavors=(FLAVOR,), gpus=8)
        refusal = Refusal(code=_CODES[number % len(_CODES)], subject="x", wanted=8, short=8)
        events += (
            RunSubmitted(at_ms=at_ms, actor="bench", run=run),
            RunRefused(at_ms=at_ms, actor="bench", run=name, refusal=refusal),
        )
    return state, events
