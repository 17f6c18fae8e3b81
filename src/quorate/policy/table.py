"""The policies by name: one table, from which the command line, pools and tests choose.

The names are those that were published with the policies.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from quorate.policy.allocation import Allocation, Unsolved
from quorate.policy.problem import Problem

Solve = Callable[[Problem], Allocation | Unsolved]


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """A policy: its published name, what it is after, and the function that solves it."""

    name: str
    goal: str
    solve: Solve
    metric: str
    """What its objective is, in a few words."""
    is_least: bool = False
    """Whether the objective is to be small."""
    reads_pairs: bool = False
    reads_entities: bool = False


_FAMILIES: Final[tuple[tuple[Policy, ...], ...]] = ()

POLICIES: Final[Mapping[str, Policy]] = MappingProxyType(
    {policy.name: policy for family in _FAMILIES for policy in family}
)
