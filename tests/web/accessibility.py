"""Accessibility violations that axe finds in a page."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from playwright.sync_api import Page

AXE: Final = Path(__file__).parent / "axe" / "axe.min.js"
_IMPACTS: Final = {"serious", "critical"}


def serious_violations(page: Page) -> list[tuple[str, list[str]]]:
    """Return each serious violation on ``page``, with the first elements that have it."""
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found: dict[str, Any] = page.evaluate("axe.run()")
    return [
        (each["id"], [node["html"][:160] for node in each["nodes"]][:3])
        for each in found["violations"]
        if each["impact"] in _IMPACTS
    ]
