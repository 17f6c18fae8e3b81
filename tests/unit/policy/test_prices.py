"""Prices of flavors: small problems that can be solved by hand, and the bound on the work."""

from __future__ import annotations

import numpy as np
import pytest

from quorate.policy.solvers.cheapest import BLOCK
from quorate.policy.solvers.levels import CERTIFIED, Demand, Levelled, Linear
from quorate.policy.solvers.plain_program import level_by_program
from quorate.policy.solvers.prices import level_by_prices


def demand(rates: list[list[float]], gpus: list[int], loads: list[float] | None = None) -> Demand:
    return Demand(
        rates=np.array(rates), loads=np.array(loads or [1.0] * len(rates)), gpus=np.array(gpus)
    )


def alike(jobs: int) -> Linear:
    """Return the needs of plain max-min fairness: every job needs the level itself."""
    return Linear(floor=np.zeros(jobs), growth=np.ones(jobs))


def by_prices(asked: Demand) -> Levelled:
    found = level_by_prices(asked, alike(len(asked.rates)))
    assert found is not None
    return found


def test_two_jobs_divide_one_gpu() -> None:
    found = by_prices(demand([[4.0], [4.0]], [1]))
    assert found.level == pytest.approx(2.0)
    assert found.prices == pytest.approx([2.0])
    assert found.shares == pytest.approx(np.array([[0.5], [0.5]]))


def test_each_job_goes_where_it_is_faster_than_others_would_be() -> None:
    found = by_prices(demand([[4.0, 1.0], [4.0, 3.0]], [1, 1]))
    # One job has rate 4 on the first flavor, the other 3 on the second and a part of the first.
    plain = level_by_program(demand([[4.0, 1.0], [4.0, 3.0]], [1, 1]), alike(2))
    assert isinstance(plain, Levelled)
    assert found.level == pytest.approx(plain.level, rel=CERTIFIED)
    assert found.shares[1, 1] == pytest.approx(1.0 - found.shares[1, 0])


def test_more_gpus_than_jobs_are_worth_nothing_more() -> None:
    found = by_prices(demand([[2.0, 1.0], [3.0, 1.0]], [5, 5]))
    assert found.level == found.bound == pytest.approx(2.0)
    assert not found.prices.any()


def test_a_flavor_without_gpus_is_given_to_nobody() -> None:
    found = by_prices(demand([[9.0, 1.0], [9.0, 1.0]], [0, 1]))
    assert found.level == pytest.approx(0.5)
    assert found.shares[:, 0].tolist() == [0.0, 0.0]
    assert found.prices[0] == 0.0


def test_a_job_alone_uses_every_flavor_that_helps() -> None:
    # It takes eight GPUs and there are four of each flavor: half of its time on each.
    found = by_prices(demand([[3.0, 1.0]], [4, 4], loads=[8.0]))
    assert found.level == pytest.approx(2.0)
    assert found.shares == pytest.approx(np.array([[0.5, 0.5]]))


def test_equal_jobs_in_number_are_served_alike() -> None:
    jobs = 3 * BLOCK // 2
    asked = Demand(
        rates=np.tile([2.0, 1.0], (jobs, 1)),
        loads=np.ones(jobs),
        gpus=np.array([jobs // 10, jobs // 10]),
    )
    found = by_prices(asked)
    assert found.level == pytest.approx(3.0 * (jobs // 10) / jobs, rel=CERTIFIED)
    assert found.bound - found.level <= CERTIFIED * found.bound


def test_many_flavors_are_certified_too() -> None:
    chance = np.random.default_rng(3)
    asked = Demand(
        rates=chance.lognormal(0.0, 0.7, (400, 16)),
        loads=chance.choice([1.0, 2.0, 4.0], 400),
        gpus=np.full(16, 9),
    )
    found = by_prices(asked)
    plain = level_by_program(asked, alike(400))
    assert isinstance(plain, Levelled)
    assert found.level <= plain.level * (1 + 1e-9)
    assert found.bound >= plain.level * (1 - 1e-9)
    assert found.bound - found.level <= CERTIFIED * found.bound


def test_jobs_whose_need_is_met_leave_the_rest_to_others() -> None:
    asked = demand([[1.0], [1.0]], [1])
    needs = Linear(floor=np.array([0.25, 0.0]), growth=np.array([0.0, 1.0]))
    found = level_by_prices(asked, needs)
    assert found is not None
    assert found.level == pytest.approx(0.75, rel=CERTIFIED)


def test_needs_that_cannot_be_met_have_no_answer() -> None:
    asked = demand([[1.0], [1.0]], [1])
    needs = Linear(floor=np.array([0.75, 0.75]), growth=np.array([0.0, 0.0]))
    assert level_by_prices(asked, needs) is None
