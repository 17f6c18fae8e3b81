"""The time for which a pool of rounds waits for the answer of each policy.

The problems have 1,000 and 2,000 different runs of ten owners, on 800 GPUs of three flavors. If a
policy has a smaller limit on its runs in a pool, the problem has that number of runs. Policies that
read pairs get 20,000 pairs.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from benchmarks.figure import Effort, Figure, cpu_s
from benchmarks.rate_tables import Table, jobs_of, made_different, table
from quorate.loop.rounds.round_pairs import PAIRS_MAX
from quorate.policy.allocation import Allocation, Unsolved
from quorate.policy.askable import answer
from quorate.policy.policy_type import Policy
from quorate.policy.problem import Entity, Pairs, Problem
from quorate.policy.table import POLICIES

OWNERS = 10
GPUS = 800
RUNS = (1_000, 2_000)
TARGET_MS = 1_000.0


def measure(effort: Effort) -> list[Figure]:
    """Return the time of every policy for the runs with which a pool calls it."""
    rates = table()
    return [
        _figure(policy, rates, [effort.of(runs, runs // 20) for runs in RUNS])
        for policy in POLICIES.values()
        if not policy.reads_costs
    ]


def _figure(policy: Policy, rates: Table, asked: list[int]) -> Figure:
    """Return the time for the most runs, with the times for fewer runs in the details."""
    sizes = sorted({min(runs, policy.jobs_max or runs) for runs in asked})
    taken_ms = {runs: _taken_ms(policy, _pool(policy, rates, runs)) for runs in sizes}
    return Figure(
        name=f"a pool's {policy.name}",
        unit="ms",
        value=taken_ms[sizes[-1]],
        better="less",
        target=TARGET_MS,
        details={f"{runs} runs, ms": round(ms, 1) for runs, ms in taken_ms.items()},
    )


def _taken_ms(policy: Policy, asked: Problem) -> float:
    found: list[Allocation | Unsolved] = []
    taken_s = cpu_s(lambda: found.append(answer(policy, asked)))
    assert isinstance(found[0], Allocation), found[0]
    return 1_000 * taken_s


def _pool(policy: Policy, rates: Table, runs: int) -> Problem:
    """Return the problem of a pool; for AlloX, the runs have one GPU."""
    chance = np.random.default_rng(4)
    drawn = made_different(jobs_of(rates, runs, single=policy.name == "allox"))
    of = chance.integers(0, OWNERS, runs)
    weights = chance.choice([0.5, 1.0, 2.0, 5.0], runs)
    if not policy.reads_entities:
        weights = weights / np.bincount(of, weights=weights, minlength=OWNERS)[of] / OWNERS
    flavors = len(drawn.flavors)
    return replace(
        drawn,
        gpus=np.full(flavors, GPUS // flavors),
        weights=weights,
        steps_left=drawn.rates.max(axis=1) * chance.uniform(600.0, 100_000.0, runs),
        ages_s=chance.uniform(0.0, 100_000.0, runs),
        isolated_s=chance.uniform(0.0, 50_000.0, runs),
        entities=tuple(Entity(name=f"o{number}", weight=1.0 / OWNERS) for number in range(OWNERS)),
        entity_of=of,
        pairs=_pairs(drawn, of, policy.pairs_max or PAIRS_MAX) if policy.reads_pairs else None,
    )


def _pairs(drawn: Problem, of: np.ndarray[tuple[int], np.dtype[np.int64]], most: int) -> Pairs:
    """Return the first pairs of runs with the same owner and the same number of GPUs."""
    chance = np.random.default_rng(5)
    first, second = np.triu_indices(len(drawn.jobs), 1)
    fit = np.flatnonzero((of[first] == of[second]) & (drawn.scales[first] == drawn.scales[second]))
    first, second = first[fit[:most]], second[fit[:most]]
    alone = np.stack((drawn.rates[first], drawn.rates[second]), axis=2)
    return Pairs(first=first, second=second, rates=alone * chance.uniform(0.3, 0.95, alone.shape))
