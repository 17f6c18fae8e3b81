"""Left-over time distributed to the middle of the optima, compared with other distributions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.policy.policies.even_mix import to_the_middle
from quorate.policy.problem import Floats, Problem
from tests.oracles.effort import examples


def problem(scales: list[int], gpus: int) -> Problem:
    """Return jobs of these widths on GPUs of one flavor."""
    jobs = len(scales)
    nothing = np.zeros(jobs)
    return Problem(
        flavors=("a",),
        gpus=np.array([gpus]),
        jobs=tuple(f"j{number}" for number in range(jobs)),
        rates=np.ones((jobs, 1)),
        scales=np.array(scales),
        weights=np.ones(jobs),
        steps_left=np.ones(jobs),
        ages_s=nothing,
        isolated_s=nothing,
        deadlines_s=np.full(jobs, np.inf),
    )


def product(time: Floats, before: Floats) -> float:
    """Return the logarithm that is largest at the middle."""
    return float(np.log(time - before).sum() + np.log(1.0 - time).sum())


@examples(0.5)
@given(
    drawn=st.lists(
        st.tuples(st.integers(1, 8), st.floats(0.01, 0.95), st.floats(0.01, 0.99)),
        min_size=2,
        max_size=6,
    ),
    part=st.floats(0.05, 0.45),
)
def test_no_other_way_to_give_out_as_much_has_a_greater_product(
    drawn: list[tuple[int, float, float]], part: float
) -> None:
    scales = [scale for scale, _, _ in drawn]
    before = np.array([time for _, time, _ in drawn])
    lacks, widths = 1.0 - before, np.array(scales, dtype=np.float64)
    gpus = max(1, int(widths @ before + part * float(widths @ lacks)))
    found = to_the_middle(problem(scales, gpus), before)
    spare = gpus - float(widths @ before)
    if spare <= 0:
        assert np.array_equal(found, before)
        return
    assert float(widths @ found) == pytest.approx(gpus)
    assert (found > before).all()
    other = np.array([share for _, _, share in drawn]) * lacks
    other *= spare / float(widths @ other)
    if (other < lacks).all():
        assert product(found, before) >= product(before + other, before) - 1e-9


def test_where_there_is_room_for_all_every_job_has_all_its_time() -> None:
    found = to_the_middle(problem([1, 2], 8), np.array([0.25, 0.5]))
    assert found.tolist() == [1.0, 1.0]


def test_where_more_than_half_can_be_had_each_gets_the_same_part_of_what_it_lacks() -> None:
    before = np.array([0.1, 0.2, 0.3])
    found = to_the_middle(problem([1, 1, 1], 2), before)
    assert ((found - before) / (1.0 - before)).tolist() == pytest.approx([1.4 / 2.4] * 3)
