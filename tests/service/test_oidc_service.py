"""OIDC through the service: lifetimes, key sets that are slow or malformed, names and scopes."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from quorate.service.auth.issuer_http import FETCH_S_MAX
from quorate.service.auth.oidc import KEYS_MS_MAX, KEYS_MS_MIN
from quorate.service.daemon import Extras
from quorate.testing.memory_engines import HandClock
from tests.bounds import WAIT_S, until
from tests.service.serving import Served, new_ledger, serving
from tests.service.test_auth import AUDIENCE, ISSUER, Issuer

SLOW_S: Final = FETCH_S_MAX - 1
"""How long a slow provider takes unless its gate is opened: a second less than the time limit."""


@pytest.fixture(scope="module")
def issuer() -> Issuer:
    """Return an issuer of tokens."""
    return Issuer()


class Provider:
    """An identity provider on loopback, which sends the key set ``body`` when ``gate`` is open."""

    def __init__(self) -> None:
        self.body = b'{"keys": []}'
        self.asked = 0
        self.gate = threading.Event()
        self.gate.set()
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                provider.asked += 1
                provider.gate.wait(SLOW_S)
                self.send_response(200)
                self.send_header("Content-Length", str(len(provider.body)))
                self.end_headers()
                self.wfile.write(provider.body)

            def log_message(self, *_: Any) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}/jwks"


@pytest.fixture
def provider() -> Iterator[Provider]:
    """Return an identity provider that answers."""
    found = Provider()
    thread = threading.Thread(target=found.http.serve_forever)
    thread.start()
    yield found
    found.gate.set()
    found.http.shutdown()
    thread.join()
    found.http.server_close()


@contextmanager
def trusting(
    folder: Path, keys: str, clock: HandClock | None = None, **flags: str
) -> Iterator[Served]:
    """Serve a new ledger that trusts the issuer whose key set is at ``keys``."""
    given = {"oidc.issuer": ISSUER, "oidc.audience": AUDIENCE, "oidc.keys": keys}
    given |= {f"oidc.{name}": value for name, value in flags.items()}
    extras = Extras() if clock is None else Extras(clock=clock)
    with serving(new_ledger(folder), given, extras) as served:
        yield served


def whoami(served: Served, token: str) -> httpx.Response:
    """Return the answer to ``whoami`` with ``token``."""
    with served.client(token) as client:
        return client.get("/api/v1/whoami")


def refused(answer: httpx.Response) -> str:
    """Return the reason of a refusal, which must be an authentication error."""
    assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated"), answer.text
    return str(answer.json()["detail"])


def test_a_token_that_lives_too_long_is_not_taken(
    issuer: Issuer, provider: Provider, tmp_path: Path
) -> None:
    provider.body = json.dumps(issuer.jwks()).encode()
    now, day = int(time.time()), 86_400
    with trusting(tmp_path, provider.url) as served:
        assert whoami(served, issuer.token(iat=now, exp=now + day)).status_code == 200
        too_long: list[dict[str, Any]] = [
            {"iat": now, "exp": now + 2 * day},
            {"iat": now - 10 * day, "exp": now + 60},
            {"exp": now + 2 * day},
            {"exp": now + 10**400},
        ]
        for claims in too_long:
            why = refused(whoami(served, issuer.token(**claims)))
            assert "is valid for longer than 86400 s" in why
            assert "oidc.lifetime_s" in why
    (tmp_path / "strict").mkdir()
    with trusting(tmp_path / "strict", provider.url, lifetime_s="600") as served:
        assert whoami(served, issuer.token(iat=now, exp=now + 600)).status_code == 200
        why = refused(whoami(served, issuer.token(iat=now, exp=now + 3_600)))
        assert "is valid for longer than 600 s" in why


def test_a_token_that_does_not_say_when_it_was_issued_is_not_taken(
    issuer: Issuer, provider: Provider, tmp_path: Path
) -> None:
    provider.body = json.dumps(issuer.jwks()).encode()
    with trusting(tmp_path, provider.url) as served:
        assert whoami(served, issuer.token()).status_code == 200
        # The token may have been issued for a year, and be in its last day.
        why = refused(whoami(served, issuer.token(iat=None)))
        assert "does not state when it was issued; have the issuer set the claim iat" in why


@pytest.mark.parametrize("times", [{"exp": float("inf")}, {"exp": [1]}, {"iat": {}}, {"nbf": []}])
def test_times_that_are_none_are_an_authentication_error(
    issuer: Issuer, provider: Provider, tmp_path: Path, times: dict[str, Any]
) -> None:
    provider.body = json.dumps(issuer.jwks()).encode()
    with trusting(tmp_path, provider.url) as served:
        refused(whoami(served, issuer.token(**times)))


def test_a_slow_provider_holds_up_no_caller_whose_key_is_known(
    issuer: Issuer, provider: Provider, tmp_path: Path
) -> None:
    provider.body = json.dumps(issuer.jwks("ec", "ed")).encode()
    clock = HandClock(time.time_ns() // 1_000_000)
    with trusting(tmp_path, provider.url, clock) as served:
        assert whoami(served, issuer.token("ec")).status_code == 200

        def are_answered_before_it(passed_ms: int) -> bool:
            """Return whether callers with known keys are answered before a slow provider answers.

            A busy machine may need longer to answer them than the time limit for the provider.
            """
            clock.ms += passed_ms
            provider.gate.clear()
            waiting: list[httpx.Response] = []
            thread = threading.Thread(
                target=lambda: waiting.append(whoami(served, issuer.token("rsa")))
            )
            asked = provider.asked
            thread.start()
            until(lambda: provider.asked == asked + 1, "the provider is asked")
            for key in ("ec", "ed", "ec"):
                exp = int(time.time()) + 300
                assert whoami(served, issuer.token(key, exp=exp)).status_code == 200
            is_still_asked = not waiting
            provider.gate.set()
            thread.join(WAIT_S)
            assert "does not have" in refused(waiting[0])
            assert provider.asked == asked + 1
            return is_still_asked

        until(lambda: are_answered_before_it(KEYS_MS_MIN + 1), "a new key is looked for")
        until(lambda: are_answered_before_it(KEYS_MS_MAX + 1), "the keys are old")


MALFORMED: Final = [
    b"",
    b"<html>oops</html>",
    b"[]",
    b"5",
    b"null",
    b'{"keys": 5}',
    b'{"keys": {"rsa": {}}}',
    b'{"keys": "rsa"}',
    b'{"nothing": []}',
    b'{"keys": [' + b"[" * 20_000,
    b'\xff\xfe{"keys": []}',
    b'{"keys": ["\\ud800"]}',
    b" " * (1024 * 1024 + 10),
]


@pytest.mark.parametrize("body", MALFORMED, ids=range(len(MALFORMED)))
def test_a_malformed_key_set_is_an_authentication_error(
    issuer: Issuer, provider: Provider, tmp_path: Path, body: bytes
) -> None:
    provider.body = body
    with trusting(tmp_path, provider.url) as served:
        why = refused(whoami(served, issuer.token()))
        assert "the issuer's key set cannot be read" in why
        assert "oidc.keys" in why
        # Tokens of the ledger are accepted nevertheless.
        assert served.token is not None
        assert whoami(served, served.token).status_code == 200


@pytest.mark.parametrize(
    "key",
    [
        {"kty": "RSA", "n": 5, "e": "AQAB"},
        {"kty": "RSA", "n": "", "e": ""},
        {"kty": "RSA", "n": "AQAB"},
        {"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"},
        {"kty": "EC", "crv": ["P-256"], "x": {}, "y": None},
        {"kty": "OKP", "crv": "Ed25519", "x": "%%%"},
        {"kty": []},
        {"kty": "RSA", "alg": {}},
        {},
    ],
    ids=str,
)
def test_a_malformed_key_leaves_the_others_of_use(
    issuer: Issuer, provider: Provider, tmp_path: Path, key: dict[str, Any]
) -> None:
    keys = [key | {"kid": "rsa"}, *issuer.jwks("ed")["keys"]]
    provider.body = json.dumps({"keys": keys}).encode()
    with trusting(tmp_path, provider.url) as served:
        refused(whoami(served, issuer.token("rsa")))
        assert whoami(served, issuer.token("ed")).status_code == 200


def test_a_name_that_looks_like_a_tenants_user_is_not_taken(
    issuer: Issuer, provider: Provider, tmp_path: Path
) -> None:
    provider.body = json.dumps(issuer.jwks()).encode()
    with trusting(tmp_path, provider.url) as served:
        for role in ("admin", "auditor", "accounting"):
            why = refused(whoami(served, issuer.token(sub="rai/alice", quorate_role=role)))
            assert "looks like a user of the tenant 'rai'" in why
            assert "oidc.user_claim" in why
        assert whoami(served, issuer.token(sub="rai/alice")).status_code == 200


def test_the_scope_to_claim_comes_from_the_claim_that_is_configured(
    issuer: Issuer, provider: Provider, tmp_path: Path
) -> None:
    provider.body = json.dumps(issuer.jwks()).encode()
    body = {"flavor": "H100", "nodes": 1, "duration": "1h", "owner": "rai"}
    with trusting(tmp_path, provider.url, scopes_claim="scope") as served:
        assert served.token is not None
        with served.client(served.token) as admin:
            made = admin.post("/api/v1/tenants", json={"id": "rai"})
            assert made.status_code == 200, made.text
        for scope, code in (("runs", "forbidden"), ("openid runs claim", "no-nodes")):
            with served.client(issuer.token(scope=scope)) as client:
                told = client.post("/api/v1/claims", json=body)
            assert told.json()["code"] == code, told.text
        why = refused(whoami(served, issuer.token(scope="claim")))
        assert "must name an area" in why
