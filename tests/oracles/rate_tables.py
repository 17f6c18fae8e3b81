"""Random tables of rates, jobs and problems, for property tests of policies and their files."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from hypothesis import strategies as st

from quorate.model.job_types import JobType
from quorate.policy.files.jobs_file import JobState
from quorate.policy.files.throughputs_file import Rates, ThroughputTable
from quorate.policy.problem import Entity, EntityRule, Pairs, Problem

NAMES: Final = st.text(
    st.characters(exclude_categories=("Cs", "Cc"), exclude_characters=","), min_size=1, max_size=8
).filter(lambda name: bool(name.strip()))
FLAVORS: Final = st.lists(
    NAMES.filter(lambda name: not name.endswith("_unconsolidated")),
    min_size=1,
    max_size=4,
    unique=True,
)
RATES: Final = st.one_of(st.just(0.0), st.floats(1e-3, 1e4))


@st.composite
def tables(draw: st.DrawFn) -> ThroughputTable:
    """Draw a table that may have gaps; each type has a rate on some flavor."""
    flavors = tuple(draw(FLAVORS))
    types = draw(
        st.lists(
            st.builds(JobType, st.text(max_size=6), st.integers(1, 4)), max_size=5, unique=True
        )
    )
    drawn = {kind: _alone(draw, types, flavors) for kind in ("together", "spread")}
    used = [
        row for row in range(len(types)) if any(not np.isnan(d[row]).all() for d in drawn.values())
    ]
    types = [types[row] for row in used]
    pairs = [
        (one, other)
        for one in range(len(types))
        for other in range(one, len(types))
        if types[one].scale == types[other].scale and draw(st.booleans())
    ]
    rates = {
        kind: Rates(alone=alone[used], paired=_paired(draw, pairs, alone[used]))
        for kind, alone in drawn.items()
    }
    return _without_unused(flavors, tuple(types), pairs, rates)


def _alone(draw: st.DrawFn, types: list[JobType], flavors: tuple[str, ...]) -> np.ndarray:
    cell = st.one_of(st.just(math.nan), RATES)
    return np.array([[draw(cell) for _ in flavors] for _ in types]).reshape(-1, len(flavors))


def _paired(draw: st.DrawFn, pairs: list[tuple[int, int]], alone: np.ndarray) -> np.ndarray:
    found = np.full((len(pairs), alone.shape[1], 2), np.nan)
    for number, (one, other) in enumerate(pairs):
        for column in range(alone.shape[1]):
            if not np.isnan(alone[[one, other], column]).any() and draw(st.booleans()):
                rate = draw(RATES)
                found[number, column] = (rate, rate if one == other else draw(RATES))
    return found


def _without_unused(
    flavors: tuple[str, ...],
    types: tuple[JobType, ...],
    pairs: list[tuple[int, int]],
    rates: dict[str, Rates],
) -> ThroughputTable:
    """Return the table without pairs that have no rates, because no file can express them."""
    known = [
        number
        for number in range(len(pairs))
        if any(not np.isnan(each.paired[number]).all() for each in rates.values())
    ]
    kept = np.array([pairs[number] for number in known], dtype=np.int64).reshape(-1, 2)
    return ThroughputTable(
        flavors=flavors,
        types=types,
        pair_first=kept[:, 0],
        pair_second=kept[:, 1],
        together=Rates(alone=rates["together"].alone, paired=rates["together"].paired[known]),
        spread=Rates(alone=rates["spread"].alone, paired=rates["spread"].paired[known]),
    )


def job_states(flavors: tuple[str, ...] | None = None) -> st.SearchStrategy[JobState]:
    """Return a strategy for jobs; if ``flavors`` are given, each job has rates of its own."""
    rates: st.SearchStrategy[dict[str, float] | None] = st.none()
    if flavors is not None:
        rates = st.fixed_dictionaries(dict.fromkeys(flavors, RATES))
    return st.builds(
        JobState,
        name=NAMES,
        job_type=st.one_of(st.none(), st.text(min_size=1, max_size=5)),
        scale=st.sampled_from([1, 1, 2, 4]),
        weight=st.floats(0.1, 10),
        steps_left=st.one_of(st.just(math.nan), st.integers(0, 10**6).map(float)),
        age_s=st.floats(0, 1e6),
        isolated_s=st.floats(0, 1e6),
        deadline_s=st.one_of(st.just(math.inf), st.floats(0.5, 1e6)),
        rates=rates,
    )


@st.composite
def problems(draw: st.DrawFn, *, scale_max: int = 3) -> Problem:
    """Draw a problem with pairs, costs and entities; rates and numbers of GPUs may be zero."""
    flavors = tuple(draw(FLAVORS))
    jobs = draw(st.lists(NAMES, min_size=1, max_size=6, unique=True))
    count = len(jobs)

    def column(values: st.SearchStrategy[float]) -> np.ndarray:
        return np.array([draw(values) for _ in jobs], dtype=np.float64)

    scales = np.array([draw(st.integers(1, scale_max)) for _ in jobs], dtype=np.int64)
    pairs = [
        (one, other)
        for one in range(count)
        for other in range(one + 1, count)
        if scales[one] == scales[other] and draw(st.booleans())
    ]
    entities = draw(st.lists(NAMES, max_size=3, unique=True))
    return Problem(
        flavors=flavors,
        gpus=np.array([draw(st.integers(0, 5)) for _ in flavors], dtype=np.int64),
        jobs=tuple(jobs),
        rates=np.array([[draw(RATES) for _ in flavors] for _ in jobs]),
        scales=scales,
        weights=column(st.floats(0.1, 10)),
        steps_left=column(st.integers(0, 10**6).map(float)),
        ages_s=column(st.floats(0, 1e5)),
        isolated_s=column(st.floats(0, 1e5)),
        deadlines_s=column(st.one_of(st.just(math.inf), st.floats(1, 1e5))),
        costs=draw(st.one_of(st.none(), st.just(np.linspace(0.5, 2, len(flavors))))),
        pairs=_job_pairs(draw, pairs, len(flavors)),
        entities=tuple(
            Entity(
                name=name, weight=draw(st.floats(0.5, 4)), rule=draw(st.sampled_from(EntityRule))
            )
            for name in entities
        ),
        entity_of=_entity_of(draw, count, len(entities)),
    )


def _job_pairs(draw: st.DrawFn, pairs: list[tuple[int, int]], flavors: int) -> Pairs | None:
    if not pairs:
        return None
    return Pairs(
        first=np.array([one for one, _ in pairs], dtype=np.int64),
        second=np.array([other for _, other in pairs], dtype=np.int64),
        rates=np.array([[[draw(RATES), draw(RATES)] for _ in range(flavors)] for _ in pairs]),
    )


def _entity_of(draw: st.DrawFn, jobs: int, entities: int) -> np.ndarray | None:
    if not entities:
        return None
    return np.array([draw(st.integers(0, entities - 1)) for _ in range(jobs)], dtype=np.int64)
