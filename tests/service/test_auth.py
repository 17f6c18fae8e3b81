from __future__ import annotations

import asyncio
import base64
import hmac
import json
import threading
import time
from collections.abc import Callable, Iterator
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm
from msgspec.structs import replace

from quorate.adapters.clock_system import SystemClock
from quorate.model.events import TokenIssued, TokenRole
from quorate.model.state.records import TokenRecord
from quorate.operations.caller import Caller, Role
from quorate.operations.service.token_handlers import Secret
from quorate.service.auth import oidc as oidc_module
from quorate.service.auth.authenticator import Authenticator
from quorate.service.auth.oidc import OidcKeys, OidcTrust
from quorate.service.auth.trusted_issuer import Oidc
from quorate.testing.memory_engines import HandClock
from quorate.views.exits import CommandError
from tests.bounds import WAIT_S
from tests.service.conftest import Stage
from tests.service.serving import new_ledger, serving
from tests.service.worlds import run_tree

ISSUER, AUDIENCE = "https://id.example", "quorate"


def record_of(secret: Secret, **more: Any) -> TokenRecord:
    fields: dict[str, Any] = {
        "at_ms": 0,
        "actor": "root",
        "token": secret.token,
        "digest": secret.digest,
        "role": TokenRole.USER,
        "tenant": "team",
        "user": "ann",
        "scopes": (),
        "expires_ms": None,
        "note": "",
    }
    return TokenRecord(TokenIssued(**(fields | more)))


def caller_of(keeper: Authenticator, token: str) -> Caller:
    return asyncio.run(keeper.caller_of(f"Bearer {token}"))


def test_an_access_token_says_who_asks() -> None:
    secret = Secret.draw()
    records = {secret.token: record_of(secret, scopes=("runs",))}
    found = caller_of(Authenticator(records.get, HandClock()), secret.text)
    assert found == Caller(
        actor="team/ann",
        role=Role.USER,
        user="ann",
        tenant="team",
        scopes=frozenset({"runs"}),
        token=secret.token,
    )


@pytest.mark.parametrize("role", [TokenRole.ADMIN, TokenRole.AUDITOR])
def test_who_is_of_no_tenant_is_recorded_by_name(role: TokenRole) -> None:
    secret = Secret.draw()
    records = {secret.token: record_of(secret, role=role, tenant="")}
    assert caller_of(Authenticator(records.get, HandClock()), secret.text).actor == "ann"


def test_nobody_of_a_tenant_is_recorded_as_somebody_else(stage: Stage) -> None:
    body = {"role": "user", "user": "root", "tenant": "rai"}
    with stage.served.client(stage.token("tenant-admin", "lea", "rai")) as lead:
        given = lead.post("/api/v1/tokens", json=body).json()["token"]["secret"]
    with stage.served.client(given) as posing:
        sent = posing.post("/api/v1/runs", json={"document": run_tree("posing", "rai", 1)})
    assert sent.status_code == 200, sent.text
    assert {event["actor"] for event in sent.json()["events"]} == {"rai/root"}


def test_a_token_is_not_taken_from_the_instant_it_expires() -> None:
    secret, clock = Secret.draw(), HandClock(1_000)
    keeper = Authenticator({secret.token: record_of(secret, expires_ms=1_001)}.get, clock)
    assert caller_of(keeper, secret.text).user == "ann"
    clock.ms = 1_001
    with pytest.raises(CommandError, match="expired"):
        caller_of(keeper, secret.text)


def test_whoever_does_not_know_the_secret_learns_nothing_of_a_token() -> None:
    secret, other = Secret.draw(), Secret.draw()
    revoked = record_of(secret)
    revoked.revoked_ms = 5
    keeper = Authenticator({secret.token: revoked}.get, HandClock())
    said = set()
    for token in (f"qt_{secret.token}_{other.secret}", other.text):
        with pytest.raises(CommandError) as caught:
            caller_of(keeper, token)
        assert caught.value.fault == "unauthenticated"
        said.add(caught.value.lines)
    assert len(said) == 1
    with pytest.raises(CommandError, match="revoked"):
        caller_of(keeper, secret.text)


def test_a_token_is_refused_as_soon_as_it_is_revoked(stage: Stage) -> None:
    token = stage.token("user", "rex", "rai")
    with stage.served.client(token) as client:
        assert client.get("/api/v1/whoami").json()["user"] == "rex"
        name = token.split("_")[1]
        assert stage.admin.delete(f"/api/v1/tokens/{name}").status_code == 200
        assert client.get("/api/v1/whoami").status_code == 401


def test_a_token_limited_to_an_area_is_for_nothing_else(stage: Stage) -> None:
    token = stage.token("user", "lim", "rai", scopes=["runs"])
    with stage.served.client(token) as client:
        assert client.get("/api/v1/runs").status_code == 200
        refused = client.get("/api/v1/budgets")
        assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
        # Every caller may ask who it is, and revoke its own token.
        assert client.get("/api/v1/whoami").json()["scopes"] == ["runs"]
        other = stage.token("user", "lim", "rai").split("_")[1]
        assert client.delete(f"/api/v1/tokens/{other}").status_code == 403
        assert client.delete(f"/api/v1/tokens/{token.split('_')[1]}").status_code == 200
        assert client.get("/api/v1/whoami").status_code == 401


def test_a_document_takes_a_token_for_its_own_area(stage: Stage) -> None:
    owner = {"apiVersion": "quorate.dev/v1", "kind": "Owner", "metadata": {"name": "sneaked"}}
    for area, status in (("service", 403), ("tenants", 200)):
        with stage.served.client(stage.token("admin", "adm", scopes=[area])) as client:
            sent = client.post("/api/v1/apply", json={"documents": [owner | {"spec": {}}]})
        assert sent.status_code == status, sent.text
        if status == 403:
            assert (
                "Owner: your token is limited to service; this needs a token for tenants"
                in sent.json()["detail"]
            )


# --- OIDC ---


class Issuer:
    """An issuer of tokens, with a key of each kind."""

    def __init__(self) -> None:
        self.rsa = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.ec = ec.generate_private_key(ec.SECP256R1())
        self.ed = ed25519.Ed25519PrivateKey.generate()

    def jwks(self, *names: str) -> dict[str, Any]:
        """Return all its public keys, or the named ones."""
        keys: dict[str, Any] = {
            "rsa": RSAAlgorithm.to_jwk(self.rsa.public_key(), as_dict=True) | {"alg": "RS256"},
            "ec": ECAlgorithm.to_jwk(self.ec.public_key(), as_dict=True) | {"alg": "ES256"},
            "ed": OKPAlgorithm.to_jwk(self.ed.public_key(), as_dict=True) | {"alg": "EdDSA"},
        }
        wanted = names or tuple(keys)
        return {"keys": [keys[name] | {"kid": name, "use": "sig"} for name in wanted]}

    def token(self, key: str = "rsa", **claims: Any) -> str:
        """Return a token that it signs, without the claims that are None."""
        now = int(time.time())
        given = {
            "iss": ISSUER,
            "aud": AUDIENCE,
            "sub": "olga",
            "iat": now,
            "exp": now + 300,
            "quorate_role": "user",
            "quorate_tenant": "rai",
        } | claims
        private: Any = {"rsa": self.rsa, "ec": self.ec, "ed": self.ed}[key]
        algorithm = {"rsa": "RS256", "ec": "ES256", "ed": "EdDSA"}[key]
        kept = {name: value for name, value in given.items() if value is not None}
        return jwt.encode(kept, private, algorithm=algorithm, headers={"kid": key})


@pytest.fixture(scope="module")
def issuer() -> Issuer:
    return Issuer()


@pytest.fixture
def keys_file(issuer: Issuer, tmp_path: Path) -> Path:
    path = tmp_path / "jwks.json"
    path.write_text(json.dumps(issuer.jwks()), encoding="utf-8")
    return path


def trusted(keys: Path | str, **more: Any) -> OidcTrust:
    oidc = Oidc(issuer=ISSUER, audience=AUDIENCE, keys=str(keys), **more)
    return OidcTrust(oidc, SystemClock())


def asked_by(trust: OidcTrust, token: str) -> Caller:
    return asyncio.run(trust.caller_of(token))


@pytest.mark.parametrize("key", ["rsa", "ec", "ed"])
def test_a_token_of_the_issuer_says_who_asks(issuer: Issuer, keys_file: Path, key: str) -> None:
    found = asked_by(trusted(keys_file), issuer.token(key))
    assert replace(found, until_ms=None) == Caller(
        actor="rai/olga", role=Role.USER, user="olga", tenant="rai"
    )


def test_claims_are_called_as_configured(issuer: Issuer, keys_file: Path) -> None:
    trust = trusted(
        keys_file,
        role_claim="groups",
        tenant_claim="team",
        user_claim="email",
        scopes_claim="scope",
        roles={"gpu-admins": "admin", "staff": "user"},
    )
    token = issuer.token(
        groups=["everybody", "staff"], team="core", email="o@x.example", scope="openid runs money"
    )
    assert replace(asked_by(trust, token), until_ms=None) == Caller(
        actor="core/o@x.example",
        role=Role.USER,
        user="o@x.example",
        tenant="core",
        scopes=frozenset({"runs", "money"}),
    )
    admin = issuer.token(groups=["gpu-admins"], team="core", email="o@x.example", scope="runs")
    assert asked_by(trust, admin).tenant == ""


@pytest.mark.parametrize(
    "claims",
    [
        {"iss": "https://evil.example"},
        {"aud": "somebody-else"},
        {"aud": None},
        {"iss": None},
        {"exp": None},
        {"exp": 1},
        {"nbf": 4_000_000_000},
        {"sub": None},
        {"sub": ""},
        {"sub": 5},
        {"sub": "a\nb"},
        {"quorate_role": None},
        {"quorate_role": "root"},
        {"quorate_role": ["user", "admin"]},
        {"quorate_role": {"admin": True}},
        {"quorate_tenant": None},
        {"quorate_tenant": ["rai"]},
    ],
)
def test_a_token_that_says_too_little_is_not_taken(
    issuer: Issuer, keys_file: Path, claims: dict[str, Any]
) -> None:
    with pytest.raises(CommandError) as caught:
        asked_by(trusted(keys_file), issuer.token(**claims))
    assert caught.value.fault == "unauthenticated"


def test_a_token_without_a_known_area_is_not_one_without_limits(
    issuer: Issuer, keys_file: Path
) -> None:
    trust = trusted(keys_file, scopes_claim="scope")
    for scope in (None, "", "openid", 5):
        with pytest.raises(CommandError, match="scope"):
            asked_by(trust, issuer.token(scope=scope))


def _part(tree: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(tree).encode()).rstrip(b"=").decode()


def _unsigned(issuer: Issuer) -> str:
    _, claims, _ = issuer.token().split(".")
    return f"{_part({'alg': 'none', 'kid': 'rsa'})}.{claims}."


def _signed_with_the_public_key(issuer: Issuer) -> str:
    """Return a token signed with the issuer's public key as if it were a shared secret."""
    _, claims, _ = issuer.token().split(".")
    text = f"{_part({'alg': 'HS256', 'kid': 'rsa'})}.{claims}"
    public = json.dumps(issuer.jwks("rsa")["keys"][0]).encode()
    mac = hmac.new(public, text.encode(), sha256).digest()
    return f"{text}.{base64.urlsafe_b64encode(mac).rstrip(b'=').decode()}"


def _changed(issuer: Issuer) -> str:
    head, _, signature = issuer.token().split(".")
    claims = jwt.decode(issuer.token(), options={"verify_signature": False})
    return f"{head}.{_part(claims | {'quorate_role': 'admin'})}.{signature}"


def _of_another_kind(issuer: Issuer) -> str:
    """Return a token with a valid signature of one key that names another key."""
    return jwt.encode(
        jwt.decode(issuer.token(), options={"verify_signature": False}),
        issuer.ec,
        algorithm="ES256",
        headers={"kid": "rsa"},
    )


def _without_a_key(issuer: Issuer) -> str:
    claims = jwt.decode(issuer.token(), options={"verify_signature": False})
    return jwt.encode(claims, issuer.rsa, algorithm="RS256")


def _of_nobody(issuer: Issuer) -> str:
    del issuer
    return Issuer().token()


@pytest.mark.parametrize(
    "forged",
    [
        _unsigned,
        _signed_with_the_public_key,
        _changed,
        _of_another_kind,
        _without_a_key,
        _of_nobody,
        lambda _: "a.b.c",
        lambda _: "x" * 20_000,
    ],
)
def test_a_forged_token_is_not_taken(
    issuer: Issuer, keys_file: Path, forged: Callable[[Issuer], str]
) -> None:
    with pytest.raises(CommandError) as caught:
        asked_by(trusted(keys_file), forged(issuer))
    assert caught.value.fault == "unauthenticated"


class KeyServer:
    """The address of an issuer on loopback, whose keys a test can change."""

    def __init__(self) -> None:
        self.tree: dict[str, Any] = {"keys": []}
        self.asked = 0
        self.redirects_to = ""
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.asked += 1
                if server.redirects_to:
                    self.send_response(302)
                    self.send_header("Location", server.redirects_to)
                    self.end_headers()
                    return
                body = json.dumps(server.tree).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        self.http = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}/jwks"


@pytest.fixture
def key_server() -> Iterator[KeyServer]:
    found = KeyServer()
    thread = threading.Thread(target=found.http.serve_forever)
    thread.start()
    yield found
    found.http.shutdown()
    thread.join(WAIT_S)
    assert not thread.is_alive()
    found.http.server_close()


def test_new_keys_are_found_and_made_up_ones_do_not_have_them_read_each_time(
    issuer: Issuer, key_server: KeyServer
) -> None:
    key_server.tree = issuer.jwks("ec")

    async def scenario() -> None:
        clock = HandClock()
        keys = OidcKeys(key_server.url, clock)
        assert await keys.key("ec") is not None
        assert await keys.key("rsa") is None
        for number in range(50):
            assert await keys.key(f"made-up-{number}") is None
        assert key_server.asked == 1
        key_server.tree = issuer.jwks("rsa")
        # After some time, an unknown key is looked up again.
        clock.ms += oidc_module.KEYS_MS_MIN + 1
        assert await keys.key("rsa") is not None
        assert await keys.key("ec") is None, "a key that the issuer has withdrawn"
        assert key_server.asked == 2

    asyncio.run(scenario())


def test_an_issuer_that_cannot_be_asked_keeps_the_keys_it_had(
    issuer: Issuer, key_server: KeyServer
) -> None:
    key_server.tree = issuer.jwks("ec")

    async def scenario() -> None:
        clock = HandClock()
        keys = OidcKeys(key_server.url, clock)
        assert await keys.key("ec") is not None
        clock.ms += oidc_module.KEYS_MS_MAX + 1
        key_server.redirects_to = "http://127.0.0.1:1/elsewhere"
        assert await keys.key("ec") is not None

    asyncio.run(scenario())


def test_keys_that_are_none_are_left_out(tmp_path: Path, issuer: Issuer) -> None:
    path = tmp_path / "jwks.json"
    shared = {"kty": "oct", "k": "c2VjcmV0", "kid": "oct", "alg": "HS256"}
    tree = {"keys": [shared, 5, {"kid": "odd"}, *issuer.jwks("ed")["keys"]]}
    path.write_text(json.dumps(tree), encoding="utf-8")

    async def scenario() -> None:
        keys = OidcKeys(str(path), HandClock())
        assert await keys.key("ed") is not None
        assert await keys.key("oct") is None
        assert await keys.key("odd") is None

    asyncio.run(scenario())


def test_a_service_takes_tokens_of_its_issuer(
    issuer: Issuer, keys_file: Path, tmp_path: Path
) -> None:
    flags = {"oidc.issuer": ISSUER, "oidc.audience": AUDIENCE, "oidc.keys": str(keys_file)}
    with serving(new_ledger(tmp_path), flags) as served:
        with served.client(issuer.token(quorate_role="auditor")) as client:
            found = client.get("/api/v1/whoami").json()
            assert (found["user"], found["role"]) == ("olga", "auditor")
            assert client.post("/api/v1/tick", json={}).status_code == 403
        with served.client(issuer.token(exp=1)) as client:
            assert client.get("/api/v1/whoami").status_code == 401
