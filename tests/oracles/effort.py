"""How hard a property tries: a multiple of what the chosen profile asks for."""

from __future__ import annotations

from hypothesis import settings


def examples(times: float) -> settings:
    """Return settings that draw ``times`` as many examples as the profile says, at least five."""
    profile = settings.default
    assert profile is not None, "tests/conftest.py loads a profile"
    return settings(max_examples=max(5, round(times * profile.max_examples)))
