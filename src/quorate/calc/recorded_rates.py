"""Finds the rates of a recording's jobs in a table of throughputs that has the published form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from quorate.calc.recording import Recording
from quorate.documents.document_problem import CalcInputError, path_text, quoted, shown
from quorate.policy.rounds.round_book import Row
from quorate.sim.round_simulation import Rates

ALONE: Final = "null"
TABLE: Final = "throughputs"


def recorded_rates(recording: Recording, flavors: Sequence[str], *, with_pairs: bool) -> Rates:
    """Return the rates of each row on each of ``flavors``, or raise ``CalcInputError``.

    All rates that the simulation may need are looked up first, so that a missing rate is reported
    before the first round. The published mechanism does not distinguish GPUs of one node from GPUs
    of several nodes.
    """
    keys = {job.name: type_key(recording.types[job.name], job.gpus) for job in recording.jobs}
    scales = {keys[job.name]: job.gpus for job in recording.jobs}
    table = recording.throughputs
    if table is None:
        raise CalcInputError(
            TABLE,
            "is required: the rates of each type of job on each flavor; add the table, or name its"
            " file with --throughputs",
        )
    found: dict[tuple[str, str, str], tuple[float, ...]] = {}
    for flavor in flavors:
        of_flavor = _under(table, (TABLE,), flavor)
        alone = {key: _under(of_flavor, (TABLE, flavor), key) for key in scales}
        for key, rates in alone.items():
            place = (TABLE, flavor, key)
            found[flavor, key, ALONE] = (_rate(_under(rates, place, ALONE), (*place, ALONE)),)
            beside = [other for other in scales if scales[other] == scales[key]]
            for other in beside if with_pairs else ():
                found[flavor, key, other] = _two(_under(rates, place, other), (*place, other))

    def rates_of(row: Row, flavor: str, is_spread: bool) -> tuple[float, ...]:  # noqa: FBT001 - as ``Rates`` are asked
        del is_spread
        return found[flavor, keys[row[0]], keys[row[1]] if len(row) > 1 else ALONE]

    return rates_of


def type_key(model: str, gpus: int) -> str:
    """Return the table's key for a job of ``model`` with ``gpus`` GPUs."""
    return f"({model!r}, {gpus})"


def _under(value: object, place: tuple[str, ...], key: str) -> object:
    if not isinstance(value, Mapping):
        raise CalcInputError(
            path_text(place), f"must be an object, got {shown(value)}; write {{...}}"
        )
    if key not in value:
        raise CalcInputError(
            path_text(place), f"has no {quoted(key)}; add it: a job of the recording needs its rate"
        )
    return value[key]


def _rate(value: object, place: tuple[str, ...]) -> float:
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not 0 <= value < float("inf")
    ):
        raise CalcInputError(
            path_text(place), f"must be steps per second, got {shown(value)}; write 0 or more"
        )
    return float(value)


def _two(value: object, place: tuple[str, ...]) -> tuple[float, ...]:
    if not isinstance(value, list) or len(value) != 2:  # noqa: PLR2004 - the two of a pair
        raise CalcInputError(
            path_text(place),
            f"must be the rates of the two jobs, got {shown(value)}; if they cannot share GPUs,"
            " write [0, 0]",
        )
    return tuple(_rate(each, place) for each in value)
