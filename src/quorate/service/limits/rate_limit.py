"""How often one caller may send requests: a token bucket for each caller."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from quorate.service.problem_json import problem
from quorate.views.statuses import TOO_MANY_REQUESTS

CALLERS_MAX: Final = 10_000
"""How many callers are remembered; the caller that was silent longest is dropped."""
BURST_S: Final = 2
"""A full bucket has as many requests as its rate allows in ``BURST_S`` seconds."""


class Rate:
    """Allows ``per_s`` requests per second for each key; ``now_s`` is a monotonic clock."""

    def __init__(self, per_s: int, now_s: Callable[[], float]) -> None:
        self._per_s = per_s
        self._burst = per_s * BURST_S
        self._now_s = now_s
        # Key -> the content of the bucket, and when it was computed.
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, key: str) -> None:
        """Take one request from the bucket of ``key``; raises ``CommandError`` if none is left."""
        left = self._left(key)
        if left < 1:
            raise problem(
                TOO_MANY_REQUESTS,
                f"more than {self._per_s} requests per second; ask again in a second, or less "
                f"often",
            )
        self._buckets[key] = (left - 1, self._now_s())
        self._buckets.move_to_end(key)
        if len(self._buckets) > CALLERS_MAX:
            self._buckets.popitem(last=False)

    def _left(self, key: str) -> float:
        known = self._buckets.get(key)
        if known is None:
            return self._burst
        left, as_of_s = known
        return min(self._burst, left + (self._now_s() - as_of_s) * self._per_s)
