"""How hard a test tries: a multiple of what the chosen profile asks for, or more in a soak."""

from __future__ import annotations

import os
from typing import Final

from hypothesis import settings

IS_SOAK: Final = os.environ.get("HYPOTHESIS_PROFILE") == "soak"


def examples(times: float) -> settings:
    """Return settings that draw ``times`` as many examples as the profile says, at least five."""
    profile = settings.default
    assert profile is not None, "tests/conftest.py loads a profile"
    return settings(max_examples=max(5, round(times * profile.max_examples)))


def sized(default: int, soak: int) -> int:
    """Return how often a test repeats what Hypothesis does not draw: ``soak`` times in a soak."""
    return soak if IS_SOAK else default
