"""The metrics of a link to an accounting system."""

from __future__ import annotations

from typing import Final

from prometheus_client import CollectorRegistry

from quorate.ports.accounting_port import LinkStatus
from quorate.service.metrics import metric_table as m
from quorate.service.metrics.registering import counter, gauge

_MS: Final = 1_000


class AccountingCounts:
    """The metrics of a link, set by the link's thread; without a link, all are 0."""

    def __init__(self, registry: CollectorRegistry) -> None:
        requests = counter(registry, m.ACCOUNTING_REQUESTS)
        self._requests = {
            (purpose, way): requests.labels(purpose, way) for purpose in m.Purpose for way in m.Way
        }
        self._told = dict.fromkeys(self._requests, 0)
        self._owners = gauge(registry, m.ACCOUNTING_OWNERS)
        self._answered = gauge(registry, m.ACCOUNTING_ANSWERED)
        self._waiting = gauge(registry, m.ACCOUNTING_WAITING)
        self._oldest = gauge(registry, m.ACCOUNTING_OLDEST)

    def stands(self, status: LinkStatus, owners: int, reported: int, now_ms: int) -> None:
        """Record a link's status.

        ``owners`` counts the linked owners. ``reported`` counts the linked owners whose remaining
        hours come from the accounting system.
        """
        for key, count in (
            ((m.Purpose.REMAINING, m.Way.DONE), status.answers),
            ((m.Purpose.REMAINING, m.Way.FAILED), status.failures),
            ((m.Purpose.CONSUMPTION, m.Way.DONE), status.deliveries),
            ((m.Purpose.CONSUMPTION, m.Way.FAILED), status.delivery_failures),
        ):
            self._requests[key].inc(count - self._told[key])
            self._told[key] = count
        self._owners.labels(m.ACCOUNTING).set(reported)
        self._owners.labels(m.LEDGER).set(owners - reported)
        answered = status.answered_ms
        self._answered.set(min(answered.values()) / _MS if len(answered) == owners else 0)
        waiting = status.waiting
        since_ms = now_ms if waiting is None or waiting.since_ms is None else waiting.since_ms
        self._waiting.set(0 if waiting is None else waiting.parcels)
        self._oldest.set(max(0, now_ms - since_ms) / _MS)
