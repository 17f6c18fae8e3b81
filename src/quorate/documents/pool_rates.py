"""The throughputs of types of jobs in a pool, in the format of Gavel's published tables.

Each flavor lists types of jobs, such as ``('resnet', 2)``. Under a type, the key ``null`` has the
type's rate without other jobs. Each other key is a second type that can share GPUs with the listed
type, and its value is two rates: first the rate of the listed type, then the rate of the second
type. A pair is listed under one of its types, or under both types with the same rates. A pair with
``[0, 0]`` cannot share GPUs, and is dropped. If a type occurs only as a second type, its rate
without other jobs is 0. A table may have flavors that no node has.
"""

from __future__ import annotations

from typing import Final

from quorate.documents import values
from quorate.documents.document_problem import shown
from quorate.documents.field_reader import At, mapped
from quorate.documents.rates import rate
from quorate.model.amounts import PPM
from quorate.model.job_types import ALONE_KEY, JobType, parse_type
from quorate.model.specs import FlavorRates, TypeRates

RATES_MAX: Final = 20_000
"""The maximal number of rates in a table; a pair that is listed twice counts twice.

The published tables have 10,830 rates. There is a limit because the event that declares a pool
holds its whole table.
"""

_Pair = tuple[int, int]


class _Reading:
    """The rates of one flavor that have been read so far."""

    def __init__(self) -> None:
        self.alone: dict[JobType, int] = {}
        self.beside: dict[tuple[JobType, JobType], tuple[_Pair, At]] = {}


def throughputs(value: object, at: At) -> tuple[FlavorRates, ...] | None:
    """Return the rates by flavor; report every fault and return None if the table is faulty."""
    if value == {}:
        at.fault("has no flavors", "add the rates of each type of job by flavor, or remove it")
        return None
    rates = _rates_in(value) if isinstance(value, dict) else 0
    if rates > RATES_MAX:
        at.fault(
            f"has {rates} rates, over {RATES_MAX}", "leave out types that the pool does not run"
        )
        return None
    found = mapped(value, at, key=values.name, read=_flavor)
    if found is None:
        return None
    return tuple(FlavorRates(flavor=flavor, types=types) for flavor, types in found)


def _rates_in(table: dict[object, object]) -> int:
    """Return the number of rates in a table; malformed parts are not counted."""
    flavors = [each for each in table.values() if isinstance(each, dict)]
    return sum(len(each) for types in flavors for each in types.values() if isinstance(each, dict))


def _flavor(value: object, at: At) -> tuple[TypeRates, ...] | None:
    """Return the rates of one flavor, sorted; each pair occurs once."""
    before = len(at.faults)
    entries = _entries(value, at)
    if entries is None:
        return None
    if not entries:
        at.fault("has no types of jobs", "add types, as in ('resnet', 1): {null: 20.5}")
    reading = _Reading()
    for key, rates in entries.items():
        job_type = _type(key, at)
        if job_type is not None:
            _read_type(reading, job_type, rates, at.child(key))
    for pair in list(reading.beside):
        _check_pair(reading, pair)
    return None if len(at.faults) > before else tuple(_sorted(reading))


def _entries(value: object, at: At) -> dict[str, object] | None:
    """Return the mapping ``value`` with strings as keys.

    The key None becomes ``null``, because YAML reads an unquoted ``null`` as None.
    """
    if not isinstance(value, dict):
        at.fault(f"must be a mapping, got {shown(value)}", "write its entries as name: value")
        return None
    found: dict[str, object] = {}
    for key, entry in value.items():
        name = ALONE_KEY if key is None else key
        if not isinstance(name, str):
            at.fault(f"has a key that is not text: {shown(key)}", "put it in quotes")
        elif name in found:
            at.child(name).fault("is repeated", "keep one of the two")
        else:
            found[name] = entry
    return found


def _type(key: str, at: At) -> JobType | None:
    found = parse_type(key)
    if found is None:
        at.child(key).fault(
            "is not a type of job", "write a model and its GPUs, in quotes: ('resnet', 1)"
        )
        return None
    return None if values.line(found.model, at.child(key)) is None else found


def _read_type(reading: _Reading, job_type: JobType, value: object, at: At) -> None:
    entries = _entries(value, at)
    if entries is None:
        return
    if job_type in reading.alone:
        at.fault(f"repeats the type {job_type.key}", "keep one of the two")
        return
    if ALONE_KEY not in entries:
        at.child(ALONE_KEY).fault(
            "is required", "add the rate without other jobs, or 0 if it cannot run"
        )
    for key, entry in entries.items():
        place = at.child(key)
        if key == ALONE_KEY:
            rate = _rate(entry, place)
            reading.alone[job_type] = 0 if rate is None else rate
            continue
        other, both = _type(key, at), _pair(entry, place)
        if other is not None and both is not None:
            reading.beside[job_type, other] = both, place


def _rate(value: object, at: At) -> int | None:
    """Return a rate in millionths."""
    if value is None:
        at.fault("has no value", "write a rate, or 0 if the job cannot run like this")
        return None
    found = rate(value, at)
    if found is None:
        return None
    return round(found * PPM)


def _pair(value: object, at: At) -> _Pair | None:
    if not isinstance(value, list) or len(value) != 2:  # noqa: PLR2004 - the two of a pair
        at.fault(
            (f"must be the rates of the two jobs, got {shown(value)}"),
            "write two rates, as in [2.4, 0.9]",
        )
        return None
    one, other = _rate(value[0], at.child(0)), _rate(value[1], at.child(1))
    return None if one is None or other is None else (one, other)


def _check_pair(reading: _Reading, pair: tuple[JobType, JobType]) -> None:
    """Check a pair: its types must have the same number of GPUs, and its two entries must agree.

    If the pair is listed under its first type only, add the entry under its second type.
    """
    one, other = pair
    rates, at = reading.beside[pair]
    mirror = reading.beside.get((other, one))
    if one.scale != other.scale:
        at.fault(
            "has another number of GPUs", "remove it; both types must need the same number of GPUs"
        )
    elif mirror is None:
        reading.beside[other, one] = rates[::-1], at
        reading.alone.setdefault(other, 0)
    elif mirror[0] != rates[::-1] and one <= other:
        at.fault(
            f"differs from the rates that {other.key} lists for {one.key}",
            "write the same two rates in both places, in the opposite order",
        )


def _sorted(reading: _Reading) -> list[TypeRates]:
    beside: dict[JobType, list[tuple[str, int, int]]] = {}
    for (one, other), (rates, _) in sorted(reading.beside.items(), key=lambda each: each[0]):
        if one <= other and min(rates) > 0:
            beside.setdefault(one, []).append((other.model, *rates))
    return [
        TypeRates(
            job_type=each.model, gpus=each.scale, alone=alone, beside=tuple(beside.get(each, ()))
        )
        for each, alone in sorted(reading.alone.items())
    ]
