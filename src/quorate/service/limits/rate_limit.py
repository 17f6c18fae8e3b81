"""How often one caller may ask: a bucket for each, which fills as time passes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from quorate.service.problem_json import problem
from quorate.views.statuses import TOO_MANY_REQUESTS

CALLERS_MAX: Final = 10_000
"""How many callers are kept in mind; the one that was silent longest is forgotten."""
BURST_S: Final = 2
"""How many seconds' worth may be asked at once."""


class Rate:
    """``per_s`` requests a second for each key. ``now_s`` never runs back."""

    def __init__(self, per_s: int, now_s: Callable[[], float]) -> None:
        self._per_s = per_s
        self._burst = per_s * BURST_S
        self._now_s = now_s
        # Key -> what is left in the bucket, and as of when.
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, key: str) -> None:
        """Take one from the bucket of ``key``; raises ``CommandError`` when it is empty."""
        left = self._left(key)
        if left < 1:
            raise problem(
                TOO_MANY_REQUESTS,
                f"more than {self._per_s} requests a second; ask again in a second, or less often",
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
