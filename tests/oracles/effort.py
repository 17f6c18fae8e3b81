"""How many examples a test tries (more of them in a soak), and which seeds it plays."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from _pytest.mark.structures import ParameterSet

_WITHOUT_SLOW: Final = frozenset({"not slow", "not slow and not heavy"})
IS_SOAK: Final = os.environ.get("HYPOTHESIS_PROFILE") == "soak"


def examples(times: float) -> settings:
    """Return settings for ``times`` times as many examples as in the profile, at least five."""
    profile = settings.default
    assert profile is not None, "tests/conftest.py loads a profile"
    return settings(max_examples=max(5, round(times * profile.max_examples)))


def sized(default: int, soak: int) -> int:
    """Return ``default``, or ``soak`` in a soak: the number of repetitions of a test."""
    return soak if IS_SOAK else default


def few_of(cases: Iterable[object], most: int) -> list[ParameterSet]:
    """Return ``cases`` as parameters of a test; only a soak runs more than the first ``most``."""
    return [
        pytest.param(case, marks=() if number < most else pytest.mark.soak)
        for number, case in enumerate(cases)
    ]


def seeds_of(text: str) -> list[int]:
    """Return the seeds that ``text`` names: numbers and ranges, joined by commas."""
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


def leaves_out_slow(config: pytest.Config) -> bool:
    """Return whether the markers exclude slow tests, so that their files need not be read."""
    return config.option.markexpr in _WITHOUT_SLOW
