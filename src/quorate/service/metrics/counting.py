"""Counts committed events in counters and histograms."""

from __future__ import annotations

from collections import Counter as Counts
from collections.abc import Callable, Iterable
from typing import Any, Final

from prometheus_client import CollectorRegistry

from quorate.model.events import (
    ConflictDeclared,
    ConflictOutcome,
    ConflictResolved,
    CutStep,
    EndReason,
    Event,
    LeaseEnded,
    LeaseStarted,
    Outcome,
    RunEnded,
    RunRefused,
    RunRequeued,
    RunSubmitted,
    ThresholdCrossed,
)
from quorate.model.refusal import Refusal, RefusalCode
from quorate.model.state.crossings import PERCENTS
from quorate.model.state.state_view import StateView
from quorate.service.metrics import metric_table as m
from quorate.service.metrics.registering import counter, histogram

_MS: Final = 1_000
Series = tuple[m.Metric, tuple[str, ...]]
"""A metric and the values of its labels."""
_ZEROES: Final[dict[m.Metric, tuple[tuple[str, ...], ...]]] = {
    m.REFUSALS: tuple((code, where) for code in RefusalCode for where in (m.DOOR, m.QUEUE)),
    m.RUNS_ENDED: tuple((outcome,) for outcome in Outcome),
    m.RUNS_REQUEUED: tuple((reason,) for reason in EndReason),
    m.LEASES_ENDED: tuple((reason,) for reason in EndReason),
    m.CONFLICTS: tuple((outcome,) for outcome in ConflictOutcome),
    m.THRESHOLDS: tuple((str(p), way) for p in PERCENTS for way in (m.ABOVE, m.BELOW)),
}
"""Series that exist from the start, so that the first count of each is seen as an increase."""


class Counting:
    """Counters and histograms of the events of a ledger."""

    def __init__(self, registry: CollectorRegistry) -> None:
        counted = [metric for metric in m.EVENTS if metric.kind is m.Kind.COUNTER]
        self._counters = {metric: counter(registry, metric) for metric in counted}
        self._admission = histogram(registry, m.ADMISSION)
        self._more: dict[Series, Callable[[float], None]] = {}
        for metric, found in self._counters.items():
            for labels in _ZEROES[metric] if metric.labels else ((),):
                child = found.labels(*labels) if labels else found
                self._more[metric, labels] = child.inc

    def seen(self, events: Iterable[Event], view: StateView) -> None:
        """Count ``events``, which ``view`` includes."""
        found = Counts[Series]()
        for event in events:
            count = _COUNTED.get(type(event))
            if count is not None:
                count(found, event)
            if type(event) is LeaseStarted and _is_first(event):
                record = view.runs[event.run]
                self._admission.observe((event.start_ms - record.submitted_ms) / _MS)
        for series, more in found.items():
            self._more[series](more)

    def refused(self, refusals: Iterable[Refusal]) -> None:
        """Count requests that were refused before a decision."""
        for refusal in refusals:
            self._more[m.REFUSALS, (refusal.code, m.DOOR)](1)


def _is_first(event: LeaseStarted) -> bool:
    """Return whether a lease is the first of its run: leases are numbered from 0."""
    return event.lease.rpartition("/")[2] == "0"


def _submitted(found: Counts[Series], event: RunSubmitted) -> None:
    del event
    found[m.RUNS_SUBMITTED, ()] += 1


def _run_refused(found: Counts[Series], event: RunRefused) -> None:
    found[m.REFUSALS, (event.refusal.code, m.QUEUE)] += 1


def _run_ended(found: Counts[Series], event: RunEnded) -> None:
    found[m.RUNS_ENDED, (event.outcome,)] += 1


def _run_requeued(found: Counts[Series], event: RunRequeued) -> None:
    found[m.RUNS_REQUEUED, (event.reason,)] += 1


def _lease_ended(found: Counts[Series], event: LeaseEnded) -> None:
    found[m.LEASES_ENDED, (event.reason,)] += 1


def _declared(found: Counts[Series], event: ConflictDeclared) -> None:
    del event
    found[m.INVOCATIONS, ()] += 1


def _resolved(found: Counts[Series], event: ConflictResolved) -> None:
    found[m.CONFLICTS, (event.outcome,)] += 1
    found[m.SPARES_DROPPED, ()] += sum(cut.step is CutStep.SPARE for cut in event.cuts)
    found[m.SHRINKS, ()] += sum(cut.step is CutStep.SHRINK for cut in event.cuts)
    found[m.DRAWS, ()] += len(event.draws)
    found[m.LOST, ()] += event.lost_gpu_ms / _MS  # type: ignore[assignment] # seconds have fractions


def _crossed(found: Counts[Series], event: ThresholdCrossed) -> None:
    way = m.ABOVE if event.is_above else m.BELOW
    found[m.THRESHOLDS, (str(event.percent), way)] += 1


_COUNTED: Final[dict[type, Callable[[Counts[Series], Any], None]]] = {
    RunSubmitted: _submitted,
    RunRefused: _run_refused,
    RunEnded: _run_ended,
    RunRequeued: _run_requeued,
    LeaseEnded: _lease_ended,
    ConflictDeclared: _declared,
    ConflictResolved: _resolved,
    ThresholdCrossed: _crossed,
}
