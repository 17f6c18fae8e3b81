"""The optional packages that policies need, and whether they are installed."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Final

PARTS: Final = ("numpy", "highspy")
"""The packages that the extra ``rounds`` installs."""


def missing_part() -> str | None:
    """Return the first package that is not installed, or None, without loading a package."""
    return next((part for part in PARTS if find_spec(part) is None), None)


def install_text(part: str) -> str:
    """Return the message that says how to install ``part``."""
    return (
        f"policies need {part}, which is not installed; install it with: "
        "pip install 'quorate[rounds]'"
    )
