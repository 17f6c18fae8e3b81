"""Rates of jobs from a table, for simulations."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from quorate.model.job_types import JobType
from quorate.policy.files.throughputs_file import ThroughputTable
from quorate.policy.problem import Floats
from quorate.policy.rounds.round_book import Row
from quorate.sim.job_stream import Template
from quorate.sim.profile_trial import published_first
from quorate.sim.round_simulation import Rates


def row_rates(table: ThroughputTable, types: Mapping[str, JobType]) -> Rates:
    """Return a function for the rates of rows of jobs of ``types``, together and spread.

    If the table has no rate of a row on spread GPUs, its rate on GPUs together is used. If the
    table has neither rate, the rate is 0, so two jobs that were never measured as a pair do not
    share GPUs.
    """
    rows = {each: row for row, each in enumerate(table.types)}
    columns = {flavor: column for column, flavor in enumerate(table.flavors)}
    pairs = {
        pair: row
        for row, pair in enumerate(
            zip(table.pair_first.tolist(), table.pair_second.tolist(), strict=True)
        )
    }
    alone = _where_known(table.spread.alone, table.together.alone)
    paired = _where_known(table.spread.paired, table.together.paired)
    # There are few types, and each is looked up many times.
    known: dict[tuple[JobType | None, JobType, str, bool], tuple[float, ...]] = {}

    def found(first: int, second: int | None, column: int, *, is_spread: bool) -> tuple[float, ...]:
        if second is None:
            return (float(alone[int(is_spread)][first, column]),)
        place = pairs.get((min(first, second), max(first, second)))
        if place is None:
            return (0.0, 0.0)
        one, other = paired[int(is_spread)][place, column].tolist()
        return (one, other) if first <= second else (other, one)

    def rates(row: Row, flavor: str, is_spread: bool) -> tuple[float, ...]:  # noqa: FBT001
        first, second = types[row[0]], types[row[1]] if len(row) > 1 else None
        key = (second, first, flavor, is_spread)
        if (kept := known.get(key)) is None:
            other = None if second is None else rows[second]
            kept = found(rows[first], other, columns[flavor], is_spread=is_spread)
            known[key] = kept
        return kept

    return rates


def _where_known(spread: Floats, together: Floats) -> tuple[Floats, Floats]:
    """Return the rates on GPUs together and on GPUs spread, without gaps."""
    near = np.nan_to_num(together, nan=0.0)
    return near, np.where(np.isnan(spread), near, spread)


def templates_of(table: ThroughputTable, flavor: str) -> tuple[Template, ...]:
    """Return the models that run on ``flavor``, and the numbers of GPUs of each."""
    column = table.flavors.index(flavor)
    sizes: dict[JobType, list[int]] = {}
    for each, rate in zip(table.types, table.together.alone[:, column], strict=True):
        if rate > 0.0:
            sizes.setdefault(each._replace(scale=0), []).append(each.scale)
    return tuple(
        Template(model=each.model, sizes=tuple(sorted(sizes[each])))
        for each in published_first(list(sizes))
    )


def rates_on(table: ThroughputTable, flavor: str) -> Callable[[str, int], float]:
    """Return a function for the rate of a model alone on a number of GPUs of ``flavor``."""
    column = table.flavors.index(flavor)
    rates = dict(zip(table.types, table.together.alone[:, column].tolist(), strict=True))
    return lambda model, gpus: rates[JobType(model, gpus)]
