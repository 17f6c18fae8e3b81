"""The clock port: the only way time enters a decision."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    """Tells the time."""

    def now_ms(self) -> int:
        """Return Unix milliseconds. May step back; the loop never lets the ledger's time do so."""
        ...
