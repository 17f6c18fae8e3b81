"""The score at its corner points: the penalty curve, burst, and shares."""

from __future__ import annotations

from math import cos, pi

import pytest

from quorate.core.tenancy.share_score import ONE, STEPS, Terms, effective, penalty, score_of


def parts(value: float) -> int:
    return round(value * ONE)


@pytest.mark.parametrize(
    ("used", "left"),
    [
        (0, 1),
        (0.5, 1),
        (0.8, 1),
        (0.9, 0.525),
        (1.0, 0.05),
        (1.2, 0.05),
        (50, 0.05),
    ],
)
def test_the_penalty_at_its_corners(used: float, left: float) -> None:
    assert penalty(parts(used)) / ONE == pytest.approx(left, abs=1e-9)


def test_the_penalty_between_is_half_a_cosine_and_never_grows() -> None:
    points = [0.8 + 0.2 * n / 100 for n in range(1, 100)]
    found = [penalty(parts(used)) for used in points]
    assert found == sorted(found, reverse=True)
    for used, left in zip(points, found, strict=True):
        exact = 0.05 + 0.95 * (1 + cos(pi * (used - 0.8) / 0.2)) / 2
        assert left / ONE == pytest.approx(exact, abs=1e-9)


@pytest.mark.parametrize(
    ("target", "burst", "utilisation", "found"),
    [
        (0.3, 1.0, 0.0, 0.3),
        (0.3, 1.5, 0.0, 0.45),  # at most 150 % of the target
        (0.3, 1.5, 0.4, 0.375),
        (0.3, 1.5, 0.8, 0.3),
        (0.3, 1.5, 1.0, 0.3),
        (0.0, 1.5, 0.0, 0.0),
    ],
)
def test_burst_scales_with_what_is_idle(
    target: float, burst: float, utilisation: float, found: float
) -> None:
    answer = effective(parts(target), parts(burst), parts(utilisation))
    assert answer / ONE == pytest.approx(found, abs=1e-9)


@pytest.mark.parametrize(
    ("share", "eff", "found"),
    [
        (0, 0.3, 1),
        (0.15, 0.3, 0.5),
        (0.3, 0.3, 0),
        (0.5, 0.3, 0),
        (0, 0, 0),
        (0.1, 0, 0),
        (0, 1 / ONE, 1),
    ],
)
def test_whoever_is_at_its_share_scores_nothing(share: float, eff: float, found: float) -> None:
    assert score_of(ONE, parts(share), parts(eff)) / ONE == pytest.approx(found, abs=1e-9)


def test_the_score_is_the_deficit_less_the_penalty() -> None:
    assert score_of(penalty(0), 0, parts(0.5)) == ONE
    left = score_of(penalty(parts(0.9)), parts(0.25), parts(0.5))
    assert left / ONE == pytest.approx(0.525 / 2, abs=1e-9)
    assert score_of(penalty(parts(2)), 0, parts(0.5)) / ONE == pytest.approx(0.05, abs=1e-9)


@pytest.mark.parametrize(
    ("value", "step"), [(0, 0), (1 / 32, 1), (0.999, 31), (1, STEPS), (0.0312, 0)]
)
def test_scores_are_cut_into_steps(value: float, step: int) -> None:
    terms = Terms(
        used=None,
        penalty=ONE,
        instant=0,
        decayed=0,
        share=0,
        target=ONE,
        utilisation=0,
        effective=ONE,
        score=parts(value),
    )
    assert terms.step == step
    assert not terms.is_over
