"""Signing in at an identity provider, in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.bounds import WAIT_S
from tests.service.identity_provider import IdentityProvider, identity_provider, sign_in_flags
from tests.service.serving import Served, new_ledger, serving
from tests.web.accessibility import serious_violations
from tests.web.conftest import Visit
from tests.web.prefix_proxy import proxied


@pytest.fixture(autouse=True)
def patient() -> None:
    """Let pages take as long as they need on a busy machine."""
    expect.set_options(timeout=WAIT_S * 1_000)


@pytest.fixture(scope="module")
def provider() -> Iterator[IdentityProvider]:
    """Return an identity provider whose users are auditors."""
    with identity_provider() as found:
        found.claims = {"quorate_role": "auditor", "quorate_tenant": None}
        yield found


@pytest.fixture(scope="module")
def served(
    provider: IdentityProvider, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    """Return a service whose users sign in at the provider."""
    folder: Path = tmp_path_factory.mktemp("signed-in")
    with serving(new_ledger(folder), sign_in_flags(provider)) as found:
        provider.returns.add(f"{found.url}/signed-in")
        yield found


def visit_by(context: BrowserContext, url: str, provider: IdentityProvider) -> Visit:
    """Return a page at ``url`` that notes errors; it may also contact the provider."""
    found = Visit(context.new_page(), url, allowed=(provider.url,))
    found.watch()
    return found


def sign_in_at(page: Page, provider: IdentityProvider, user: str) -> None:
    """Sign in like a user: with the button, and with a name at the provider."""
    host = provider.url.removeprefix("http://")
    page.get_by_role("button", name=f"Sign in with {host}").click()
    page.get_by_label("Name").fill(user)
    page.get_by_role("button", name="Continue").click()


def test_a_person_comes_back_to_the_page_that_was_asked_for(
    context: BrowserContext, served: Served, provider: IdentityProvider
) -> None:
    seen = visit_by(context, served.url, provider)
    page = seen.page
    page.goto(f"{served.url}/ledger?from=1")
    sign_in_at(page, provider, "olga")
    expect(page.get_by_role("heading", level=1)).to_have_text("Ledger")
    expect(page).to_have_url(f"{served.url}/ledger?from=1")
    expect(page.locator(".who")).to_contain_text("olga")
    expect(page.locator(".who")).to_contain_text("auditor")
    (cookie,) = context.cookies(served.url)
    assert (cookie.get("httpOnly"), cookie.get("sameSite")) == (True, "Strict")
    assert page.evaluate("[document.cookie, sessionStorage.length]") == ["", 0]
    page.reload()
    expect(page.locator(".who")).to_contain_text("olga")
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_label("Access token")).to_be_visible()
    assert seen.faults == []


@pytest.mark.soak
def test_it_works_under_a_prefix(
    context: BrowserContext, served: Served, provider: IdentityProvider
) -> None:
    assert served.address is not None
    with proxied("/tools/gpus", served.address.host, served.address.port) as url:
        provider.returns.add(f"{url}/signed-in")
        seen = visit_by(context, url, provider)
        seen.page.goto(f"{url}/budgets/lab")
        sign_in_at(seen.page, provider, "olga")
        expect(seen.page.locator(".who")).to_contain_text("olga")
        expect(seen.page).to_have_url(f"{url}/budgets/lab")
        (cookie,) = context.cookies(url)
        assert cookie.get("path") == "/tools/gpus"
        seen.page.close()


@pytest.mark.soak
def test_a_person_who_says_no_reads_why_and_may_use_a_token(
    context: BrowserContext, served: Served, provider: IdentityProvider
) -> None:
    assert served.token is not None
    page = visit_by(context, served.url, provider).page
    page.goto(served.url)
    sign_in_at(page, provider, "")
    assert serious_violations(page) == []
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("did not sign you in: access_denied: the person said no")
    page.get_by_label("Access token").fill(served.token)
    page.get_by_role("button", name="Sign in", exact=True).click()
    expect(page.get_by_role("navigation", name="Pages")).to_be_visible()


def test_a_code_that_another_site_sends_is_not_used(
    context: BrowserContext, served: Served, provider: IdentityProvider
) -> None:
    page = visit_by(context, served.url, provider).page
    before = provider.asked.count("/token")
    page.goto(f"{served.url}/signed-in?code=code-of-another&state=made-up")
    expect(page.get_by_role("alert")).to_contain_text("not to a question of this tab")
    expect(page).to_have_url(f"{served.url}/")
    assert provider.asked.count("/token") == before
    assert context.cookies(served.url) == []
