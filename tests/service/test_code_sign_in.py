"""Codes of an identity provider are exchanged for a session, and every way to refuse a code."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from quorate.ports.errors import KeyFileError
from quorate.service.auth.code_sign_in import RETRY_MS_MIN, Endpoints, endpoints_of
from quorate.service.config import configured
from quorate.service.daemon import Extras
from quorate.testing.memory_engines import HandClock
from quorate.views.exits import CommandError
from tests.service.identity_provider import (
    CLIENT,
    IdentityProvider,
    identity_provider,
    sign_in_flags,
)
from tests.service.serving import new_ledger, serving

BACK: Final = "https://gpus.example/quorate/signed-in"
PAGE: Final = {"X-Quorate-Session": "1"}
VERIFIER: Final = "v" * 43


@pytest.fixture
def provider() -> Iterator[IdentityProvider]:
    """Return an identity provider that knows the dashboard."""
    with identity_provider() as found:
        found.returns.add(BACK)
        yield found


@contextmanager
def browsing(
    folder: Path, provider: IdentityProvider, clock: HandClock | None = None, **more: str
) -> Iterator[httpx.Client]:
    """Yield a client that behaves like the page, of a service that trusts ``provider``."""
    extras = Extras() if clock is None else Extras(clock=clock)
    with (
        serving(new_ledger(folder), sign_in_flags(provider, **more), extras) as served,
        served.client(None) as client,
    ):
        client.headers.update(PAGE)
        yield client


def code_of(provider: IdentityProvider, client: httpx.Client, verifier: str = VERIFIER) -> str:
    """Return the code that a signed-in user gets, for a challenge of ``verifier``."""
    begun = client.get("/issuer").json()
    assert begun["authorizationEndpoint"] == f"{provider.url}/authorize"
    challenge = base64.urlsafe_b64encode(sha256(verifier.encode()).digest()).rstrip(b"=").decode()
    asked = {
        "client_id": begun["clientId"],
        "response_type": "code",
        "scope": begun["scopes"],
        "state": "s",
        "code_challenge": challenge,
        "code_challenge_method": "S256",
        "redirect_uri": BACK,
    }
    return httpx.URL(provider.grant(asked, "olga")).params["code"]


def exchanged(client: httpx.Client, **fields: Any) -> httpx.Response:
    """Return the answer to a code that the page sends."""
    return client.post("/session", json={"verifier": VERIFIER, "redirectUri": BACK} | fields)


def refused(answer: httpx.Response, status: int) -> str:
    """Return the reason for a refusal with ``status`` and without a cookie."""
    assert answer.status_code == status, answer.text
    assert "set-cookie" not in answer.headers
    return str(answer.json()["detail"])


def test_a_code_begins_a_session_once(provider: IdentityProvider, tmp_path: Path) -> None:
    with browsing(tmp_path, provider) as client:
        assert client.get("/session").json() == {"signedIn": False, "issuer": provider.url}
        code = code_of(provider, client)
        assert exchanged(client, code=code).status_code == 204
        assert client.get("/session").json()["signedIn"] is True
        assert client.get("/api/v1/whoami").json()["user"] == "olga"
        client.cookies.clear()
        assert "invalid_grant: the code is not valid" in refused(exchanged(client, code=code), 401)


def test_a_code_is_worth_nothing_without_its_verifier_or_to_another_page(
    provider: IdentityProvider, tmp_path: Path
) -> None:
    with browsing(tmp_path, provider) as client:
        code = code_of(provider, client)
        assert "invalid_grant" in refused(exchanged(client, code=code, verifier="w" * 43), 401)
        code = code_of(provider, client)
        elsewhere = "https://evil.example/signed-in"
        assert "invalid_grant" in refused(exchanged(client, code=code, redirectUri=elsewhere), 401)
        del client.headers["X-Quorate-Session"]
        code = code_of_unlooked(provider)
        refused(exchanged(client, code=code), 403)
        assert client.get("/issuer").status_code == 403


def code_of_unlooked(provider: IdentityProvider) -> str:
    """Return a valid code, without asking the service for the sign-in address."""
    digest = sha256(VERIFIER.encode()).digest()
    challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
    provider.granted["good"] = {
        "code_challenge": challenge,
        "redirect_uri": BACK,
        "user": "olga",
    }
    return "good"


MALFORMED: Final[list[tuple[str, Any]]] = [
    ("code", ""),
    ("code", 5),
    ("code", "c" * 5_000),
    ("code", "a\nb"),
    ("verifier", "short"),
    ("verifier", "v" * 129),
    ("verifier", "ü" * 43),
    ("redirectUri", "https://gpus.example/elsewhere"),
    ("redirectUri", "javascript:alert(1)/signed-in"),
    ("redirectUri", f"{BACK}?next=x"),
    ("redirectUri", "https://[/signed-in"),
]


def test_what_the_page_brings_back_must_be_well_formed(
    provider: IdentityProvider, tmp_path: Path
) -> None:
    with browsing(tmp_path, provider) as client:
        for field, value in MALFORMED:
            told = refused(exchanged(client, **({"code": "c"} | {field: value})), 400)
            assert told.startswith(f"{field}: must"), (field, value)
    assert "/token" not in provider.asked


@pytest.mark.parametrize("methods", [("client_secret_basic",), ("client_secret_post",)])
def test_a_confidential_client_shows_its_secret_as_the_issuer_takes_it(
    provider: IdentityProvider, tmp_path: Path, methods: tuple[str, ...]
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("a:secret & more\n", encoding="ascii")
    secret.chmod(0o600)
    provider.methods = methods
    provider.secret = "a:secret & more"  # noqa: S105 - of this test
    with browsing(tmp_path, provider, client_secret_file=str(secret)) as client:
        assert exchanged(client, code=code_of(provider, client)).status_code == 204
        provider.secret = "another"  # noqa: S105 - of this test
        told = refused(exchanged(client, code=code_of(provider, client)), 401)
        assert "invalid_client" in told


def test_a_secret_that_others_may_read_keeps_the_service_from_starting(
    provider: IdentityProvider, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("open", encoding="ascii")
    secret.chmod(0o644)
    with (
        pytest.raises(KeyFileError, match="chmod 600"),
        browsing(tmp_path, provider, client_secret_file=str(secret)),
    ):
        pass


def test_the_access_token_counts_where_the_audience_is_not_the_client(
    provider: IdentityProvider, tmp_path: Path
) -> None:
    with browsing(tmp_path, provider, audience="quorate") as client:
        assert exchanged(client, code=code_of(provider, client)).status_code == 204
        assert client.get("/api/v1/whoami").json()["user"] == "olga"


def test_a_token_that_is_not_taken_or_is_too_long_begins_no_session(
    provider: IdentityProvider, tmp_path: Path
) -> None:
    with browsing(tmp_path, provider) as client:
        provider.claims = {"quorate_role": "emperor"}
        assert "quorate_role" in refused(exchanged(client, code=code_of(provider, client)), 401)
        provider.claims = {"groups": ["g" * 100] * 40}
        told = refused(exchanged(client, code=code_of(provider, client)), 401)
        assert "leave out claims" in told


def test_an_issuer_that_was_down_is_asked_again_after_a_while(
    provider: IdentityProvider, tmp_path: Path
) -> None:
    clock = HandClock(1_000)
    provider.description = {"issuer": "https://another.example"}
    with browsing(tmp_path, provider, clock) as client:
        for _ in range(3):
            answer = client.get("/issuer")
            assert "names another issuer" in refused(answer, 503)
        assert len(provider.asked) == 1
        provider.description = {}
        clock.ms += RETRY_MS_MIN + 1
        assert client.get("/issuer").json()["clientId"] == CLIENT


def described(changed: dict[str, Any] | None = None) -> bytes:
    """Return the discovery document of an issuer."""
    tree: dict[str, Any] = {
        "issuer": "https://id.example",
        "authorization_endpoint": "https://id.example/authorize?p=1",
        "token_endpoint": "http://localhost:8080/token",
    }
    return json.dumps(tree | (changed or {})).encode()


def test_the_endpoints_are_those_of_the_description() -> None:
    assert endpoints_of(described(), "https://id.example") == Endpoints(
        authorization="https://id.example/authorize?p=1",
        token="http://localhost:8080/token",  # noqa: S106 - an address
        takes_basic=True,
    )


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"<html>", "not a JSON object"),
        (b"[]", "not a JSON object"),
        (described({"issuer": "https://id.example/"}), "names another issuer"),
        (described({"code_challenge_methods_supported": ["plain"]}), "S256"),
        (described({"token_endpoint": "http://id.example/token"}), "token_endpoint must be"),
        (described({"token_endpoint": None}), "token_endpoint must be"),
        (
            described({"authorization_endpoint": "javascript:alert(1)"}),
            "authorization_endpoint must be",
        ),
        (described({"authorization_endpoint": "https://[/"}), "authorization_endpoint must be"),
    ],
)
def test_a_description_that_cannot_be_trusted_is_not_used(answer: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        endpoints_of(answer, "https://id.example")


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        ({"oidc.client_id": "c"}, "oidc.client_id: needs an issuer"),
        ({"oidc.client_secret_file": "/s"}, "oidc.client_secret_file: needs a client"),
        (
            {
                "oidc.issuer": "http://id.example",
                "oidc.audience": "a",
                "oidc.keys": "k",
                "oidc.client_id": "c",
            },
            "oidc.issuer: must be an address with https",
        ),
    ],
)
def test_settings_that_do_not_go_together_are_refused(flags: dict[str, str], why: str) -> None:
    with pytest.raises(CommandError) as caught:
        configured(flags, {}, None)
    assert any(line.startswith(why) for line in caught.value.lines), caught.value.lines
