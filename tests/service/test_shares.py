"""No caller can use all open requests, and other callers never block an admin."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from select import select
from socket import socket

import pytest

from quorate.operations.caller import Caller, Role
from quorate.service.http.event_stream import WATCHES_OF_ONE_MAX, watch_share
from quorate.service.limits.tenant_shares import Share, Shares
from quorate.views.exits import CommandError
from tests.bounds import WAIT_S, until
from tests.service.held import held_service
from tests.service.serving import Served, new_ledger, serving
from tests.service.worlds import run_tree

SHARE = Share(most=10, of_tenant_max=6, of_one_max=4, kept=2, what="watches")


PATIENT = {"limits.body_bytes": "100000", "limits.slow_client_s": str(10 * WAIT_S)}
"""For bodies that stay unfinished while a test runs."""


def user(name: str, tenant: str = "team") -> Caller:
    return Caller(actor=name, role=Role.USER, user=name, tenant=tenant)


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
        for name, tenant in (("ann", "team"), ("bob", "other")):
            for _ in range(4):
                stack.enter_context(shares.taken(user(name, tenant)))
        assert refusal(shares, user("eve", "third")) == "unavailable"
        assert "8 watches are open" in shares.trouble
        for _ in range(2):
            stack.enter_context(shares.taken(ADMIN))
        assert refusal(shares, ADMIN) == "unavailable"
    with ExitStack() as stack:
        for _ in range(10):
            stack.enter_context(shares.taken(ADMIN))


def test_one_tenant_has_its_share_however_many_users_it_has() -> None:
    shares = Shares(SHARE)
    with ExitStack() as stack:
        for number in range(6):
            stack.enter_context(shares.taken(user(f"user-{number}")))
        assert refusal(shares, user("one-more")) == "too-many-requests"
        assert not shares.trouble
        stack.enter_context(shares.taken(user("bob", "other")))
        with pytest.raises(CommandError, match="tenant team may have"), shares.taken(user("ann")):
            pass
    with shares.taken(user("ann"), 4):
        assert refusal(shares, user("ann")) == "too-many-requests"
    assert shares.open == 0


def test_a_share_that_was_refused_inside_is_given_back() -> None:
    shares = Shares(SHARE)
    for _ in range(20):
        with pytest.raises(ZeroDivisionError), shares.taken(user("ann")):
            raise ZeroDivisionError


def _token(served: Served, name: str, tenant: str = "team") -> str:
    with served.client(served.token) as admin:
        assert admin.post("/api/v1/tenants", json={"id": tenant}).status_code in (200, 409)
        body = {"role": "user", "user": name, "tenant": tenant}
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


def test_watches_leave_connections_for_others_however_few_there_are(tmp_path: Path) -> None:
    assert watch_share(8_000) == Share(
        most=2_000, of_tenant_max=1_000, of_one_max=250, kept=100, what="watches"
    )
    for connections in range(1, 300):
        share = watch_share(connections)
        assert 1 <= share.of_one_max <= share.of_tenant_max <= share.most
        assert connections == 1 or share.most <= connections // 2
    flags = {"limits.connections": "24"}
    with serving(new_ledger(tmp_path), flags) as served, ExitStack() as stack:
        token = _token(served, "ann")
        found: list[int] = []
        for _ in range(5):
            connection, status = _watch(served, token)
            stack.enter_context(connection)
            found.append(status)
        assert found == [200] * 3 + [429] * 2
        connection, status = _watch(served, _token(served, "bob"))
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


def test_one_tenant_cannot_ask_so_much_at_once_that_others_cannot(tmp_path: Path) -> None:
    flags = {"limits.concurrent": "8"}
    with serving(new_ledger(tmp_path), flags) as served, ExitStack() as stack:
        found = []
        for name in ("ann", "bea", "cy", "dan"):
            token = _token(served, name)
            for _ in range(2):
                connection, status = _watch(served, token)
                stack.enter_context(connection)
                found.append(status)
        assert found == [200] * 4 + [429] * 4
        with served.client(_token(served, "zoe", "other")) as other:
            assert other.get("/api/v1/whoami").status_code == 200


def _begin(served: Served, token: str | None, length: int) -> socket:
    """Return a connection on which a body of ``length`` has begun but does not continue."""
    connection = served.connect()
    head = [
        "POST /api/v1/apply HTTP/1.1",
        "Host: x",
        f"Authorization: Bearer {token}",
        "Content-Type: application/json",
        f"Content-Length: {length}",
        "Expect: 100-continue",
    ]
    connection.sendall(("\r\n".join(head) + "\r\n\r\n").encode())
    return connection


def _refusal_of(connection: socket) -> tuple[int, bytes] | None:
    """Return the status and the head of an answer; None if the service waits for the body."""
    connection.settimeout(WAIT_S)
    answer = connection.recv(65_536)
    if answer == b"HTTP/1.1 100 Continue\r\n\r\n":
        connection.sendall(b"{")
        return None
    return int(answer.split(b" ", 2)[1]), answer.partition(b"\r\n\r\n")[0]


def test_bodies_are_bounded_in_sum_by_caller_tenant_and_all(tmp_path: Path) -> None:
    flags = {"limits.body_memory_bytes": "800000", **PATIENT}
    with serving(new_ledger(tmp_path), flags) as served, ExitStack() as stack:
        tokens = {
            "ann": (_token(served, "ann"), 3, 2, 429),
            "bea": (_token(served, "bea"), 3, 2, 429),
            "cy": (_token(served, "cy"), 1, 0, 429),
            "zoe": (_token(served, "zoe", "other"), 2, 2, 429),
            "yan": (_token(served, "yan", "third"), 2, 1, 503),
        }
        for name, (token, begun, taken, refused) in tokens.items():
            answers = []
            for _ in range(begun):
                connection = stack.enter_context(_begin(served, token, 100_000))
                answers.append(_refusal_of(connection))
            assert answers[:taken] == [None] * taken, name
            for answer in answers[taken:]:
                assert answer is not None, name
                assert answer[0] == refused, name
                assert b"retry-after: 1" in answer[1]
        admin = stack.enter_context(_begin(served, served.token, 100_000))
        assert _refusal_of(admin) is None
        with served.client(None) as client:
            ready = client.get("/readyz")
            assert ready.status_code == 503
            assert "bytes of bodies are open" in ready.json()["detail"]
            assert ready.headers["retry-after"]
        stack.close()
        with served.client(None) as client:
            until(lambda: client.get("/readyz").status_code == 200, "their room is given back")


def test_a_body_in_chunks_counts_as_it_comes(tmp_path: Path) -> None:
    flags = {"limits.body_memory_bytes": "200000", **PATIENT}
    with serving(new_ledger(tmp_path), flags) as served:
        token = _token(served, "ann")
        with _begin(served, token, 90_000) as first, served.connect() as second:
            assert _refusal_of(first) is None
            second.sendall(
                b"POST /api/v1/apply HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"
                b"Authorization: Bearer %s\r\nContent-Type: application/json\r\n\r\n"
                % token.encode()
            )
            chunk = b"1000\r\n" + b" " * 4_096 + b"\r\n"
            for _ in range(2):
                second.sendall(chunk)
            shares = served.ledger_thread.bodies._shares
            until(lambda: shares.open >= 90_000 + 2 * 4_096, "both chunks are counted")
            assert not select([second], [], [], 0)[0]
            second.sendall(chunk)
            answer = _refusal_of(second)
            assert answer is not None
            assert answer[0] == 429


def test_a_tenant_whose_requests_wait_does_not_keep_another_waiting(tmp_path: Path) -> None:
    with held_service(tmp_path) as held, ExitStack() as stack:
        other = _token(held.served, "zoe", "other")
        mine = [_token(held.served, name) for name in ("ann", "bea")]
        held.hold.set()
        first = stack.enter_context(held.served.connect())
        first.sendall(held.submit("first"))
        assert held.entered.wait(WAIT_S)
        connections = []
        for number, token in enumerate([*mine * 4, other]):
            team = "other" if token is other else "team"
            connection = stack.enter_context(held.served.connect())
            document = {"document": run_tree(f"run-{number}", team)}
            connection.sendall(held.head("POST /api/v1/runs", json.dumps(document).encode(), token))
            connections.append(connection)
            # One after another, so that they wait in this order.
            until(lambda: held.served.ledger_thread.waiting == len(connections), "it waits")
        held.let_go.set()
        for connection in connections:
            assert b" 200 OK" in connection.recv(65_536)
        with held.served.client(held.served.token) as admin:
            lines = admin.get("/api/v1/ledger/events?limit=1000").json()
        told = json.dumps(lines)
        order = [told.index(f'"run-{number}"') for number in range(9)]
        assert sorted(order).index(order[8]) <= 1, "the other tenant has its turn"
        assert order[0] < order[2] < order[4] < order[6], "one caller's come in their order"
