"""A trial of the estimator: it hides most of a known table and estimates the hidden rates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from quorate.model.job_types import JobType
from quorate.policy.estimate import Match
from quorate.policy.files.estimate_table import families
from quorate.policy.files.file_faults import At, Faulty
from quorate.policy.files.throughputs_file import ThroughputTable
from quorate.sim.job_stream import TEMPLATES
from quorate.sim.profiling import Profiler, reference_columns

PROFILER_SEED: Final = 4
"""This number plus a simulation's seed is the seed that chooses the rates the estimator knows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """The number of known types, and the part of the other types' rates that is measured."""

    part: float
    known: int | None = None
    seed: int = 0
    scale: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialRow:
    """A match: the estimator took the known type ``like`` as most similar to the type ``type``.

    ``distance`` is the distance between the two types. If no known type was found, ``like`` and
    ``distance`` are None.
    """

    type: JobType
    like: JobType | None
    distance: float | None


def try_estimator(table: ThroughputTable, trial: Trial) -> tuple[TrialRow, ...] | Faulty:
    """Return the match of each type that uses ``trial.scale`` GPUs.

    The random draws are those of the published estimator.
    """
    at = At()
    family = next(
        (each for each in families(table) if table.types[each.types[0]].scale == trial.scale), None
    )
    if family is None or np.isnan(family.ratios).any():
        at.fault(
            f"has gaps among the types of {trial.scale} GPUs",
            "use a table without gaps: only known rates can be hidden",
        )
        return Faulty(faults=tuple(at.faults))
    types = [table.types[row] for row in family.types]
    order = [types.index(each) for each in published_first(types)]
    flavors = sorted(range(len(table.flavors)), key=lambda column: table.flavors[column])
    count = len(types) if trial.known is None else trial.known
    if not 1 <= count <= len(types):
        at.fault(
            f"has {len(types)} types, so the number of known types cannot be {count}",
            "use at least one, and at most all of them",
        )
        return Faulty(faults=tuple(at.faults))
    # Use single precision, like the published matrix.
    ratios = family.ratios[np.ix_(order, flavors, order)].astype(np.float32).astype(np.float64)
    rows = ratios.reshape(len(types), -1)
    profiler = Profiler(trial.seed + PROFILER_SEED, trial.seed)
    references = profiler.references(len(types), count)
    columns = reference_columns(references, len(types), len(flavors))
    known = rows[list(references)][:, columns]
    found = []
    for place, row in enumerate(rows):
        one = profiler.matched(known, row[columns], trial.part)
        like, distance = None, None
        if isinstance(one, Match):
            like, distance = types[order[references[one.reference]]], one.distance
        found.append(TrialRow(type=types[order[place]], like=like, distance=distance))
    return tuple(found)


def published_first(types: Sequence[JobType]) -> list[JobType]:
    """Return ``types`` in the published order if all of them are published, else as given."""
    place = {template.model: number for number, template in enumerate(TEMPLATES)}
    if not {each.model for each in types} <= place.keys():
        return list(types)
    return sorted(types, key=lambda each: place[each.model])
