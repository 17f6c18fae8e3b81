"""The browser and the service that tests of the dashboard share."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request

from tests.bounds import WAIT_S
from tests.oracles.effort import leaves_out_slow
from tests.web.browsing import browser_here, chromium_here, sign_in, why_none
from tests.web.world import World, world_in

_QUICK = frozenset({"test_built.py"})


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Skip files that contribute no requested test."""
    is_quick = leaves_out_slow(config) and collection_path.is_file()
    return True if is_quick and collection_path.name not in _QUICK else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs a browser as slow."""
    here = Path(__file__).parent
    for item in items:
        if item.path.parent == here and item.path.name not in _QUICK:
            item.add_marker(pytest.mark.slow)


@dataclass
class Visit:
    """A page of a signed-in browser, and its errors and forbidden requests."""

    page: Page
    url: str
    faults: list[str] = field(default_factory=list)
    allowed: tuple[str, ...] = ()
    """Other hosts that the page may contact: an identity provider."""

    def watch(self) -> None:
        """Note errors of scripts, and requests to other hosts."""
        self.page.on("console", self._told)
        self.page.on("pageerror", lambda error: self.faults.append(f"error: {error}"))
        self.page.on("request", self._asked)

    def _told(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            self.faults.append(f"console: {message.text} {message.location.get('url')}")

    def _asked(self, request: Request) -> None:
        if not request.url.startswith((self.url, "blob:", *self.allowed)):
            self.faults.append(f"request: {request.url}")

    def open(self, path: str) -> Page:
        """Go to a page, and wait until it shows content."""
        self.page.goto(f"{self.url}/{path}")
        self.page.wait_for_selector("h1")
        self.page.wait_for_selector(".loading", state="detached")
        return self.page


@pytest.fixture(scope="session")
def chromium() -> None:
    """Skip if there is no browser."""
    if chromium_here() is None:
        pytest.skip(why_none())


@pytest.fixture(scope="module")
def browser(chromium: None) -> Iterator[Browser]:  # noqa: ARG001 - it skips
    """Return a browser for the tests of a module.

    Its event loop runs in the thread of the tests, so no other module can run meanwhile.
    """
    with browser_here() as found:
        yield found


@pytest.fixture(scope="session")
def world(
    chromium: None,  # noqa: ARG001 - it skips
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[World]:
    """Return a service with real work, for all tests of a process with a browser."""
    with world_in(tmp_path_factory.mktemp("world")) as found:
        yield found


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    """Return a separate browser profile."""
    found = browser.new_context(viewport={"width": 1280, "height": 800})
    found.set_default_timeout(WAIT_S * 1_000)
    yield found
    for page in found.pages:
        # A test ends while pages ask again: no answer is forged for a page that is gone.
        page.unroute_all(behavior="wait")
    found.close()


@pytest.fixture
def admin(context: BrowserContext, world: World) -> Visit:
    """Return a page of an admin."""
    return visit(context, world, world.admin)


def visit(context: BrowserContext, world: World, token: str) -> Visit:
    """Return a page that is signed in with ``token``."""
    found = Visit(context.new_page(), world.served.url)
    found.watch()
    sign_in(found.page, found.url, token)
    return found
