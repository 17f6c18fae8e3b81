"""The best mixture within limits: solved by hand, and by the plain solver."""

from __future__ import annotations

import numpy as np
import pytest

from quorate.policy.problem import Floats
from quorate.policy.solvers import lp
from quorate.policy.solvers.mixture import ROOM, Mix, Mixture


def mixed(limits: int, values: list[float], taken: Floats) -> Mix:
    mixture = Mixture(limits)
    for value, row in zip(values, taken, strict=True):
        mixture.add(value, row)
    found = mixture.solve()
    assert found is not None
    return found


def by_solver(values: Floats, taken: Floats) -> float:
    columns, limits = taken.shape
    rows = np.column_stack((taken, np.ones(columns))).T
    found = lp.solve(
        lp.Program(
            gains=values,
            low=np.zeros(columns),
            high=np.full(columns, lp.INFINITE),
            starts=np.arange(limits + 2) * columns,
            columns=np.tile(np.arange(columns), limits + 1),
            values=rows.reshape(-1),
            row_low=np.append(np.full(limits, -lp.INFINITE), 1.0),
            row_high=np.ones(limits + 1),
        )
    )
    assert isinstance(found, lp.Solution)
    return found.objective


def test_what_takes_too_much_is_mixed_with_what_takes_nothing() -> None:
    found = mixed(2, [0.0, 1.0], np.array([[0.0, 0.0], [4.0, 1.0]]))
    assert found.parts == pytest.approx([0.75, 0.25])
    assert found.value == pytest.approx(0.25)
    assert found.prices == pytest.approx([0.25, 0.0])


def test_columns_that_take_different_things_share_the_limits() -> None:
    found = mixed(2, [0.0, 1.0, 1.0], np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 2.0]]))
    assert found.parts == pytest.approx([0.0, 0.5, 0.5])
    assert found.value == pytest.approx(1.0)


def test_a_column_that_is_worth_less_than_nothing_stays_out() -> None:
    found = mixed(1, [0.0, -1.0], np.array([[0.0], [0.5]]))
    assert found.parts == pytest.approx([1.0, 0.0])
    assert found.prices == pytest.approx([0.0])


@pytest.mark.parametrize("limits", [1, 3, 8])
@pytest.mark.parametrize("is_equal", [False, True], ids=["different", "tied"])
def test_the_value_is_the_solver_s_as_columns_come(limits: int, *, is_equal: bool) -> None:
    chance = np.random.default_rng(limits)
    columns = 3 * ROOM
    taken = chance.uniform(0.0, 3.0, (columns, limits))
    values = chance.uniform(0.0, 1.0, columns)
    if is_equal:
        taken, values = np.round(taken), np.round(3 * values)
    taken[0], values[0] = 0.0, 0.0
    mixture = Mixture(limits)
    for count in range(1, columns + 1):
        mixture.add(float(values[count - 1]), taken[count - 1])
        found = mixture.solve()
        assert found is not None
        if count % 8 == 0:
            assert found.value == pytest.approx(by_solver(values[:count], taken[:count]), abs=1e-9)
        assert found.parts.min() >= -1e-12
        assert found.parts.sum() == pytest.approx(1.0)
        assert (found.parts @ taken[:count]).max() <= 1.0 + 1e-9
        assert (found.parts @ values[:count]) == pytest.approx(found.value)
