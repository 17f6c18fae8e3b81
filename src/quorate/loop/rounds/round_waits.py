"""The pools whose next round could not begin, and when each is tried again."""

from __future__ import annotations

from typing import Final

from quorate.model.amounts import MINUTE_MS, SECOND_MS

RETRY_MIN_MS: Final = SECOND_MS
RETRY_MAX_MS: Final = MINUTE_MS
"""The longest wait of a pool; after its first failure a pool waits ``RETRY_MIN_MS``.

Each wait is twice the previous one. Waiting costs only time, because all runs keep their GPUs.
"""


class RoundWaits:
    """The instants until which pools wait; in memory only, so a restarted service tries at once."""

    def __init__(self) -> None:
        self.until_ms: dict[str, int] = {}
        self._wait_ms: dict[str, int] = {}

    def failed(self, pool: str, now_ms: int) -> None:
        """Record that the round of ``pool`` could not begin at ``now_ms``."""
        wait_ms = min(2 * self._wait_ms.get(pool, RETRY_MIN_MS // 2), RETRY_MAX_MS)
        self._wait_ms[pool] = wait_ms
        self.until_ms[pool] = now_ms + wait_ms

    def began(self, pool: str) -> None:
        """Record that a round of ``pool`` began."""
        self.until_ms.pop(pool, None)
        self._wait_ms.pop(pool, None)
