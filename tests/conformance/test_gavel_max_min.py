"""Max-min fairness, makespan and finish-time fairness, compared with recorded answers.

Optima are rarely unique, so objectives are compared, to 1e-4 of the recorded value or better. A
makespan is between the exact one and the recorded one, whose search stops within 5 %. Cases are
beside the repository, in ``../shared``; without them this module is skipped, and
``tests/unit/policy`` has other cases.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from quorate.policy.allocation import Allocation, Method, breaches, job_rates
from quorate.policy.policies.finish_time_fairness import isolated_rates
from quorate.policy.policies.max_min_fairness import FAIRNESS, proportional_rates
from quorate.policy.policies.min_total_duration import SPEED, reference_rates
from quorate.policy.problem import Floats, Pairs, Problem
from quorate.policy.solvers.highest import highest
from quorate.policy.table import POLICIES

CASES: Final = Path(__file__).parents[3] / "shared" / "conformance" / "gavel"
FILES: Final = tuple(sorted(CASES.glob("policy_*.json")))
NEAR: Final = 1e-4

pytestmark = pytest.mark.skipif(
    not CASES.is_dir(), reason="the peer's cases are not beside this repository (../shared)"
)


def case_of(path: Path) -> tuple[dict[str, Any], Problem]:
    """Return a case and its problem, flavors in the order of its cluster."""
    case = json.loads(path.read_text("utf-8"))
    flavors, jobs = tuple(case["cluster_spec"]), case["jobs"]
    row = {str(job["id"]): number for number, job in enumerate(jobs)}
    pairs = [
        (*(row[name] for name in key.split(",")), [rates[flavor] for flavor in flavors])
        for key, rates in case["pair_throughputs"].items()
    ]

    def column(name: str) -> Floats:
        return np.array([job[name] for job in jobs], dtype=np.float64)

    return case, Problem(
        flavors=flavors,
        gpus=np.array([case["cluster_spec"][flavor] for flavor in flavors]),
        jobs=tuple(row),
        rates=np.array([[job["throughputs"][flavor] for flavor in flavors] for job in jobs]),
        scales=column("scale_factor").astype(np.int64),
        weights=column("priority_weight"),
        steps_left=column("num_steps_remaining"),
        ages_s=column("time_since_start"),
        isolated_s=np.zeros(len(jobs)),
        deadlines_s=np.full(len(jobs), np.inf),
        pairs=Pairs(
            first=np.array([a for a, _, _ in pairs]),
            second=np.array([b for _, b, _ in pairs]),
            rates=np.array([rates for _, _, rates in pairs]),
        ),
    )


def ours(name: str, asked: Problem) -> Allocation:
    found = POLICIES[name].solve(asked)
    assert isinstance(found, Allocation), found
    assert breaches(asked, found) == []
    assert found.gap <= NEAR
    return found


def fairness(asked: Problem, rates: Floats) -> float:
    """Return the recorded figure ``maxmin_objective`` for these rates."""
    return float(np.min(asked.scales * rates / (asked.weights * proportional_rates(asked))))


def delay(asked: Problem, rates: Floats, rates_alone: Floats) -> float:
    """Return the recorded figure ``ftf_max_rho`` for these rates."""
    takes_s = asked.ages_s + asked.steps_left / rates
    return float(np.max(takes_s / (asked.steps_left / rates_alone)))


def their_shares(case: dict[str, Any], asked: Problem, name: str) -> Floats:
    allocation = case["results"][name]["allocation"]
    return np.array([[allocation[job][flavor] for flavor in asked.flavors] for job in asked.jobs])


def test_there_are_cases() -> None:
    assert len(FILES) >= 4


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
@pytest.mark.parametrize("variant", ["perf", "packed"])
def test_max_min_is_as_fair_as_theirs(path: Path, variant: str) -> None:
    case, asked = case_of(path)
    name = f"max_min_fairness_{variant}"
    found = ours(name, asked)
    assert fairness(asked, job_rates(asked, found)) == pytest.approx(found.objective, rel=1e-9)
    assert found.objective == pytest.approx(case["results"][name]["objective"]["ecos"], rel=NEAR)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_max_min_without_rates_gives_the_least_share_theirs_gives(path: Path) -> None:
    case, asked = case_of(path)
    found = ours("max_min_fairness", asked)
    share = their_shares(case, asked, "max_min_fairness").sum(axis=1)
    theirs = float(np.min(asked.scales * share / asked.weights))
    assert found.objective == pytest.approx(theirs, rel=NEAR)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
@pytest.mark.parametrize("variant", ["perf", "packed"])
def test_a_makespan_is_exact_and_no_longer_than_theirs(path: Path, variant: str) -> None:
    case, asked = case_of(path)
    name = f"min_total_duration_{variant}"
    found = ours(name, asked)
    took = float(np.max(asked.steps_left / job_rates(asked, found)))
    assert took == pytest.approx(found.objective, rel=1e-9)
    theirs = case["results"][name]["objective"]["ecos"]
    assert theirs / 1.06 <= found.objective <= theirs * (1 + 1e-9)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_makespan_without_rates_is_no_longer_than_theirs(path: Path) -> None:
    case, asked = case_of(path)
    found = ours("min_total_duration", asked)
    share = their_shares(case, asked, "min_total_duration").sum(axis=1)
    theirs = float(np.max(asked.steps_left / (asked.rates[:, 0] * share)))
    assert theirs / 1.06 <= found.objective <= theirs * (1 + 1e-9)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_most_delayed_job_is_delayed_as_theirs(path: Path) -> None:
    case, asked = case_of(path)
    found = ours("finish_time_fairness_perf", asked)
    alone = isolated_rates(asked, len(asked.jobs))
    assert delay(asked, job_rates(asked, found), alone) == pytest.approx(found.objective, rel=1e-9)
    theirs = case["results"]["finish_time_fairness_perf"]["objective"]["ecos"]
    assert found.objective == pytest.approx(theirs, rel=NEAR)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_pairs_delay_nobody_more_than_theirs(path: Path) -> None:
    """The published policy divides rates by weights, so it is worse if weights differ."""
    case, asked = case_of(path)
    found = ours("finish_time_fairness_packed", asked)
    theirs = case["results"]["finish_time_fairness_packed"]["objective"]["ecos"]
    assert found.objective <= theirs * (1 + NEAR)
    if np.all(asked.weights == 1):
        assert found.objective >= theirs * (1 - NEAR)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_delay_without_rates_is_as_theirs(path: Path) -> None:
    case, asked = case_of(path)
    found = ours("finish_time_fairness", asked)
    first = np.repeat(asked.rates[:, :1], len(asked.flavors), axis=1)
    assert np.all(reference_rates(asked)[asked.rates > 0] == first[asked.rates > 0])
    share = their_shares(case, asked, "finish_time_fairness").sum(axis=1)
    alone = asked.rates[:, 0] * isolated_share(asked)
    theirs = delay(asked, asked.rates[:, 0] * share, alone)
    assert found.objective <= theirs * (1 + NEAR)


def isolated_share(asked: Problem) -> Floats:
    """Return the part of its time that each job has with an equal part of all GPUs."""
    share: Floats = np.minimum(1.0, asked.gpus.sum() / (len(asked.jobs) * asked.scales))
    return share


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_all_ways_answer_the_cases_alike(path: Path) -> None:
    _, asked = case_of(path)
    for aim in (FAIRNESS, SPEED):
        levels = []
        for way in (Method.CLASSES, Method.LINEAR_PROGRAM):
            found = highest(asked, aim, frozenset({way}))
            assert isinstance(found, Allocation)
            levels.append(found.objective)
        assert levels[0] == pytest.approx(levels[1], rel=1e-6)
