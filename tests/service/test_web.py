"""The dashboard of a real service: its page, its files, its session."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from urllib.parse import urljoin

import httpx
import pytest

from quorate.service.web.browser_session import COOKIE
from quorate.service.web.web_routes import PAGES, POLICY
from tests.service.conftest import Stage
from tests.service.worlds import run_tree

HTML = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
PAGE = {"X-Quorate-Session": "1"}
OUT = {"signedIn": False, "issuer": None}


def token_of(client: httpx.Client) -> str:
    return client.headers["authorization"].removeprefix("Bearer ")


@pytest.fixture
def visitor(stage: Stage) -> Iterator[httpx.Client]:
    with stage.served.client(None) as client:
        yield client


@pytest.mark.parametrize("path", PAGES)
def test_a_browser_gets_the_page_at_every_address(path: str, visitor: httpx.Client) -> None:
    found = visitor.get(path.replace("{name}", "a%2Fb"), headers=HTML)
    assert found.status_code == 200
    assert found.headers["content-type"] == "text/html; charset=utf-8"
    assert found.headers["content-security-policy"] == POLICY
    assert found.headers["cache-control"] == "no-cache"
    assert "<base href=" in found.text


def test_any_other_client_is_told_that_nothing_is_there(visitor: httpx.Client) -> None:
    for accept in ("*/*", "application/json"):
        found = visitor.get("/", headers={"Accept": accept})
        assert (found.status_code, found.json()["code"]) == (404, "not-found")


def test_the_policy_lets_the_page_load_nothing_from_elsewhere() -> None:
    sources = re.findall(r"-src ([^;]+)", POLICY)
    assert set(sources) == {"'none'", "'self'"}
    assert "default-src 'none'" in POLICY


@pytest.mark.parametrize("prefix", ["", "/quorate", "/a/b"])
@pytest.mark.parametrize("path", PAGES)
def test_links_of_the_page_lead_to_its_files_under_any_prefix(
    path: str, prefix: str, visitor: httpx.Client
) -> None:
    path = path.replace("{name}", "x")
    text = visitor.get(path, headers=HTML).text
    (base,) = re.findall(r'<base href="([^"]*)"', text)
    links = re.findall(r'(?:src|href)="(files/[^"]*)"', text)
    assert len(links) == 3
    for link in links:
        # A proxy removes the prefix before the service gets the path.
        seen = urljoin(urljoin(f"http://host{prefix}{path}", base), link)
        assert seen.startswith(f"http://host{prefix}/files/")
        found = visitor.get(seen.removeprefix(f"http://host{prefix}"))
        assert found.status_code == 200
        assert "immutable" in found.headers["cache-control"]


def test_a_page_that_has_not_changed_is_not_sent_again(visitor: httpx.Client) -> None:
    etag = visitor.get("/", headers=HTML).headers["etag"]
    again = visitor.get("/", headers=HTML | {"If-None-Match": etag})
    assert (again.status_code, again.content) == (304, b"")
    other = visitor.get("/", headers=HTML | {"If-None-Match": '"other"'})
    assert other.status_code == 200


def test_a_file_is_compressed_for_those_who_take_it_so(stage: Stage, visitor: httpx.Client) -> None:
    text = visitor.get("/", headers=HTML).text
    (path,) = re.findall(r'src="(files/[^"]*)"', text)
    plain = visitor.get(f"/{path}", headers={"Accept-Encoding": "identity"})
    raw = b"GET /%s HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\nConnection: close\r\n\r\n"
    head, _, body = stage.served.raw(raw % path.encode()).partition(b"\r\n\r\n")
    assert b"content-encoding: gzip" in head
    assert gzip.decompress(body) == plain.content
    assert len(body) < 100_000


def test_a_file_of_another_version_is_not_there(visitor: httpx.Client) -> None:
    assert visitor.get("/files/0123456789abcdef/app.js").status_code == 404
    text = visitor.get("/", headers=HTML).text
    (version,) = set(re.findall(r'="files/(\w+)/', text))
    assert visitor.get(f"/files/{version}/other.js").status_code == 404
    assert visitor.get(f"/files/{version}/..%2Findex.html").status_code == 404


def test_a_session_has_the_rights_of_its_token(stage: Stage, visitor: httpx.Client) -> None:
    assert visitor.get("/session", headers=PAGE).json() == OUT
    done = visitor.post("/session", json={"token": token_of(stage.user)}, headers=PAGE)
    assert done.status_code == 204
    cookie = done.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert "Path" not in cookie
    assert "Secure" not in cookie
    assert visitor.get("/session", headers=PAGE).json() == OUT | {"signedIn": True}
    who = visitor.get("/api/v1/whoami", headers=PAGE)
    assert (who.json()["user"], who.json()["role"]) == ("ann", "user")
    assert visitor.get("/api/v1/clock", headers=PAGE).status_code == 403


def test_the_cookie_alone_signs_in_no_caller(stage: Stage, visitor: httpx.Client) -> None:
    visitor.post("/session", json={"token": token_of(stage.user)}, headers=PAGE)
    assert COOKIE in visitor.cookies
    assert visitor.get("/api/v1/whoami").status_code == 401
    forged = visitor.post("/api/v1/runs", json={"document": run_tree("forged", "rai")})
    assert forged.status_code == 401
    from_elsewhere = PAGE | {"Sec-Fetch-Site": "cross-site"}
    assert visitor.get("/api/v1/whoami", headers=from_elsewhere).status_code == 401
    assert visitor.get("/api/v1/whoami", headers=PAGE).status_code == 200


def test_two_cookies_of_a_session_and_one_that_is_no_token_count_for_nothing(
    stage: Stage, visitor: httpx.Client
) -> None:
    own, other = token_of(stage.user), token_of(stage.admin)
    for cookies in (
        f"{COOKIE}={own}; {COOKIE}={other}",
        f'{COOKIE}="{own}"',
        f"{COOKIE}=",
        'a="' + "\\" * 30_000,
    ):
        head = PAGE | {"Cookie": cookies}
        assert visitor.get("/api/v1/whoami", headers=head).status_code == 401
    head = PAGE | {"Cookie": f"first=1; {COOKIE}={own};last"}
    assert visitor.get("/api/v1/whoami", headers=head).status_code == 200


@pytest.mark.parametrize("body", ["[" * 15_000, "{", "[]", '{"token": 1}'])
def test_a_body_that_is_no_sign_in_is_refused(visitor: httpx.Client, body: str) -> None:
    assert visitor.post("/session", content=body, headers=PAGE).status_code == 400


def test_another_site_can_neither_sign_in_nor_out(stage: Stage, visitor: httpx.Client) -> None:
    body = {"token": token_of(stage.user)}
    assert visitor.post("/session", json=body).status_code == 403
    elsewhere = PAGE | {"Sec-Fetch-Site": "same-site"}
    assert visitor.post("/session", json=body, headers=elsewhere).status_code == 403
    assert visitor.delete("/session").status_code == 403
    assert visitor.options("/session").status_code == 405


def test_signing_out_ends_the_session(stage: Stage, visitor: httpx.Client) -> None:
    visitor.post("/session", json={"token": token_of(stage.user)}, headers=PAGE)
    done = visitor.delete("/session", headers=PAGE)
    assert "Max-Age=0" in done.headers["set-cookie"]
    assert visitor.get("/api/v1/whoami", headers=PAGE).status_code == 401


def test_a_revoked_token_ends_its_sessions(stage: Stage, visitor: httpx.Client) -> None:
    token = stage.token("user", "leaver", "rai")
    visitor.post("/session", json={"token": token}, headers=PAGE)
    assert visitor.get("/api/v1/whoami", headers=PAGE).status_code == 200
    assert stage.admin.delete(f"/api/v1/tokens/{token.split('_')[1]}").status_code == 200
    assert visitor.get("/api/v1/whoami", headers=PAGE).status_code == 401
    assert visitor.get("/session", headers=PAGE).json() == OUT


def test_a_session_begun_at_https_is_kept_to_https(stage: Stage, visitor: httpx.Client) -> None:
    headers = PAGE | {"Origin": "https://gpus.example"}
    done = visitor.post("/session", json={"token": token_of(stage.user)}, headers=headers)
    assert "Secure" in done.headers["set-cookie"]


@pytest.mark.parametrize(
    ("body", "status", "word"),
    [
        (b"{}", 400, "token"),
        (b"no json", 400, "token"),
        (json.dumps({"token": "a b"}).encode(), 400, "copy it whole"),
        (json.dumps({"token": "a\r\nSet-Cookie: b=c"}).encode(), 400, "copy it whole"),
        (json.dumps({"token": "x" * 5_000}).encode(), 400, "copy it whole"),
        (json.dumps({"token": "qt_no_such"}).encode(), 401, "access token"),
        (b"x" * 20_000, 413, "larger"),
    ],
)
def test_a_token_that_is_none_is_refused_with_the_remedy(
    body: bytes, status: int, word: str, visitor: httpx.Client
) -> None:
    found = visitor.post("/session", content=body, headers=PAGE)
    assert found.status_code == status, found.text
    assert word in found.json()["detail"]
    assert "set-cookie" not in found.headers


def test_a_client_that_sends_both_is_the_one_of_its_header(
    stage: Stage, visitor: httpx.Client
) -> None:
    visitor.post("/session", json={"token": token_of(stage.user)}, headers=PAGE)
    headers = PAGE | {"Authorization": f"Bearer {token_of(stage.auditor)}"}
    assert visitor.get("/api/v1/whoami", headers=headers).json()["user"] == "eve"
