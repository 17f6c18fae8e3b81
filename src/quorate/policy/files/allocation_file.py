"""The file formats of allocations and leases.

An allocation is ``{"0": {"v100": 0.5, ...}, "0,1": {...}}``: the shares of each job alone, and of
two jobs that share GPUs. A lease is ``{"max_steps": 100, "max_duration": 360.0}``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from quorate.policy.allocation import ALONE, FEASIBLE, NO_BOUND, Allocation, Method
from quorate.policy.files.file_faults import (
    At,
    Faulty,
    entries_of,
    known_fields,
    number_of,
    shown,
    whole_of,
)
from quorate.policy.files.json_bytes import decoded, encoded
from quorate.policy.pair_index import PAIR_MARK, pair_of
from quorate.policy.problem import Floats, Problem

_LEASE: Final = frozenset({"max_duration", "max_steps"})


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseTerms:
    """The limits of a job's lease: steps and ``seconds``, which may be infinite."""

    steps: int
    seconds: float


def row_keys(problem: Problem, allocation: Allocation) -> list[str]:
    """Return the name of each row of ``allocation``: one job, or the two jobs of a pair."""
    return [
        problem.jobs[first]
        if second == ALONE
        else f"{problem.jobs[first]}{PAIR_MARK}{problem.jobs[second]}"
        for first, second in zip(allocation.first, allocation.second, strict=True)
    ]


def allocation_tree(problem: Problem, allocation: Allocation) -> dict[str, dict[str, float]]:
    """Return ``allocation`` in the form of the file format."""
    return {
        key: dict(zip(problem.flavors, shares, strict=True))
        for key, shares in zip(
            row_keys(problem, allocation), allocation.shares.tolist(), strict=True
        )
    }


def write_allocation(problem: Problem, allocation: Allocation) -> bytes:
    """Return ``allocation`` as the bytes of a file."""
    tree = allocation_tree(problem, allocation)
    return encoded(tree)


def read_allocation(
    data: bytes, jobs: Sequence[str], flavors: Sequence[str]
) -> Allocation | Faulty:
    """Return the shares that a file gives to ``jobs``, or all faults of the file.

    The file must have each job, and each job must have each flavor. Pairs without time are left
    out. A file has no objective, so the objective is NaN.
    """
    at = At()
    rows = {name: row for row, name in enumerate(jobs)}
    alone = np.zeros((len(rows), len(flavors)))
    paired: dict[tuple[int, int], Floats] = {}
    entries = entries_of(decoded(data, at), at) or {}
    for key, entry in entries.items():
        below = at.below(key)
        shares = _shares(entry, flavors, below)
        if key in rows:
            alone[rows[key]] = shares
        elif (pair := pair_of(key, rows, below)) is not None:
            if (min(pair), max(pair)) in paired:
                below.fault("is given twice", "remove one of the two")
            paired[min(pair), max(pair)] = shares
    for name in jobs:
        if name not in entries:
            at.below(name).fault(
                "is missing", "add the shares of the job alone, 0 where it has none"
            )
    if at.faults:
        return Faulty(faults=tuple(at.faults))
    pairs = sorted(pair for pair, shares in paired.items() if shares.any())
    return Allocation(
        first=np.array([*range(len(rows)), *(first for first, _ in pairs)], dtype=np.int64),
        second=np.array([ALONE] * len(rows) + [second for _, second in pairs], dtype=np.int64),
        shares=np.vstack([alone, *(paired[pair][None, :] for pair in pairs)]),
        objective=math.nan,
        bound=NO_BOUND,
        method=Method.GIVEN,
    )


def _shares(value: object, flavors: Sequence[str], at: At) -> Floats:
    found = np.zeros(len(flavors))
    shares = entries_of(value, at)
    if shares is None:
        return found
    known_fields(shares, frozenset(flavors), at)
    for column, flavor in enumerate(flavors):
        below = at.below(flavor)
        if flavor not in shares:
            below.fault("is missing", "add the share, or 0 without a share")
        elif (share := number_of(shares[flavor], below)) is not None:
            found[column] = share
            if share > 1 + FEASIBLE:
                below.fault(f"must be a share of time, got {shown(share)}", "write 0 to 1")
    return found


def read_lease(data: bytes) -> LeaseTerms | Faulty:
    """Return the lease in a file, or all faults; a null ``max_duration`` means no limit."""
    at = At()
    fields = entries_of(decoded(data, at), at)
    if fields is None:
        return Faulty(faults=tuple(at.faults))
    known_fields(fields, _LEASE, at)
    for name in sorted(_LEASE - fields.keys()):
        at.below(name).fault("is missing", "add it")
    steps = whole_of(fields.get("max_steps", 0), at.below("max_steps"))
    duration: Any = fields.get("max_duration")
    seconds = math.inf if duration is None else number_of(duration, at.below("max_duration"))
    if steps is None or seconds is None or at.faults:
        return Faulty(faults=tuple(at.faults))
    return LeaseTerms(steps=steps, seconds=seconds)


def write_lease(lease: LeaseTerms) -> bytes:
    """Return ``lease`` as the bytes of a file."""
    seconds = lease.seconds if math.isfinite(lease.seconds) else None
    return encoded({"max_steps": lease.steps, "max_duration": seconds})
