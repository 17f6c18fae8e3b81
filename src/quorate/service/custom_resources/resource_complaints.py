"""Failures between the ledger and the custom resources of a cluster: logged once, and kept."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Final

from quorate.adapters.clock_system import SystemClock
from quorate.documents.times import time_text
from quorate.model.amounts import MINUTE_MS

_LOG = logging.getLogger(__name__)

KEPT_MS: Final = MINUTE_MS
"""How long a failure is reported if it is not repeated.

A failed write may never succeed: if its object is deleted, the write is not tried again.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Complaint:
    """Why an operation failed, since when, and when it last failed."""

    since_ms: int
    last_ms: int
    text: str


class Complaints:
    """The failures of one ``cluster``, by object; the empty key stands for the ledger."""

    def __init__(self, cluster: str) -> None:
        self._cluster = cluster
        self._clock = SystemClock()
        self._kept: dict[str, _Complaint] = {}

    def note(self, what: str, error: Exception) -> None:
        """Record that ``what`` failed; log it unless it last failed with the same error."""
        before, now_ms = self._kept.get(what), self._clock.now_ms()
        since_ms = now_ms if before is None else before.since_ms
        self._kept[what] = _Complaint(since_ms=since_ms, last_ms=now_ms, text=str(error))
        if before is None or before.text != str(error):
            where = f"{what}: " if what else ""
            _LOG.warning("cluster %s: %s%s; trying again", self._cluster, where, error)

    def settled(self, what: str) -> None:
        """Record that ``what`` has worked."""
        self._kept.pop(what, None)

    def outage(self) -> str:
        """Return what fails, since when, and why; empty if nothing fails."""
        last_ms = self._clock.now_ms() - KEPT_MS
        self._kept = {what: each for what, each in self._kept.items() if each.last_ms >= last_ms}
        if not self._kept:
            return ""
        what, first = min(self._kept.items(), key=lambda each: each[1].since_ms)
        others = len(self._kept) - 1
        more = f", and {others} more" if others else ""
        return (
            f"since {time_text(first.since_ms)}: {what or 'the ledger'}{more}: {first.text}; "
            f"Quorate tries again; see the log for all failures"
        )
