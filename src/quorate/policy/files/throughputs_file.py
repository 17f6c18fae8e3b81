"""Tables of rates: the rate of each type of job on each flavor, alone and in pairs.

The format is the published one (Gavel, ``simulation_throughputs.json``): an object of flavors, each
with an object of types. In the object of a type, the key ``null`` has the rate of the type alone,
and the key of another type has the rates of the pair. ``[0, 0]`` means that the pair cannot share
GPUs. A file may list a pair under only one of its two types; ``write_throughputs`` lists every pair
under both types. A type is a model and its number of GPUs, such as ``('ResNet-18 (batch size 16)',
1)``. Rates on GPUs of several nodes are listed under the name of the flavor with
``_unconsolidated``.

A wrong value is a fault. A missing value is a gap: gaps are reported, and a problem that needs the
missing value is refused.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Any, Final

import numpy as np

from quorate.model.job_types import ALONE_KEY, SPREAD_SUFFIX, JobType, parse_type
from quorate.policy.files.file_faults import (
    NUMBER_MAX,
    NUMBER_MIN,
    At,
    Fault,
    Faulty,
    are_all_two_rates,
    are_two_rates,
    entries_of,
    shown,
)
from quorate.policy.files.json_bytes import decoded, encoded
from quorate.policy.problem import Floats, Ints

_ROW_BITS: Final = 32
"""A pair is coded as one integer, in which each of the two rows has this many bits."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rates:
    """Steps per second: ``alone`` (types, flavors), ``paired`` (pairs, flavors, 2).

    NaN is a gap.
    """

    alone: Floats
    paired: Floats


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ThroughputTable:
    """The rates of every type on every flavor.

    ``together`` has the rates on GPUs that are near each other. ``spread`` has the rates on GPUs of
    several nodes, which are NaN if the table has no such rates. A pair is two rows of ``types``,
    ``first <= second``, and has a rate for each of the two types.
    """

    flavors: tuple[str, ...]
    types: tuple[JobType, ...]
    pair_first: Ints
    pair_second: Ints
    together: Rates
    spread: Rates

    def gaps(self) -> tuple[Fault, ...]:
        """Return every missing rate, except rates on GPUs of several nodes."""
        return tuple(_gaps(self, self.together, ""))

    def spread_gaps(self) -> tuple[Fault, ...]:
        """Return the missing rates on GPUs of several nodes, for flavors that have any such rate.

        A type of one GPU cannot use several nodes, so it is left out.
        """
        return tuple(_gaps(self, self.spread, SPREAD_SUFFIX))


@dataclass(frozen=True, slots=True, eq=False)
class _Pairs:
    """The pairs of a flavor.

    ``codes`` has the two rows of each pair. ``rates`` (pairs, 2) has the two rates of each pair, in
    the order of its rows.
    """

    codes: Ints
    rates: Floats


class _Reading:
    """The values read so far: rows for types and pairs, in the order of the file."""

    def __init__(self) -> None:
        self.types: dict[JobType, int] = {}
        self.alone: dict[tuple[str, int], float] = {}
        self.paired: dict[str, _Pairs] = {}
        self.keys: dict[str, int | None] = {}

    def row(self, key: str, at: At) -> int | None:
        """Return the row of the type that ``key`` names; None, with a fault, for any other key."""
        if key not in self.keys:
            found = parse_type(key)
            self.keys[key] = (
                None if found is None else self.types.setdefault(found, len(self.types))
            )
        row = self.keys[key]
        if row is None:
            at.below(key).fault(
                "is not a type of job", "write a model and its GPUs: ('ResNet-18 (batch 16)', 1)"
            )
        return row

    def known(self, pairs: Mapping[str, Any], at: At) -> tuple[list[int], Mapping[str, Any]]:
        """Return the rows of the types that ``pairs`` names, and the pairs whose type has a row.

        A pair whose type has no row is a fault.
        """
        rows = [row for key in pairs if (row := self.keys.get(key)) is not None]
        if len(rows) == len(pairs):
            return rows, pairs
        found = {key: row for key in pairs if (row := self.row(key, at)) is not None}
        return [*found.values()], {key: pairs[key] for key in found}


def read_throughputs(data: bytes) -> ThroughputTable | Faulty:
    """Return the table in ``data``, or all faults of the data."""
    at = At()
    reading = _Reading()
    names = entries_of(decoded(data, at), at) or {}
    flavors = tuple(name for name in names if not name.endswith(SPREAD_SUFFIX))
    for name, types in names.items():
        _read_flavor(reading, name, types, at.below(name))
        base = name.removesuffix(SPREAD_SUFFIX)
        if base not in flavors:
            at.below(name).fault(
                f"there is no flavor {base}", f"add the rates of {base}, or rename this flavor"
            )
    if not flavors and not at.faults:
        at.fault("has no flavors", "write the rates of each type under the name of a flavor")
    return Faulty(faults=tuple(at.faults)) if at.faults else _table(reading, flavors)


def _read_flavor(reading: _Reading, name: str, types: object, at: At) -> None:
    """Read the rates of one flavor; check that a pair that is listed twice has the same rates."""
    listed = _Listed()
    for key, entries in (entries_of(types, at) or {}).items():
        row = reading.row(key, at)
        below = at.below(key)
        rates = entries_of(entries, below)
        if row is None or rates is None:
            continue
        if ALONE_KEY not in rates:
            below.below(ALONE_KEY).fault("is missing", "add the rate of the job alone")
        elif _is_rate(rates[ALONE_KEY], below.below(ALONE_KEY)):
            reading.alone[name, row] = float(rates[ALONE_KEY])
        pairs = {key: each for key, each in rates.items() if key != ALONE_KEY}
        listed.add(row, *reading.known(pairs, below), below)
    reading.paired[name] = _joined(listed.without_faults(), list(reading.types), at)


def _is_rate(value: object, at: At) -> bool:
    if isinstance(value, bool) or not isinstance(value, float | int):
        at.fault(f"must be steps per second, got {shown(value)}", "write a number")
        return False
    if value == 0 or NUMBER_MIN <= value <= NUMBER_MAX:
        return True
    # A whole number may be too large for a float, so it is compared without conversion.
    is_number = value == value and abs(value) < math.inf  # noqa: PLR0124 - NaN is not itself
    problem = "is not finite" if not is_number else "is below 0" if value < 0 else "is not a rate"
    at.fault(f"{problem}: {shown(value)}", "measure it again, or write 0 where it cannot run")
    return False


def _is_pair(value: object, at: At) -> bool:
    if not isinstance(value, list) or len(value) != 2:  # noqa: PLR2004 - the two of a pair
        what = f"must be the rates of the two jobs, got {shown(value)}"
        at.fault(what, "write two, for example [2.4, 0.9]")
        return False
    ok = _is_rate(value[0], at.below(0))
    return _is_rate(value[1], at.below(1)) and ok


class _Listed:
    """The pairs of a flavor as the file lists them: the type's row, the other row, the rates.

    An entry with wrong rates is kept, too.
    """

    def __init__(self) -> None:
        self.ones: list[int] = []
        self.others: list[int] = []
        self.rates: list[Any] = []
        self._ats: list[At] = []
        self._keys: list[str] = []

    def add(self, row: int, others: list[int], pairs: Mapping[str, Any], at: At) -> None:
        """Add ``pairs``, listed under the type of ``row``; ``others`` has their other rows."""
        self.ones += repeat(row, len(others))
        self.others += others
        self.rates += pairs.values()
        self._ats += repeat(at, len(others))
        self._keys += pairs

    def without_faults(self) -> _Listed:
        """Return the entries that have two rates each; record a fault for every other entry."""
        if are_all_two_rates(self.rates):
            return self
        kept = _Listed()
        entries = zip(self.ones, self.others, self.rates, self._ats, self._keys, strict=True)
        for one, other, rates, at, key in entries:
            if are_two_rates(rates) or _is_pair(rates, at.below(key)):
                kept.add(one, [other], {key: rates}, at)
        return kept


def _joined(listed: _Listed, types: list[JobType], at: At) -> _Pairs:
    """Return each pair once, with its rates in the order of its two rows.

    A pair that is listed under only one of its types needs no second entry.
    """
    one, other = (np.array(rows, dtype=np.int64) for rows in (listed.ones, listed.others))
    rates = np.array([*chain.from_iterable(listed.rates)], dtype=np.float64).reshape(-1, 2)
    table = np.full((len(types), len(types), 2), np.nan)
    table[one, other] = rates
    mirrors = table[other, one][:, ::-1]
    scales = np.array([each.scale for each in types], dtype=np.int64)
    is_misfit = scales[one] != scales[other]
    differs = (one <= other) & ~np.isnan(mirrors[:, 0]) & (mirrors != rates).any(axis=1)
    for number in np.flatnonzero(is_misfit | differs):
        if is_misfit[number]:
            message = "shares GPUs with a type of another scale"
            remedy = "remove it; only jobs of the same scale share GPUs"
        else:
            mirror = np.flatnonzero((one == other[number]) & (other == one[number]))[-1]
            message = (
                f"is {listed.rates[number]}, but the same pair in the other order is "
                f"{listed.rates[mirror]}"
            )
            remedy = "write the same two rates in both places, in the opposite order"
        names = types[one[number]].key, types[other[number]].key
        at.below(names[0]).below(names[1]).fault(message, remedy)
    is_turned = one > other
    rates[is_turned] = rates[is_turned, ::-1]
    return _Pairs(np.where(is_turned, _code(other, one), _code(one, other)), rates)


def _code(one: Ints, other: Ints) -> Ints:
    return (one << _ROW_BITS) | other


def _table(reading: _Reading, flavors: tuple[str, ...]) -> ThroughputTable:
    listed = np.concatenate([each.codes for each in reading.paired.values()])
    codes, first = np.unique(listed, return_index=True)
    # The pairs get rows in the order of the file. ``rank`` has the row of each pair, sorted by the
    # codes of the pairs.
    order = np.argsort(first)
    rank = np.argsort(order)
    rows = codes[order]
    return ThroughputTable(
        flavors=flavors,
        types=tuple(reading.types),
        pair_first=rows >> _ROW_BITS,
        pair_second=rows & ((1 << _ROW_BITS) - 1),
        together=_rates(reading, flavors, codes, rank),
        spread=_rates(reading, tuple(f"{name}{SPREAD_SUFFIX}" for name in flavors), codes, rank),
    )


def _rates(reading: _Reading, names: tuple[str, ...], codes: Ints, rank: Ints) -> Rates:
    column = {name: number for number, name in enumerate(names)}
    alone = np.full((len(reading.types), len(names)), np.nan)
    for (name, row), rate in reading.alone.items():
        if name in column:
            alone[row, column[name]] = rate
    paired = np.full((len(codes), len(names), 2), np.nan)
    for name, pairs in reading.paired.items():
        if name in column:
            paired[rank[np.searchsorted(codes, pairs.codes)], column[name]] = pairs.rates
    return Rates(alone=alone, paired=paired)


def _gaps(table: ThroughputTable, rates: Rates, suffix: str) -> Iterator[Fault]:
    """Yield the gaps of the flavors that have any rate under ``suffix``."""
    for column, flavor in enumerate(table.flavors):
        missing = np.isnan(rates.alone[:, column])
        if suffix and missing.all():
            continue
        several = np.array([not suffix or each.scale > 1 for each in table.types], dtype=np.bool_)
        at = At().below(f"{flavor}{suffix}")
        for row in np.flatnonzero(missing & several):
            yield Fault(
                place=at.below(table.types[row].key).below(ALONE_KEY).place,
                message="is missing",
                remedy="add its rate, 0 where it cannot run",
            )
        lone = np.isnan(rates.paired[:, column, 0])
        for pair in np.flatnonzero(lone):
            one, other = int(table.pair_first[pair]), int(table.pair_second[pair])
            if several[one] and not (missing[one] or missing[other]):
                yield Fault(
                    place=at.below(table.types[one].key).below(table.types[other].key).place,
                    message="is missing",
                    remedy="add the rates of the two, [0, 0] where they cannot share",
                )


def write_throughputs(table: ThroughputTable) -> bytes:
    """Return ``table`` in the form of a file; gaps stay gaps."""
    written: dict[str, dict[str, dict[str, Any]]] = {}
    for rates, suffix in ((table.together, ""), (table.spread, SPREAD_SUFFIX)):
        for column, flavor in enumerate(table.flavors):
            found = _written(table, rates, column)
            if found or not suffix:
                written[f"{flavor}{suffix}"] = found
    return encoded(written)


def _written(table: ThroughputTable, rates: Rates, column: int) -> dict[str, dict[str, Any]]:
    keys = [each.key for each in table.types]
    found: dict[str, dict[str, Any]] = {
        keys[row]: {ALONE_KEY: float(rates.alone[row, column])}
        for row in np.flatnonzero(~np.isnan(rates.alone[:, column]))
    }
    for pair in np.flatnonzero(~np.isnan(rates.paired[:, column, 0])):
        one, other = keys[table.pair_first[pair]], keys[table.pair_second[pair]]
        both = rates.paired[pair, column].tolist()
        found.setdefault(one, {})[other] = both
        found.setdefault(other, {})[one] = both[::-1]
    return found
