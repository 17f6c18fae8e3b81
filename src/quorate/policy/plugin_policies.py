"""Policies of other packages: entry points of the group ``quorate.policies``.

Each entry point of a package names one ``Policy`` or a tuple of policies. If a policy has a fault,
the fault's text names the package, and the other policies stay available. The shipped policies come
first, and a package cannot replace them. See docs/policy-plugins.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from types import MappingProxyType
from typing import Final

import numpy as np

from quorate.policy.allocation import ALONE, Allocation, Unsolved, solver_failed
from quorate.policy.askable import broken, first_breach
from quorate.policy.policy_type import Policy, Solve
from quorate.policy.problem import Problem
from quorate.policy.table import POLICIES

GROUP: Final = "quorate.policies"
_REPORT: Final = "report this to the authors of the package"
NAME_MAX: Final = 64
_LETTERS: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.")


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownPolicies:
    """The policies by name, with Quorate's own policies first, and the faults of packages."""

    by_name: Mapping[str, Policy]
    faults: tuple[str, ...] = ()

    def hint(self) -> str:
        """Return the faults as a text to append to the message about an unknown policy, if any."""
        return f" ({'; '.join(self.faults)})" if self.faults else ""


@cache
def known_policies() -> KnownPolicies:
    """Return the policies of Quorate and of the other installed packages."""
    return discovered(entry_points(group=GROUP))


def discovered(points: Iterable[EntryPoint]) -> KnownPolicies:
    """Return the shipped policies and the policies of ``points``, ordered by package and name."""
    found: dict[str, Policy] = dict(POLICIES)
    faults: list[str] = []
    for point in sorted(points, key=lambda each: (_package(each), each.name)):
        package = _package(point)
        where = f"package {package}, entry point {point.name!r} of {GROUP}"
        for policy in _loaded(point, where, faults):
            fault = _fault(policy, found)
            if fault is None:
                found[policy.name] = replace(policy, solve=_guarded(policy, package))
            else:
                faults.append(f"{where}: {fault}")
    return KnownPolicies(by_name=MappingProxyType(found), faults=tuple(faults))


def _package(point: EntryPoint) -> str:
    return "?" if point.dist is None else f"{point.dist.name} {point.dist.version}"


def _loaded(point: EntryPoint, where: str, faults: list[str]) -> tuple[Policy, ...]:
    """Return the policies that ``point`` names; none, with a fault, if it cannot be loaded."""
    try:
        named = point.load()
    except Exception as error:  # noqa: BLE001 - any code runs here, and the fault names its package
        why = f"{type(error).__name__}: {error}"
        faults.append(f"{where}: {point.value} cannot be imported ({why}); repair or remove it")
        return ()
    policies = named if isinstance(named, tuple) else (named,)
    if not policies or not all(isinstance(each, Policy) for each in policies):
        faults.append(
            f"{where}: {point.value} is {type(named).__name__}; name a quorate Policy, or a tuple "
            "of quorate Policies"
        )
        return ()
    return policies


def _fault(policy: Policy, found: Mapping[str, Policy]) -> str | None:
    """Return the fault of a package's policy, with the remedy; None if the policy has no fault."""
    if not 1 <= len(policy.name) <= NAME_MAX or not _LETTERS.issuperset(policy.name):
        return (
            f"the name {policy.name!r} is not 1 to {NAME_MAX} letters, digits, '_', '-' or '.'; "
            "give the policy another name"
        )
    if policy.name in found:
        return f"the policy {policy.name!r} already exists; give this policy another name"
    return None


def _guarded(policy: Policy, package: str) -> Solve:
    """Return ``policy``'s function, wrapped: an error becomes a refusal that names ``package``.

    An answer that breaks a constraint is also an error.
    """
    name = f"{policy.name} of package {package}"

    def solve(problem: Problem) -> Allocation | Unsolved:
        try:
            found = policy.solve(problem)
        except Exception as error:  # noqa: BLE001 - the refusal names the package
            return _failed(f"raised {type(error).__name__}: {error}")
        if isinstance(found, Unsolved):
            return found
        wrong = _misshapen(problem, found)
        if wrong is not None:
            return _failed(wrong)
        breach = first_breach(problem, found)
        return found if breach is None else broken(breach, f"the answer of {name}", _REPORT)

    def _failed(what: str) -> Unsolved:
        return solver_failed(f"{name} {what}", f"choose another policy, and {_REPORT}")

    return solve


def _misshapen(problem: Problem, found: object) -> str | None:
    """Return why ``found`` is not an allocation of ``problem``; None if it is an allocation."""
    if not isinstance(found, Allocation):
        return f"answered {type(found).__name__} instead of an Allocation or Unsolved"
    (jobs, flavors), rows = problem.shape, len(found.first)
    if found.shares.shape != (rows, flavors) or len(found.second) != rows or rows < jobs:
        return (
            f"answered shares of shape {found.shares.shape} in {rows} rows for {jobs} jobs on "
            f"{flavors} flavors"
        )
    if not np.array_equal(found.first[:jobs], np.arange(jobs)) or np.any(
        found.second[:jobs] != ALONE
    ):
        return (
            "answered rows in another order than the problem, whose first rows are the single jobs"
        )
    if not np.isfinite(found.shares).all():
        return "answered shares that are not finite"
    unknown = _unknown_pair(problem, found)
    if unknown is not None:
        return f"answered a pair of the jobs {unknown[0]} and {unknown[1]}, which `pairs` lacks"
    return None


def _unknown_pair(problem: Problem, found: Allocation) -> tuple[int, int] | None:
    """Return the first pair of jobs that the answer has but the problem does not list, or None."""
    jobs, _ = problem.shape
    pairs = problem.pairs
    if len(found.first) == jobs:
        return None
    ends = () if pairs is None else zip(pairs.first.tolist(), pairs.second.tolist(), strict=True)
    known = set(ends)
    answered = zip(found.first[jobs:].tolist(), found.second[jobs:].tolist(), strict=True)
    return next((pair for pair in answered if pair not in known), None)
