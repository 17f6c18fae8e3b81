"""Rates of jobs from a table, for simulations.

Strict simulations read the rates of each job, alone and in each pair. The production engine reads
rates in the form that pools have. Simulated work reads the speeds of a job, as parts of the job's
full speed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

import numpy as np

from quorate.model.amounts import PPM
from quorate.model.job_types import SPREAD_SUFFIX, JobType
from quorate.model.specs import FlavorRates, TypeRates
from quorate.policy.files.throughputs_file import Rates as TableRates
from quorate.policy.files.throughputs_file import ThroughputTable
from quorate.policy.problem import Floats
from quorate.policy.rounds.round_book import Row
from quorate.sim.job_stream import Template
from quorate.sim.profile_trial import published_first
from quorate.sim.round_simulation import Rates
from quorate.sim.traces.trace_job import TraceError, TraceJob

Speeds = tuple[tuple[str, int], ...]
"""The speed on each flavor, in millionths of the full speed of a job."""
PairSpeeds = Mapping[tuple[str, str], int]
"""The speed of a job on a flavor when it shares GPUs with a type of job, in millionths of its full
speed."""


def row_rates(table: ThroughputTable, types: Mapping[str, JobType]) -> Rates:
    """Return a function that returns the rates of a row (one job or a pair of jobs).

    ``types`` has the type of each job. The table has rates on GPUs that are near each other, and
    may have rates on GPUs of several nodes. If a row has no rate on several nodes, its rate on near
    GPUs is used instead. If the row has neither rate, the rate is 0, so two jobs that were never
    measured as a pair do not share GPUs.
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

    def rates(row: Row, flavor: str, is_spread: bool) -> tuple[float, ...]:  # noqa: FBT001 - as ``Rates`` are asked
        first, second = types[row[0]], types[row[1]] if len(row) > 1 else None
        key = (second, first, flavor, is_spread)
        if (kept := known.get(key)) is None:
            other = None if second is None else rows[second]
            kept = found(rows[first], other, columns[flavor], is_spread=is_spread)
            known[key] = kept
        return kept

    return rates


def _where_known(spread: Floats, together: Floats) -> tuple[Floats, Floats]:
    """Return the rates on near GPUs, and on GPUs of several nodes, without gaps."""
    near = np.nan_to_num(together, nan=0.0)
    return near, np.where(np.isnan(spread), near, spread)


def templates_of(table: ThroughputTable, flavor: str) -> tuple[Template, ...]:
    """Return the models that run on ``flavor``, and the numbers of GPUs that each can take."""
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
    """Return a function that takes a model and a number of GPUs, and returns the model's rate.

    The rate is in steps per second, for a job that works alone on GPUs of ``flavor``.
    """
    column = table.flavors.index(flavor)
    rates = dict(zip(table.types, table.together.alone[:, column].tolist(), strict=True))
    return lambda model, gpus: rates[JobType(model, gpus)]


def can_share_on(table: ThroughputTable, flavors: Sequence[str]) -> bool:
    """Return whether two types of jobs can share GPUs of one of ``flavors``."""
    columns = [column for column, name in enumerate(table.flavors) if name in flavors]
    rates = table.together.paired[:, columns]
    return bool((rates > 0).all(axis=2).any())  # Gaps are NaN, and do not count.


def kind_of(table: ThroughputTable, job: TraceJob) -> JobType | None:
    """Return the type of ``job`` in ``table``, or None if its steps or its type are not known.

    Raises ``TraceError`` if the table does not have the type.
    """
    if job.job_type is None or job.steps is None:
        return None
    kind = JobType(job.job_type, job.gpus)
    if kind not in table.types:
        raise TraceError(
            job.line,
            "job_type",
            f"of job {job.name} is {kind.key}, which the table of rates does not have",
            "add it to the table, or choose other jobs",
        )
    return kind


def kinds_of(table: ThroughputTable, jobs: Iterable[TraceJob]) -> frozenset[JobType]:
    """Return the types of ``jobs``."""
    return frozenset(kind for job in jobs if (kind := kind_of(table, job)) is not None)


def pool_rates(
    table: ThroughputTable, flavors: Sequence[str], kinds: Collection[JobType]
) -> tuple[FlavorRates, ...]:
    """Return the rates of ``kinds`` on ``flavors``, in the form that pools have.

    Pairs are included only if both types have the same number of GPUs, and both make progress when
    they share GPUs.
    """
    found: list[FlavorRates] = []
    for rates, suffix in ((table.together, ""), (table.spread, SPREAD_SUFFIX)):
        for flavor in sorted(set(flavors) & set(table.flavors)):
            column = table.flavors.index(flavor)
            types = tuple(sorted(_types(table, rates, column, kinds), key=_by_type))
            if types:
                found.append(FlavorRates(flavor=f"{flavor}{suffix}", types=types))
    return tuple(found)


def _by_type(rates: TypeRates) -> tuple[str, int]:
    return rates.job_type, rates.gpus


def _types(
    table: ThroughputTable, rates: TableRates, column: int, kinds: Collection[JobType]
) -> Iterator[TypeRates]:
    beside: dict[JobType, list[tuple[str, int, int]]] = {kind: [] for kind in kinds}
    ends = zip(table.pair_first.tolist(), table.pair_second.tolist(), strict=True)
    for (first, second), pair in zip(ends, rates.paired[:, column].tolist(), strict=True):
        one, other = table.types[first], table.types[second]
        if one not in kinds or other not in kinds or one.scale != other.scale:
            continue
        if not min(pair) > 0:  # Gaps are NaN, and are left out, too.
            continue
        rate, rate_of_other = (round(each * PPM) for each in pair)
        if one.model <= other.model:
            beside[one].append((other.model, rate, rate_of_other))
        else:
            beside[other].append((one.model, rate_of_other, rate))
    for kind, pairs in beside.items():
        alone = rates.alone[table.types.index(kind), column]
        if not np.isnan(alone):
            yield TypeRates(
                job_type=kind.model,
                gpus=kind.scale,
                alone=round(float(alone) * PPM),
                beside=tuple(sorted(pairs)),
            )


def speeds_of(
    rates: Iterable[FlavorRates], kind: JobType, full: float
) -> tuple[Speeds, PairSpeeds]:
    """Return the speeds of ``kind``: alone, and when it shares GPUs with each type in ``rates``.

    The full speed is ``full`` steps per second.
    """
    alone: list[tuple[str, int]] = []
    paired: dict[tuple[str, str], int] = {}
    for of_flavor in rates:
        flavor = of_flavor.flavor
        for known in of_flavor.types:
            if known.gpus != kind.scale:
                continue
            if known.job_type == kind.model:
                alone.append((flavor, _speed_ppm(known.alone, full)))
            for other, rate, rate_of_other in known.beside:
                if other == kind.model:
                    paired[flavor, known.job_type] = _speed_ppm(rate_of_other, full)
                if known.job_type == kind.model:
                    paired[flavor, other] = _speed_ppm(rate, full)
    return tuple(alone), paired


def _speed_ppm(rate_ppm: int, full: float) -> int:
    return max(1, round(rate_ppm / full))
