"""A slow water filling: a linear program for each level, and one for each job that may be stuck.

The problems have few jobs and small whole numbers, so that ties and zeros are common.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

from quorate.policy.allocation_space import Space, added, program, space_of
from quorate.policy.problem import NO_ENTITY, Entity, EntityRule, Floats, Pairs, Problem
from quorate.policy.solvers.lp import Program, Solution, solve

CLOSE = 1e-7


def normalised(problem: Problem, *, paired: bool) -> Space:
    """Return the space of ``problem`` with rates relative to an equal share of every flavor."""
    space = space_of(problem, paired=paired)
    equal = problem.rates @ problem.gpus / problem.gpus.sum()
    return replace(space, rates=space.rates / equal[space.jobs])


def slowly_filled(problem: Problem, *, paired: bool) -> Floats:
    """Return the level of each job, computed one level and one job at a time."""
    space = normalised(problem, paired=paired)
    jobs = len(problem.jobs)
    filled, stuck = np.zeros(jobs), np.zeros(jobs, dtype=bool)
    while not stuck.all():
        pace = _paces(problem, stuck)
        gains = np.zeros(len(space.rows) + 1)
        gains[-1] = 1.0
        asked = program(space, gains, more=(-pace,))
        answer = solve(replace(asked, row_low=_low(asked, filled)))
        assert isinstance(answer, Solution), answer
        filled = filled + answer.objective * pace
        for job in np.flatnonzero(~stuck & (pace > 0)):
            most = best_of(space, int(job), filled * (1 - 1e-9))
            stuck[job] = most <= filled[job] * (1 + CLOSE) + CLOSE
    return filled


def best_of(space: Space, job: int, kept: Floats) -> float:
    """Return the highest level of ``job`` with all other jobs at least at ``kept``."""
    gains = added(space.columns, space.rates * (space.jobs == job), len(space.rows))
    asked = program(space, gains)
    low = kept.copy()
    low[job] = 0.0
    answer = solve(replace(asked, row_low=_low(asked, low)))
    assert isinstance(answer, Solution), answer
    return answer.objective


def _low(asked: Program, rates: Floats) -> Floats:
    return np.concatenate([rates, asked.row_low[len(rates) :]])


def _paces(problem: Problem, stuck: object) -> Floats:
    found = np.zeros(len(problem.jobs))
    free = ~np.asarray(stuck)
    of_jobs = problem.entity_of
    for job in np.flatnonzero(free):
        number = NO_ENTITY if of_jobs is None else int(of_jobs[job])
        if number == NO_ENTITY:
            found[job] = problem.weights[job]
            continue
        assert of_jobs is not None
        entity = problem.entities[number]
        mates = np.flatnonzero(free & (of_jobs == number))
        if entity.rule is EntityRule.FAIRNESS:
            found[job] = entity.weight * problem.weights[job] / problem.weights[mates].sum()
        elif job == mates[0]:
            found[job] = entity.weight
    return found / problem.scales


@st.composite
def problems(
    draw: st.DrawFn, *, jobs_max: int = 6, paired: bool = False, entities_max: int = 0
) -> Problem:
    """Draw a problem in which every job has a rate above 0 on a flavor with GPUs."""
    flavors = draw(st.integers(1, 4))
    jobs = draw(st.integers(1, jobs_max))
    gpus = draw(st.lists(st.integers(0, 4), min_size=flavors, max_size=flavors).filter(any))
    one_row = st.lists(st.integers(0, 4), min_size=flavors, max_size=flavors)
    rows = [draw(one_row) for _ in range(jobs)]
    for row in rows:
        if not any(rate and count for rate, count in zip(row, gpus, strict=True)):
            row[gpus.index(max(gpus))] = 1
    scales = draw(st.lists(st.sampled_from([1, 1, 2, 4]), min_size=jobs, max_size=jobs))
    weights = draw(st.lists(st.sampled_from([1.0, 1.0, 2.0, 5.0]), min_size=jobs, max_size=jobs))
    count = draw(st.integers(0, entities_max))
    rules = st.sampled_from(EntityRule)
    entities = tuple(
        Entity(name=f"e{k}", weight=draw(st.sampled_from([1.0, 2.0, 3.0])), rule=draw(rules))
        for k in range(count)
    )
    of_jobs = [draw(st.integers(NO_ENTITY, count - 1)) for _ in range(jobs)] if count else None
    return Problem(
        flavors=tuple(f"f{k}" for k in range(flavors)),
        gpus=np.array(gpus, dtype=np.int64),
        jobs=tuple(f"j{k}" for k in range(jobs)),
        rates=np.array(rows, dtype=np.float64),
        scales=np.array(scales, dtype=np.int64),
        weights=np.array(weights),
        steps_left=np.full(jobs, 100.0),
        ages_s=np.zeros(jobs),
        isolated_s=np.zeros(jobs),
        deadlines_s=np.full(jobs, np.inf),
        costs=np.array([draw(st.sampled_from([1.0, 2.0, 5.0])) for _ in range(flavors)]),
        pairs=draw(some_pairs(rows, scales)) if paired else None,
        entities=entities,
        entity_of=None if of_jobs is None else np.array(of_jobs, dtype=np.int64),
    )


@st.composite
def some_pairs(draw: st.DrawFn, rows: list[list[int]], scales: list[int]) -> Pairs | None:
    """Draw pairs of jobs with equal scales, and the part of its rates that each job keeps."""
    ends = [(a, b) for b in range(len(rows)) for a in range(b) if scales[a] == scales[b]]
    chosen = [pair for pair in ends if draw(st.booleans())]
    if not chosen:
        return None
    parts = st.sampled_from([0.0, 0.5, 0.5, 0.75, 1.0])
    rates = [
        [
            [fast * draw(parts), slow * draw(parts)]
            for fast, slow in zip(rows[a], rows[b], strict=True)
        ]
        for a, b in chosen
    ]
    return Pairs(
        first=np.array([a for a, _ in chosen], dtype=np.int64),
        second=np.array([b for _, b in chosen], dtype=np.int64),
        rates=np.array(rates),
    )
