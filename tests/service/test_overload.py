"""A service that is asked for more than it can do turns requests away unread, and goes on."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from time import monotonic, sleep

import pytest

from quorate.answers.exits import CommandError
from quorate.operations.caller import Caller
from quorate.service.admission import ANSWER_S_MAX, LIMIT_MAX, LIMIT_MIN, Admission
from tests.service.held import held_service
from tests.service.worlds import ADMIN, ALICE, run_tree

WAITING = 120


def _let_in(admission: Admission, caller: Caller, most: int) -> int:
    """Return how many requests of ``caller`` are let in at once, up to ``most``."""
    with ExitStack() as stack:
        for count in range(most):
            try:
                stack.enter_context(admission.taken(caller))
            except CommandError as error:
                assert error.fault == "unavailable"  # noqa: PT017 - how many, not whether
                return count
    return most


def test_fewer_are_let_in_when_answers_take_too_long_and_more_when_they_do_not() -> None:
    now = [0.0]
    admission = Admission(lambda: now[0])
    assert _let_in(admission, ALICE, 2 * LIMIT_MAX) == LIMIT_MAX
    for _ in range(1_000):
        with admission.taken(ALICE):
            now[0] += 2 * ANSWER_S_MAX
    assert _let_in(admission, ALICE, LIMIT_MAX) == LIMIT_MIN
    assert LIMIT_MIN < _let_in(admission, ALICE, LIMIT_MAX) < LIMIT_MAX
    assert _let_in(admission, ADMIN, LIMIT_MAX) == LIMIT_MAX


def test_a_request_that_fails_is_counted_no_more() -> None:
    admission = Admission()
    for _ in range(2 * LIMIT_MAX):
        with pytest.raises(ZeroDivisionError), admission.taken(ALICE):
            raise ZeroDivisionError
    assert admission.trouble == ""


def test_requests_beyond_what_is_answered_in_time_are_turned_away_unread(tmp_path: Path) -> None:
    with held_service(tmp_path) as held, ExitStack() as stack:
        with held.served.client(held.served.token) as admin:
            tokens = []
            for name in ("ann", "bea"):
                body = {"role": "user", "user": name, "tenant": "team"}
                tokens.append(admin.post("/api/v1/tokens", json=body).json()["token"]["secret"])
        held.hold.set()
        waiting = []
        for number in range(WAITING):
            connection = stack.enter_context(held.served.connect())
            document = json.dumps({"document": run_tree(f"run-{number}")}).encode()
            connection.sendall(held.head("POST /api/v1/runs", document, tokens[number % 2]))
            waiting.append(connection)
        assert held.entered.wait(10)
        sleep(ANSWER_S_MAX + 1.5)
        held.let_go.set()
        for connection in waiting:
            assert b" 200 OK" in connection.recv(65_536)
        # Each of these took too long: fewer are let in from now on.
        held.let_go.clear()
        held.entered.clear()
        late = []
        for number in range(LIMIT_MAX // 10 + WAITING):
            connection = stack.enter_context(held.served.connect())
            document = json.dumps({"document": run_tree(f"late-{number}")}).encode()
            connection.sendall(held.head("POST /api/v1/runs", document, tokens[number % 2]))
            late.append(connection)
        deadline = monotonic() + 20
        with held.served.client(None) as anybody, held.served.client(held.served.token) as admin:
            while anybody.get("/readyz").status_code == 200:
                assert monotonic() < deadline
                sleep(0.1)
            ready = anybody.get("/readyz")
            assert "requests are under way" in ready.json()["detail"]
            assert anybody.get("/healthz").status_code == 200
            late[-1].settimeout(10)
            answer = late[-1].recv(65_536)
            assert answer.startswith(b"HTTP/1.1 503 ")
            assert b"retry-after: 1" in answer
            # The connection is kept, and an admin is let in.
            late[-1].sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            assert late[-1].recv(65_536).startswith(b"HTTP/1.1 200 ")
            held.let_go.set()
            assert admin.get("/api/v1/whoami").status_code == 200
