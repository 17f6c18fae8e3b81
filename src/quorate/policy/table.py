"""The policies by name: one table, from which the command line, pools and tests choose.

The names are those that were published with the policies. A family is a module that exports its
policies as a tuple, and is listed here.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from quorate.policy.allox import ALLOX
from quorate.policy.equal_shares import EQUAL_SHARES
from quorate.policy.fifo import FIFO
from quorate.policy.finish_time_fairness import FINISH_TIME
from quorate.policy.gandiva import GANDIVA
from quorate.policy.max_min_fairness import MAX_MIN
from quorate.policy.max_sum_throughput import MAX_SUM
from quorate.policy.min_total_duration import MIN_TOTAL_DURATION
from quorate.policy.policy import Policy
from quorate.policy.strategy_proof import STRATEGY_PROOF
from quorate.policy.water_filling import WATER_FILLING

_FAMILIES: Final[tuple[tuple[Policy, ...], ...]] = (
    MAX_MIN,
    WATER_FILLING,
    MIN_TOTAL_DURATION,
    FINISH_TIME,
    FIFO,
    EQUAL_SHARES,
    GANDIVA,
    ALLOX,
    MAX_SUM,
    STRATEGY_PROOF,
)

POLICIES: Final[Mapping[str, Policy]] = MappingProxyType(
    {policy.name: policy for family in _FAMILIES for policy in family}
)
