"""The time of an allocation for many jobs, compared with an interior-point solver.

Every answer has its own certificate, and is compared with the answer of the baseline. Targets that
are multiples of the baseline need the optional packages cvxpy and ECOS.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from benchmarks import peer_policies
from benchmarks.figure import Baseline, Effort, Figure, cpu_s, median_of, percentile
from benchmarks.rate_tables import (
    Table,
    jobs_of,
    jobs_of_types,
    made_different,
    many_flavors,
    table,
)
from quorate.policy.allocation import Allocation, Method, Unsolved
from quorate.policy.class_demand import demand_of
from quorate.policy.policies.max_min_fairness import FAIRNESS
from quorate.policy.policies.min_total_duration import SPEED
from quorate.policy.problem import Problem
from quorate.policy.solvers.highest import highest
from quorate.policy.solvers.prices import level_by_prices
from quorate.policy.table import POLICIES

REPEATS = 15
KINDS = 200
WEIGHTS = np.array([1.0, 2.0, 5.0])
"""In the figure of arrivals, each of the ``KINDS`` of jobs is a type with one of these weights."""
EXACT = 1e-6
NEAR = 1e-4
"""The most by which the baseline's objective may differ: the exactness of the baseline's solver."""

Answer = Callable[[Problem], Allocation | Unsolved]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Beside:
    """A baseline, the factor by which Quorate must be faster, and the baseline's planned error."""

    peer: peer_policies.Peer
    times: float | None = None
    off: float = NEAR


def measure(effort: Effort) -> list[Figure]:
    """Return the times of the policies that raise a level, with baselines or limits."""
    rates = table()
    peer_policies.warm_up(jobs_of(rates, 20))
    many = jobs_of(rates, effort.of(10_000, 300))
    most = made_different(jobs_of(rates, effort.of(100_000, 2_000)))
    classes = jobs_of(rates, effort.of(1_000_000, 5_000))
    paired = jobs_of(rates, effort.of(1_024, 48), packed=True)
    fair, packed = _policy("max_min_fairness_perf"), _policy("max_min_fairness_packed")
    peer = peer_policies.max_min
    flavors = effort.of(10_000, 300)
    return [
        _figure("max-min by prices", many, _by(Method.PRICES), _Beside(peer=peer, times=50)),
        _figure("max-min by classes", many, fair, _Beside(peer=peer, times=200)),
        _figure("max-min, no two alike", made_different(many), fair, _Beside(peer=peer)),
        _figure("max-min, no two of many alike", most, fair, 200.0),
        _figure("max-min, very many in classes", classes, fair, 60.0),
        *_of_steps(jobs_of(rates, effort.of(1_000, 60))),
        _figure(
            "max-min with pairs",
            jobs_of(rates, effort.of(256, 24), single=True, packed=True),
            packed,
            _Beside(peer=peer_policies.packed_max_min, times=200),
        ),
        _figure("max-min with pairs of many", paired, packed, 300.0),
        _arrivals(rates, effort),
        _flavors(many_flavors(flavors, 8), 300.0),
        _flavors(many_flavors(flavors, 16), 1_000.0),
    ]


def _policy(name: str) -> Answer:
    return POLICIES[name].solve


def _by(way: Method) -> Answer:
    return partial(highest, aim=FAIRNESS, ways=frozenset({way}))


def _figure(name: str, asked: Problem, answer: Answer, against: _Beside | float) -> Figure:
    """Return the time of ``answer``, compared with a baseline or a limit in milliseconds."""
    found, ms = _timed(asked, answer)
    details: dict[str, float | int | str] = {
        "jobs": len(asked.jobs),
        "flavors": len(asked.flavors),
        "way": found.method.value,
        "gap": found.gap,
    }
    if isinstance(against, float):
        return Figure(
            name=name, unit="ms", value=ms, better="less", target=against, details=details
        )
    if not peer_policies.is_there():
        details["baseline"] = peer_policies.ABSENT
        return Figure(name=name, unit="ms", value=ms, better="less", details=details)
    theirs: list[float] = []
    peer_ms = 1_000 * cpu_s(lambda: theirs.append(against.peer(asked)))
    off = theirs[0] / found.objective - 1.0
    assert abs(off) <= against.off, (name, found.objective, theirs)
    details["theirs off by"] = off
    return Figure(
        name=name,
        unit="ms",
        value=ms,
        better="less",
        target=None if against.times is None else peer_ms / against.times,
        baseline=Baseline("cvxpy + ECOS", peer_ms),
        details=details,
    )


def _timed(asked: Problem, answer: Answer) -> tuple[Allocation, float]:
    """Return the answer, and its median CPU milliseconds."""
    found = answer(asked)
    assert isinstance(found, Allocation), found
    return found, 1_000 * median_of(REPEATS, lambda: cpu_s(lambda: answer(asked)))


def _of_steps(asked: Problem) -> list[Figure]:
    """Return the figures of policies that read the remaining steps of jobs.

    The makespan is compared with that of the plain program, because the baseline stops within 5 %.
    """
    delay = _figure(
        "finish-time fairness",
        asked,
        _policy("finish_time_fairness_perf"),
        _Beside(peer=peer_policies.finish_time, times=100),
    )
    answer = _policy("min_total_duration_perf")
    close = _Beside(peer=peer_policies.makespan, times=15, off=peer_policies.CLOSE - 1.0)
    figure = _figure("makespan", asked, answer, close)
    found, plain = answer(asked), highest(asked, SPEED, frozenset())
    assert isinstance(found, Allocation)
    assert isinstance(plain, Allocation)
    off = abs(found.objective * plain.objective - 1.0)
    assert off <= EXACT, off
    return [delay, replace(figure, details={**figure.details, "off the plain program": off})]


def _arrivals(rates: Table, effort: Effort) -> Figure:
    """Return the time of the next allocation after one job has arrived or ended.

    As in a pool, the allocation is computed again from the jobs, without earlier results.
    """
    chance = np.random.default_rng(4)
    types = len(rates.scales)
    kinds = np.arange(KINDS)
    of = [int(kind) for kind in np.repeat(kinds, chance.integers(5, 100, KINDS))]
    took = []
    for number in range(effort.of(500, 20)):
        if number % 2:
            of.pop(int(chance.integers(len(of))))
        else:
            of.append(int(chance.choice(kinds)))
        kind = np.array(of)
        asked = jobs_of_types(rates, kind % types)
        asked = replace(asked, gpus=np.full(3, 500), weights=WEIGHTS[kind // types])
        took.append(1_000 * cpu_s(partial(_policy("max_min_fairness_perf"), asked)))
    return Figure(
        name="after one arrival, p99",
        unit="ms",
        value=percentile(took, 99),
        better="less",
        target=10,
        details={"classes": KINDS, "jobs": len(of), "median ms": percentile(took, 50)},
    )


def _flavors(asked: Problem, limit_ms: float) -> Figure:
    """Return the time and the passes of the price method on many flavors."""
    figure = _figure(
        f"max-min on {len(asked.flavors)} flavors",
        asked,
        _policy("max_min_fairness_perf"),
        limit_ms,
    )
    found = level_by_prices(demand_of(asked), FAIRNESS.needs(asked, len(asked.jobs)))
    assert found is not None
    return replace(figure, details={**figure.details, "passes": found.passes})
