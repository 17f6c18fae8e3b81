"""Pairs of runs that may share GPUs in the next round, and the rate of each run in a pair."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from itertools import islice
from typing import Final

import numpy as np

from quorate.core.admission.hard_quota import too_many_runs
from quorate.core.lifecycle.stops import leases_under
from quorate.core.rounds.begin_round import pair_terms
from quorate.core.rounds.round_rates import paired_rates, type_rates
from quorate.loop.rounds.round_snapshot import Floor, Member
from quorate.model.amounts import PPM
from quorate.model.specs import Pool
from quorate.model.state.state_view import StateView
from quorate.policy.problem import Pairs

PAIRS_MAX: Final = 20_000
"""The most pairs with which a policy is called, if the policy states no limit itself.

200 runs of one owner have about 20,000 pairs. If there are more than ``PAIRS_MAX`` pairs, this
number is divided among the owners, and the newest runs of an owner may be in no pair.
"""

_Both = tuple[float, float]
_Kind = tuple[str, int]
"""A job type and its number of GPUs."""


def pairs_of(
    view: StateView, floor: Floor, members: Sequence[Member], pairs_max: int = PAIRS_MAX
) -> Pairs | None:
    """Return the pairs of runs that may share GPUs, with their rates; None if there is no pair.

    The two runs of a pair have the same owner, may share one lease, and have types that can share
    GPUs. On at least one flavor both runs must make progress and have a payer. Two runs are not a
    pair if a quota forbids their owner to run both at once. A run that is still stopping is in no
    pair, because its partner would have to wait until the stop is complete.
    """
    table = _Table(floor.pool, floor.flavors)
    pairs: list[tuple[int, int]] = []
    rates: list[list[_Both]] = []
    free = [row for row, member in enumerate(members) if not _is_leaving(view, member)]
    for one, other in _parts(table, members, free, pairs_max):
        two = members[one], members[other]
        both = _rates(table, *two)
        if any(min(pair) > 0 for pair in both) and _may_both_run(view, *two):
            pairs.append((one, other))
            rates.append(both)
    if not pairs:
        return None
    ends = np.array(pairs, dtype=np.int64)
    return Pairs(first=ends[:, 0], second=ends[:, 1], rates=np.array(rates, dtype=np.float64))


class _Table:
    """The rates of types on the flavors of a pool; each result is cached."""

    def __init__(self, pool: Pool, flavors: Sequence[str]) -> None:
        self._pool = pool
        self._flavors = flavors
        self._alone: dict[_Kind, list[int]] = {}
        self._paired: dict[tuple[_Kind, str], list[tuple[int, int]]] = {}

    def alone(self, kind: _Kind) -> list[int]:
        """Return the rate of a type without a partner on each flavor; 0 if not known."""
        if kind not in self._alone:
            known = [type_rates(self._pool, flavor, *kind) for flavor in self._flavors]
            self._alone[kind] = [0 if each is None else each.alone for each in known]
        return self._alone[kind]

    def paired(self, kind: _Kind, other: str) -> list[tuple[int, int]]:
        """Return the rates of ``kind`` and ``other`` on the same GPUs, by flavor."""
        key = (kind, other)
        if key not in self._paired:
            name, gpus = kind
            self._paired[key] = [
                paired_rates(self._pool, flavor, gpus, (name, other)) for flavor in self._flavors
            ]
        return self._paired[key]


def _may_both_run(view: StateView, one: Member, other: Member) -> bool:
    begins = sum(each.record.started_ms is None for each in (one, other))
    return not begins or too_many_runs(view, one.record.spec.owner, begins) is None


def _kind(member: Member) -> _Kind | None:
    spec = member.record.spec
    job_type = None if spec.rounds is None else spec.rounds.job_type
    return None if job_type is None else (job_type, spec.gpus)


def _is_leaving(view: StateView, member: Member) -> bool:
    names = leases_under(view, member.record)
    return any(view.leases[name].ending is not None for name in names)


def _parts(
    table: _Table, members: Sequence[Member], free: Sequence[int], pairs_max: int
) -> list[tuple[int, int]]:
    """Return at most ``pairs_max`` pairs of runs that may share GPUs, in the order of their owners.

    If there are more pairs, each owner gets the same number of pairs, or all its pairs if it has
    fewer. Pairs of older runs come first.
    """
    of_owner: dict[str, list[int]] = {}
    for row in free:
        of_owner.setdefault(members[row].record.spec.owner, []).append(row)
    by_owner: dict[str, list[tuple[int, int]]] = {owner: [] for owner in of_owner}
    open_ = {owner: _alike(table, members, rows) for owner, rows in of_owner.items()}
    left = pairs_max
    while open_ and left:
        each = max(1, left // len(open_))
        for owner in list(open_)[:left]:
            more = list(islice(open_[owner], each))
            by_owner[owner] += more
            left -= len(more)
            if len(more) < each:
                del open_[owner]
    return [pair for pairs in by_owner.values() for pair in pairs]


def _alike(
    table: _Table, members: Sequence[Member], free: Sequence[int]
) -> Iterator[tuple[int, int]]:
    """Yield the pairs of runs in ``free`` that may share a lease and whose types can share GPUs.

    Both runs of a pair have the same owner. Pairs of older runs come first.
    """
    seen: dict[Hashable, dict[str, list[int]]] = {}
    for row in free:
        kind = _kind(members[row])
        if kind is None:
            continue
        spec = members[row].record.spec
        before = seen.setdefault((spec.owner, pair_terms(spec)), {})
        for other, rows in before.items():
            if any(min(both) > 0 for both in table.paired(kind, other)):
                yield from ((each, row) for each in rows)
        before.setdefault(kind[0], []).append(row)


def _rates(table: _Table, one: Member, other: Member) -> list[_Both]:
    """Return the rates of two runs that share GPUs, by flavor, in steps per second.

    If a run's rate without a partner was measured, the run's rate in the pair is scaled, too: by
    the measured rate divided by the rate in the table.
    """
    kinds = _kind(one), _kind(other)
    assert kinds[0] is not None, one
    assert kinds[1] is not None, other
    rates = []
    for place, both in enumerate(table.paired(kinds[0], kinds[1][0])):
        alone = table.alone(kinds[0])[place], table.alone(kinds[1])[place]
        first = _scaled(both[0], one.rates[place], alone[0])
        second = _scaled(both[1], other.rates[place], alone[1])
        rates.append((first, second) if min(first, second) > 0 else (0.0, 0.0))
    return rates


def _scaled(rate: int, own: int, alone: int) -> float:
    return rate * own / (alone * PPM) if alone else 0.0
