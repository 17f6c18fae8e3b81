"""The policies by name: one table, from which the command line, pools and tests choose.

The names are those that were published with the policies. A family is a module that exports its
policies as a tuple, and is listed here.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from quorate.policy.policy import Policy

_FAMILIES: Final[tuple[tuple[Policy, ...], ...]] = ()

POLICIES: Final[Mapping[str, Policy]] = MappingProxyType(
    {policy.name: policy for family in _FAMILIES for policy in family}
)
