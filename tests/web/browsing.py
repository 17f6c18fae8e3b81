"""A real browser for tests of the dashboard: Chromium, driven by Playwright.

It is the program in ``CHROMIUM``, otherwise ``chromium`` or ``google-chrome`` of the system,
otherwise the one that ``python -m tools.chromium`` has installed. Without a browser the tests are
skipped, with the reason why it could not be installed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from playwright.sync_api import Browser, Page, sync_playwright

PROGRAMS: Final = ("chromium", "chromium-browser", "google-chrome")
NOTE: Final = Path(__file__).parents[2] / ".build" / "chromium"
"""The file in which ``tools.chromium`` says why it installed no browser."""
_INSTALLED: Final = ("chromium-*/chrome-linux*/chrome", "chromium-*/chrome-mac*/*/*/*/Chromium")


def chromium_here() -> str | None:
    """Return the path of Chromium; None if there is none."""
    named = os.environ.get("CHROMIUM")
    if named:
        return named
    found = next((found for name in PROGRAMS if (found := shutil.which(name))), None)
    return found or next((str(each) for each in _installed()), None)


def _installed() -> Iterator[Path]:
    """Yield the browsers that Playwright has installed, the newest first."""
    usual = Path.home() / ".cache" / "ms-playwright"
    folder = Path(os.environ.get("PLAYWRIGHT_BROWSERS_PATH") or usual)
    for pattern in _INSTALLED:
        yield from sorted(folder.glob(pattern), reverse=True)


def why_it_does_not_start(program: str) -> str:
    """Return why ``program`` does not start; empty if it starts."""
    done = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else " ".join(done.stderr.split())[-300:]


def why_none() -> str:
    """Return why there is no browser."""
    if NOTE.exists():
        return NOTE.read_text(encoding="utf-8").strip()
    return "no Chromium: run `python -m tools.chromium`, or name one in CHROMIUM"


@contextmanager
def browser_here() -> Iterator[Browser]:
    """Yield a browser without a window."""
    program = chromium_here()
    assert program is not None, why_none()
    with sync_playwright() as playwright:
        # As root, as in containers, a browser has no sandbox; these pages are our own.
        sandbox = [] if os.geteuid() else ["--no-sandbox"]
        browser = playwright.chromium.launch(executable_path=program, args=sandbox)
        try:
            yield browser
        finally:
            browser.close()


def sign_in(page: Page, url: str, token: str) -> None:
    """Sign in at ``url`` with ``token``, as a person does."""
    page.goto(url)
    page.get_by_label("Access token").fill(token)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("navigation", name="Pages").wait_for()
