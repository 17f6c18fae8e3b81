"""The policies by name. The command line, pools and tests choose policies from this table.

The names are the published names of the policies. A family is a module that exports its policies as
a tuple. This table lists the families.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from quorate.policy.policies.allox import ALLOX
from quorate.policy.policies.equal_shares import EQUAL_SHARES
from quorate.policy.policies.fifo import FIFO
from quorate.policy.policies.finish_time_fairness import FINISH_TIME
from quorate.policy.policies.gandiva import GANDIVA
from quorate.policy.policies.max_min_fairness import MAX_MIN
from quorate.policy.policies.max_sum_throughput import MAX_SUM
from quorate.policy.policies.min_total_duration import MIN_TOTAL_DURATION
from quorate.policy.policies.strategy_proof import STRATEGY_PROOF
from quorate.policy.policies.water_filling import WATER_FILLING
from quorate.policy.policy_type import Policy

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
