"""Metrics for Prometheus: counters of events and requests, and gauges read at a scrape.

The thread that owns the ledger counts events after their block is durable. Requests are counted on
the thread that answers them. A scrape has two halves: ``collect`` reads the state on the ledger
thread, and ``render`` writes the metrics as text on any thread. ``metric_table.py`` has every name.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Final

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.core import Metric as Family
from prometheus_client.registry import Collector

from quorate import __version__
from quorate.ledger.chain import GENESIS, Head, open_blocks
from quorate.loop.engine import Engine
from quorate.model.events import Event
from quorate.model.refusal import Refusal
from quorate.model.state.state_view import StateView
from quorate.operations.table import OPERATIONS
from quorate.service.accounting.accounting_counts import AccountingCounts
from quorate.service.metrics import metric_table as m
from quorate.service.metrics.counting import Counting
from quorate.service.metrics.gauges import Standing, gauges
from quorate.service.metrics.registering import counter, gauge, histogram
from quorate.service.metrics.tallies import Tallies
from quorate.service.receivers.delivery_counts import DeliveryCounts

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST
"""The content type of a scrape."""
UNKNOWN: Final = "unknown"
"""The operation of a request that has no route, or was rejected before routing."""
OWN: Final = (
    *("healthz", "readyz", "version", "openapi", "metrics"),
    *("page", "page-file", "session", "sign-in", "sign-out"),
    UNKNOWN,
)
"""Requests to the service that are not operations of the table."""
_MS: Final = 1_000
_STATUS_UNKNOWN: Final = 500
"""The status of a request that ended without an answer."""


@dataclass(slots=True)
class Request:
    """A request that is being answered; its handler sets the HTTP status.

    A gRPC call has the status that the same response would have in REST. The operation may be set
    later, when it is known.
    """

    operation: str
    status: int = _STATUS_UNKNOWN
    answered_s: float | None = None

    def answer(self, status: int) -> None:
        """Record the status; a stream does so when it begins."""
        self.status, self.answered_s = status, perf_counter()


class Metrics:
    """All metrics of one daemon, in a registry for these metrics only.

    ``operations`` are the names under which requests may be counted. ``disk`` is a folder on the
    disk whose free space is reported.
    """

    def __init__(
        self, *, version: str, operations: Collection[str], disk: Path | None = None
    ) -> None:
        assert len(operations) <= m.OPERATIONS_MAX, len(operations)
        self.registry = CollectorRegistry()
        ProcessCollector(namespace="quorate", registry=self.registry)
        self._operations = frozenset(operations)
        self._tallies = Tallies()
        self._head = GENESIS
        self._counting = Counting(self.registry)
        self._requests = counter(self.registry, m.REQUESTS)
        self._in_flight = gauge(self.registry, m.IN_FLIGHT)
        self._shed = counter(self.registry, m.REQUESTS_SHED)
        self._request_seconds = histogram(self.registry, m.REQUEST_SECONDS)
        self._commit_seconds = histogram(self.registry, m.COMMIT_SECONDS)
        self._commit_commands = histogram(self.registry, m.COMMIT_COMMANDS)
        self._commit_failures = counter(self.registry, m.COMMIT_FAILURES)
        self.accounting = AccountingCounts(self.registry)
        self._events = counter(self.registry, m.LEDGER_EVENTS)
        self._lag = histogram(self.registry, m.LAG)
        self._watchers = gauge(self.registry, m.WATCHERS)
        self._dropped = counter(self.registry, m.WATCHERS_DROPPED)
        self.deliveries = {
            kind: DeliveryCounts(self.registry, of) for kind, of in m.DELIVERY_METRICS.items()
        }
        self._ready = gauge(self.registry, m.READY)
        self._leading = gauge(self.registry, m.LEADING)
        self._leader_term = gauge(self.registry, m.LEADER_TERM)
        self._follow_lag = gauge(self.registry, m.FOLLOW_LAG)
        self._outage = gauge(self.registry, m.OUTAGE)
        self._outages: set[str] = set()
        gauge(self.registry, m.BUILD).labels(version).set(1)
        if disk is not None:
            room = gauge(self.registry, m.DISK_FREE)
            room.set_function(lambda: shutil.disk_usage(disk).free)

    # --- On the thread that owns the ledger ---

    def opened(self, engine: Engine) -> None:
        """Start with the present ledger: earlier events are not counted."""
        self._tallies.read(engine.view)
        self._head = engine.head

    def follow(self, engine: Engine) -> None:
        """Count all events recorded since the last call, by any writer."""
        blocks = engine.seen.blocks(from_height=self._head.height + 1)
        for head, events in open_blocks(blocks, after=self._head):
            self.seen(events, engine.view, head, now_ms=engine.now_ms())

    def seen(self, events: Sequence[Event], view: StateView, head: Head, *, now_ms: int) -> None:
        """Count events that have just become durable under ``head``, and that ``view`` includes."""
        self._head = head
        self._counting.seen(events, view)
        self._tallies.seen(events, view)
        self._events.inc(len(events))
        if events:
            self._lag.observe(max(0, now_ms - events[0].at_ms) / _MS)

    def committed(self, *, commands: int, seconds: float) -> None:
        """Count a block of ``commands`` commands that took ``seconds`` until it was durable."""
        self._commit_commands.observe(commands)
        self._commit_seconds.observe(seconds)

    def commit_failed(self) -> None:
        """Count a block that the store refused or failed to write."""
        self._commit_failures.inc()

    def refused(self, refusals: Sequence[Refusal]) -> None:
        """Count requests that were refused before a decision."""
        self._counting.refused(refusals)

    def collect(self, view: StateView, now_ms: int) -> list[GaugeMetricFamily]:
        """Return all gauges at ``now_ms``, which is not before the last event."""
        return gauges(Standing(view, self._tallies, self._head.height, now_ms))

    # --- On any thread ---

    def render(self, standing: Sequence[Family]) -> bytes:
        """Return the text of a scrape: the collected gauges, and all counters."""
        return generate_latest(_Joined(self.registry, standing))

    @contextmanager
    def request(self, surface: str, operation: str = UNKNOWN) -> Iterator[Request]:
        """Yield a request while it is answered, and count it when the answer ends or fails.

        A request whose operation is not among ``operations`` is counted under ``other``.
        """
        assert surface in m.SURFACES, surface
        in_flight, start_s = self._in_flight.labels(surface), perf_counter()
        asked = Request(operation)
        in_flight.inc()
        try:
            yield asked
        finally:
            in_flight.dec()
            ended_s = perf_counter() if asked.answered_s is None else asked.answered_s
            self.answered(surface, asked.operation, asked.status, seconds=ended_s - start_s)

    def answered(self, surface: str, operation: str, status: int, *, seconds: float) -> None:
        """Count a request that was timed elsewhere; ``request`` calls this itself."""
        name = operation if operation in self._operations else m.OTHER
        self._request_seconds.labels(surface, name).observe(seconds)
        self._requests.labels(surface, name, _status_class(status)).inc()

    def shed(self, stage: str) -> None:
        """Count a rejected request, unread or read."""
        self._shed.labels(stage).inc()

    @contextmanager
    def watch(self) -> Iterator[None]:
        """Count a watch while it is open."""
        with self._watchers.track_inprogress():
            yield

    def watch_dropped(self) -> None:
        """Count a watch that was ended because it was too slow."""
        self._dropped.inc()

    def ready(self, *, is_ready: bool) -> None:
        """Record whether the service accepts commands."""
        self._ready.set(is_ready)

    def led(self, *, leads: bool, term: int, lag_s: float) -> None:
        """Record whether the service leads, in which term, and how old its state may be."""
        self._leading.set(leads)
        self._leader_term.set(term)
        self._follow_lag.set(lag_s)

    def outages(self, names: Collection[str]) -> None:
        """Record which clusters, or parts of them, cannot be used now."""
        new = sorted(set(names) - self._outages)
        self._outages.update(new[: m.OUTAGES_MAX - len(self._outages)])
        for each in self._outages:
            self._outage.labels(each).set(each in names)


def service_metrics(ledger: Path | None = None) -> Metrics:
    """Return the metrics of a service that answers every operation on ``ledger``."""
    disk = None if ledger is None else ledger.resolve().parent
    return Metrics(version=__version__, operations=(*OPERATIONS, *OWN), disk=disk)


class _Joined(Collector):
    """A registry together with the collected gauges."""

    def __init__(self, registry: CollectorRegistry, standing: Sequence[Family]) -> None:
        self._registry = registry
        self._standing = standing

    def collect(self) -> Iterator[Family]:
        yield from self._standing
        yield from self._registry.collect()


def _status_class(status: int) -> str:
    """Return the class of an HTTP status; an unknown status counts as an error of the service."""
    found = f"{status // 100}xx"
    return found if found in m.STATUS_CLASSES else m.STATUS_CLASSES[-1]
