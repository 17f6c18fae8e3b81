"""Nobody has all that may be open at once, and an admin is never shut out by others."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from socket import socket

import pytest

from quorate.answers.exits import CommandError
from quorate.operations.caller import Caller, Role
from quorate.service.shares import Share, Shares
from quorate.service.watch import WATCHES_OF_ONE_MAX
from tests.service.serving import Served, new_ledger, serving

SHARE = Share(most=10, of_one_max=4, kept=2, what="watches")


def user(name: str) -> Caller:
    return Caller(actor=name, role=Role.USER, user=name, tenant="team")


ADMIN = Caller(actor="root", role=Role.ADMIN, user="root")


def refusal(shares: Shares, caller: Caller) -> str:
    with pytest.raises(CommandError) as caught, shares.taken(caller):
        pass
    return caught.value.fault


def test_one_caller_has_its_share_and_gets_it_back() -> None:
    shares = Shares(SHARE)
    with ExitStack() as stack:
        for _ in range(4):
            stack.enter_context(shares.taken(user("ann")))
        assert refusal(shares, user("ann")) == "too-many-requests"
        stack.enter_context(shares.taken(user("bob")))
    with shares.taken(user("ann")):
        pass


def test_what_is_kept_is_for_admins_and_they_are_bound_by_all_of_it_only() -> None:
    shares = Shares(SHARE)
    with ExitStack() as stack:
        for name in ("ann", "bob"):
            for _ in range(4):
                stack.enter_context(shares.taken(user(name)))
        assert refusal(shares, user("eve")) == "unavailable"
        for _ in range(2):
            stack.enter_context(shares.taken(ADMIN))
        assert refusal(shares, ADMIN) == "unavailable"
    with ExitStack() as stack:
        for _ in range(10):
            stack.enter_context(shares.taken(ADMIN))


def test_a_share_that_was_refused_inside_is_given_back() -> None:
    shares = Shares(SHARE)
    for _ in range(20):
        with pytest.raises(ZeroDivisionError), shares.taken(user("ann")):
            raise ZeroDivisionError


def _token(served: Served, name: str) -> str:
    with served.client(served.token) as admin:
        assert admin.post("/api/v1/tenants", json={"id": "team"}).status_code in (200, 409)
        body = {"role": "user", "user": name, "tenant": "team"}
        found = admin.post("/api/v1/tokens", json=body)
        assert found.status_code == 200, found.text
        return str(found.json()["token"]["secret"])


def _watch(served: Served, token: str | None) -> tuple[socket, int]:
    connection = served.connect()
    head = f"GET /api/v1/watch HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n"
    connection.sendall(head.encode())
    return connection, int(connection.recv(65_536).split(b" ", 2)[1])


def test_one_user_cannot_watch_so_often_that_an_admin_cannot(tmp_path: Path) -> None:
    with serving(new_ledger(tmp_path)) as served, ExitStack() as stack:
        token = _token(served, "ann")
        found: list[int] = []
        for _ in range(WATCHES_OF_ONE_MAX + 5):
            connection, status = _watch(served, token)
            stack.enter_context(connection)
            found.append(status)
        assert found == [200] * WATCHES_OF_ONE_MAX + [429] * 5
        for other in (served.token, _token(served, "bob")):
            connection, status = _watch(served, other)
            stack.enter_context(connection)
            assert status == 200


def test_one_user_cannot_ask_so_much_at_once_that_others_cannot(tmp_path: Path) -> None:
    flags = {"limits.concurrent": "8"}
    with serving(new_ledger(tmp_path), flags) as served, ExitStack() as stack:
        token = _token(served, "ann")
        found = []
        for _ in range(8):
            connection, status = _watch(served, token)
            stack.enter_context(connection)
            found.append(status)
        assert found == [200, 200] + [429] * 6
        with served.client(served.token) as admin:
            assert admin.get("/api/v1/whoami").status_code == 200
        with served.client(_token(served, "bob")) as other:
            assert other.get("/api/v1/whoami").status_code == 200
