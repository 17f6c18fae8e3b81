"""A real browser for tests of the dashboard: Chromium, driven by Playwright.

It is the one that ``CHROMIUM`` names, else ``chromium`` or ``google-chrome`` of the system; tests
are skipped, with this reason, where there is none.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from playwright.sync_api import Browser, Page, sync_playwright

PROGRAMS: Final = ("chromium", "chromium-browser", "google-chrome")


def chromium_here() -> str | None:
    """Return where Chromium is; None where there is none."""
    named = os.environ.get("CHROMIUM")
    if named:
        return named
    return next((found for name in PROGRAMS if (found := shutil.which(name))), None)


@contextmanager
def browser_here() -> Iterator[Browser]:
    """Yield a browser without a window."""
    program = chromium_here()
    assert program is not None, "no Chromium: install one, or name it in CHROMIUM"
    with sync_playwright() as playwright:
        # A browser does not sandbox its pages as root, as in containers; these pages are ours.
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
