"""Logs why policies fail: once for each pool and cause, because a pool calls its policy often."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass, field
from typing import Final

from quorate.policy.allocation import Unsolved

_LOG = logging.getLogger(__name__)
_NUMBER: Final = re.compile(r"0x[0-9a-f]+|\d[\d.,e+-]*")


@dataclass(slots=True)
class FailureLog:
    """The cause of the last failure of each pool's policy.

    A cause is the failure's message, without numbers and without the job or flavor that the message
    names. These details differ from round to round, and would make each failure look new. The
    causes are in the memory of one process only.
    """

    _causes: dict[str, tuple[str, str]] = field(default_factory=dict)

    def failed(
        self, pool: str, policy: str, refusal: Unsolved, error: Exception | None = None
    ) -> None:
        """Log a failure of a pool's policy, unless the previous failure had the same cause."""
        what = refusal.message.replace(refusal.subject, "")
        cause = (policy, _NUMBER.sub("", what))
        if self._causes.get(pool) == cause:
            return
        self._causes[pool] = cause
        _LOG.error(
            "pool %s: the policy %s failed: %s; %s (logged once, until the cause changes)",
            pool,
            policy,
            refusal.message,
            refusal.remedy,
            exc_info=error,
        )

    def worked(self, pool: str) -> None:
        """Record that the policy of ``pool`` had an answer; the next failure is then logged."""
        self._causes.pop(pool, None)
