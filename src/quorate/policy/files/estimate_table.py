"""Fills gaps in tables of rates with estimates.

The scale of a type is its number of GPUs. The *known* types of a scale were measured in pairs with
each other on every flavor. Each other type of the scale is matched with a known type (Gavel,
section 6). A ratio is a type's rate in a pair, divided by its rate alone; the matched type gets the
ratios of the known type. Measured rates stay unchanged. The rate of a type alone is never
estimated, because every type that runs was measured alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from quorate.model.job_types import JobType
from quorate.policy.estimate import Known, Match, UnmatchedCode, match
from quorate.policy.files.file_faults import At, Faulty
from quorate.policy.files.throughputs_file import Rates, ThroughputTable
from quorate.policy.problem import Floats

_WHY: Final = {
    UnmatchedCode.NOTHING_MEASURED: "was not measured together with any known type",
    UnmatchedCode.STANDS_STILL: (
        "makes no progress together with any type that it was measured with"
    ),
    UnmatchedCode.NOT_SETTLED: "matches no known type by the rates that were measured",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeMatch:
    """An estimated type, the known type that it matches, their distance, and the measurements."""

    type: JobType
    like: JobType
    distance: float
    measured: int
    asked: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Estimated:
    """A table with estimates, the match of each estimated type, and how many pairs were filled."""

    table: ThroughputTable
    matches: tuple[TypeMatch, ...]
    filled: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Family:
    """The types of one scale, by their rows in the table, and the ratios of their pairs.

    ``ratios`` has the shape (types, flavors, types). A ratio is the rate of the first type in a
    pair with the second type, divided by the rate of the first type alone. NaN is a gap.
    """

    types: tuple[int, ...]
    ratios: Floats

    def known(self) -> tuple[int, ...]:
        """Return the indexes of the known types: the ratios among these have no gap.

        While there are gaps, the type with the most gaps is removed. If several types have the
        most, the last of them is removed.
        """
        gaps: Known = np.asarray(np.isnan(self.ratios).any(axis=1))
        missing: Known = np.logical_or(gaps, gaps.T)
        left = list(range(len(self.types)))
        while left:
            counts = missing[np.ix_(left, left)].sum(axis=1)
            if not counts.any():
                break
            del left[len(left) - 1 - int(np.argmax(counts[::-1]))]
        return tuple(left)

    def row(self, place: int, beside: tuple[int, ...]) -> Floats:
        """Return the ratios of one type in pairs with the types ``beside``, flavor by flavor."""
        found: Floats = self.ratios[place][:, list(beside)].ravel()
        return found


def families(table: ThroughputTable) -> tuple[Family, ...]:
    """Return the types of each scale, smallest scale first, without scales that have no pair."""
    paired = _paired(table)
    found = []
    for scale in sorted({each.scale for each in table.types}):
        types = tuple(row for row, each in enumerate(table.types) if each.scale == scale)
        rates = paired[np.ix_(types, types)]
        if np.isnan(rates).all():
            continue
        alone = table.together.alone[list(types)][:, None, :]
        # A type that cannot run on a flavor has no pairs there, measured or not.
        still = np.broadcast_to(alone == 0.0, rates.shape)
        ratios = np.where(still, 0.0, rates / np.where(alone == 0.0, 1.0, alone))
        found.append(Family(types=types, ratios=np.swapaxes(ratios, 1, 2)))
    return tuple(found)


def estimated(table: ThroughputTable) -> Estimated | Faulty:
    """Return ``table`` with estimates in the gaps of pairs of one scale, or the faults.

    A scale without any measured pair stays without pairs.
    """
    at = At()
    for row, column in np.argwhere(np.isnan(table.together.alone)):
        at.below(table.flavors[column]).below(table.types[row].key).fault(
            "has no rate of its own", "measure it: estimates are fractions of this rate"
        )
    if at.faults:
        return Faulty(faults=tuple(at.faults))
    paired = _paired(table)
    matches: list[TypeMatch] = []
    filled = 0
    for family in families(table):
        like = _likes(table, family, at, matches)
        if len(like) == len(family.types):
            filled += _fill(table, family, like, paired)
    if at.faults:
        return Faulty(faults=tuple(at.faults))
    return Estimated(table=_with_pairs(table, paired), matches=tuple(matches), filled=filled)


def _likes(
    table: ThroughputTable, family: Family, at: At, matches: list[TypeMatch]
) -> dict[int, int]:
    """Return the known type that each type of ``family`` matches; a known type matches itself."""
    known = family.known()
    if not known:
        scale = table.types[family.types[0]].scale
        at.fault(
            f"no type of {scale} GPUs was measured together with itself on every flavor",
            "measure pairs of some types, including each type with itself",
        )
        return {}
    references = np.array([family.row(place, known) for place in known])
    like = {place: place for place in known}
    for place, row in enumerate(family.types):
        if place in like:
            continue
        measured = family.row(place, known)
        found = match(references, measured)
        if not isinstance(found, Match):
            at.below(table.types[row].key).fault(
                _WHY[found], f"measure it together with {table.types[family.types[known[0]]].key}"
            )
            continue
        like[place] = known[found.reference]
        matches.append(
            TypeMatch(
                type=table.types[row],
                like=table.types[family.types[like[place]]],
                distance=found.distance,
                measured=int((~np.isnan(measured)).sum()),
                asked=len(measured),
            )
        )
    return like


def _fill(table: ThroughputTable, family: Family, like: dict[int, int], paired: Floats) -> int:
    """Fill the gaps of ``family`` in ``paired``, and return how many pairs had gaps."""
    alone = table.together.alone
    filled = 0
    for one, row in enumerate(family.types):
        for other, beside in enumerate(family.types[: one + 1]):
            gaps = np.isnan(paired[row, beside]) | np.isnan(paired[beside, row])
            if not gaps.any():
                continue
            filled += 1
            mine = family.ratios[like[one], :, like[other]] * alone[row]
            theirs = family.ratios[like[other], :, like[one]] * alone[beside]
            shares = (mine > 0.0) & (theirs > 0.0)
            paired[row, beside] = np.where(gaps, np.where(shares, mine, 0.0), paired[row, beside])
            paired[beside, row] = np.where(gaps, np.where(shares, theirs, 0.0), paired[beside, row])
    return filled


def _paired(table: ThroughputTable) -> Floats:
    """Return the rates of types in pairs, as an array (types, types, flavors); NaN is a gap."""
    types = len(table.types)
    found = np.full((types, types, len(table.flavors)), np.nan)
    found[table.pair_second, table.pair_first] = table.together.paired[:, :, 1]
    found[table.pair_first, table.pair_second] = table.together.paired[:, :, 0]
    return found


def _with_pairs(table: ThroughputTable, paired: Floats) -> ThroughputTable:
    """Return ``table`` with the rates of ``paired``.

    Pairs that ``table`` has already keep their places; new pairs come after them.
    """
    had = set(zip(table.pair_first.tolist(), table.pair_second.tolist(), strict=True))
    there = np.argwhere(~np.isnan(paired).all(axis=2))
    fresh = [(int(a), int(b)) for a, b in there if a <= b and (int(a), int(b)) not in had]
    first = np.append(table.pair_first, [a for a, _ in fresh]).astype(np.int64)
    second = np.append(table.pair_second, [b for _, b in fresh]).astype(np.int64)
    both = np.stack([paired[first, second], paired[second, first]], axis=2)
    unknown = np.full((len(fresh), len(table.flavors), 2), np.nan)
    return replace(
        table,
        pair_first=first,
        pair_second=second,
        together=Rates(alone=table.together.alone, paired=both),
        spread=Rates(
            alone=table.spread.alone, paired=np.concatenate([table.spread.paired, unknown])
        ),
    )
