"""Whatever is said of runs within the bounds of pools, every policy has an answer that holds."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.loop.round_problem import FLAVORS_APART, SECONDS_MAX, SECONDS_MIN
from quorate.model.rounds_bounds import RATE_MAX, WEIGHT_MAX, WEIGHT_MIN
from quorate.policy.allocation import Allocation
from quorate.policy.askable import answer
from quorate.policy.policy import Policy
from quorate.policy.problem import Entity, Floats, Pairs, Problem
from quorate.policy.table import POLICIES
from tests.oracles.effort import examples

TARGET_MIN: Final = 1e-6
"""The least part of a pool that an owner can have."""
JOBS_MAX: Final = 30


@st.composite
def extremes(draw: st.DrawFn, *, single: bool) -> Problem:
    """Draw a pool whose owners say whatever they may; many of them at the bounds.

    ``single`` has jobs of one GPU each.
    """
    chance = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    jobs, flavors = draw(st.integers(1, JOBS_MAX)), draw(st.integers(1, 5))
    owners = draw(st.integers(1, min(4, jobs)))
    of = np.concatenate((np.arange(owners), chance.integers(0, owners, jobs - owners)))
    rates = _between(chance, 1.0 / FLAVORS_APART, 1.0, (jobs, flavors))
    rates[:, 0] = 1.0
    rates[:, 1:][chance.random((jobs, flavors - 1)) < 0.1] = 0.0
    fastest = _between(chance, 1e-4, RATE_MAX, (jobs, 1))
    weights = _between(chance, WEIGHT_MIN, WEIGHT_MAX, (jobs,))
    return Problem(
        flavors=tuple(f"f{k}" for k in range(flavors)),
        gpus=chance.choice([1, 3, 8, 100, 1_000], flavors),
        jobs=tuple(f"j{k}" for k in range(jobs)),
        rates=fastest * rates,
        scales=np.ones(jobs, np.int64) if single else chance.choice([1, 1, 2, 8], jobs),
        weights=weights,
        steps_left=fastest[:, 0] * _between(chance, SECONDS_MIN, SECONDS_MAX, (jobs,)),
        ages_s=_between(chance, 1.0, SECONDS_MAX, (jobs,)) * chance.integers(0, 2, jobs),
        isolated_s=_between(chance, 1.0, SECONDS_MAX, (jobs,)) * chance.integers(0, 2, jobs),
        deadlines_s=np.full(jobs, np.inf),
        entities=tuple(
            Entity(name=f"o{k}", weight=float(weight))
            for k, weight in enumerate(_between(chance, TARGET_MIN, 1.0, (owners,)))
        ),
        entity_of=of,
    )


def _between(
    chance: np.random.Generator, least: float, most: float, shape: tuple[int, ...]
) -> Floats:
    """Return numbers of any size in these bounds, and of every five two at one of them."""
    found = np.exp(chance.uniform(np.log(least), np.log(most), shape))
    kind = chance.random(shape)
    return np.where(kind < 0.2, least, np.where(kind < 0.4, most, found))


def _asked(policy: Policy, drawn: Problem) -> Problem:
    """Return ``drawn`` as a pool asks it."""
    of, weights = drawn.entity_of, drawn.weights
    assert of is not None
    if not policy.reads_entities:
        owners = np.array([entity.weight for entity in drawn.entities])
        weights = owners[of] * weights / np.bincount(of, weights=weights)[of]
    pairs = None
    if policy.reads_pairs:
        first, second = np.triu_indices(len(drawn.jobs), 1)
        kept = (of[first] == of[second]) & (drawn.scales[first] == drawn.scales[second])
        first, second = first[kept], second[kept]
        together = 0.75 * np.stack((drawn.rates[first], drawn.rates[second]), axis=2)
        pairs = Pairs(first=first, second=second, rates=together) if len(first) else None
    return replace(drawn, weights=weights, pairs=pairs)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(n for n, p in POLICIES.items() if not p.reads_costs))
@examples(0.3)
@given(data=st.data())
def test_no_policy_is_without_an_answer_within_the_bounds(name: str, data: st.DataObject) -> None:
    policy = POLICIES[name]
    problem = _asked(policy, data.draw(extremes(single=name == "allox")))
    found = answer(policy, problem)
    assert isinstance(found, Allocation), found
