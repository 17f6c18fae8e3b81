"""A service with more requests than it can handle rejects some of them unread, and continues."""

from __future__ import annotations

import asyncio
import json
import re
import select
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from socket import socket
from threading import Event, Thread
from time import monotonic, sleep

import pytest

from quorate.operations.caller import Caller, Role
from quorate.service.http.shedding import Shedding
from quorate.service.limits.overload_limit import (
    ANSWER_S_MAX,
    FORGET_S,
    INTERVAL_S,
    INTERVALS,
    LIMIT_FIRST,
    LIMIT_MAX,
    LIMIT_MIN,
    WAITING_MIN,
    Admission,
)
from quorate.service.limits.tenant_shares import OF_ONE_PART, OF_TENANT_PART
from quorate.views.exits import CommandError, Exit
from tests.bounds import WAIT_S, until
from tests.service.held import Held, held_service
from tests.service.serving import Served
from tests.service.worlds import ADMIN, ALICE, run_tree

CROWD = [
    Caller(actor=f"t{n}/u", role=Role.USER, user="u", tenant=f"t{n}")
    for n in range(8 * OF_ONE_PART)
]
"""Users of so many tenants that no tenant exceeds its share."""


def _let_in(
    admission: Admission, most: int, callers: Sequence[Caller] = CROWD, fault: str = "unavailable"
) -> int:
    """Return how many requests of ``callers`` are admitted at once, up to ``most``."""
    with ExitStack() as stack:
        for count in range(most):
            try:
                stack.enter_context(admission.taken(callers[count % len(callers)]))
            except CommandError as error:
                assert error.fault == fault  # noqa: PT017 - how many, not whether
                return count
    return most


class Queue:
    """Requests that are under way at ``admission`` all the time, and are answered one by one."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.admission = Admission(lambda: self.now_s)
        self._open: deque[ExitStack] = deque()
        self._sent = 0

    def fill(self, length: int, callers: Sequence[Caller] = CROWD) -> None:
        """Admit ``length`` requests; raise an error if one of them is rejected."""
        while len(self._open) < length:
            stack = ExitStack()
            self._sent += 1
            stack.enter_context(self.admission.taken(callers[self._sent % len(callers)]))
            self._open.append(stack)

    def answer(self, requests: int, per_s: float) -> None:
        """Answer ``requests`` requests at this rate, and admit another one after each."""
        length = len(self._open)
        for _ in range(requests):
            self.now_s += 1 / per_s
            self._open.popleft().close()
            self.fill(length)

    def shrunk(self) -> int:
        """Return how many requests are under way after one more is admitted at the same time."""
        while self.admission.trouble:
            self._open.popleft().close()
        return len(self._open)

    def end(self) -> None:
        """Answer all requests."""
        while self._open:
            self._open.popleft().close()


@pytest.mark.parametrize("per_s", [1.0, 20.0])
def test_up_to_the_least_limit_nothing_is_turned_away_however_slow(per_s: float) -> None:
    queue = Queue()
    queue.fill(LIMIT_MIN)
    queue.answer(1_000, per_s)


def test_one_long_commit_turns_nothing_away() -> None:
    queue = Queue()
    queue.fill(LIMIT_FIRST)
    queue.answer(2_000, per_s=1_000)
    queue.now_s += 20.0
    queue.answer(4_000, per_s=1_000)


def test_a_queue_that_lasts_is_held_at_what_is_answered_in_time() -> None:
    queue = Queue()
    queue.fill(LIMIT_FIRST)
    began_s = queue.now_s
    with pytest.raises(CommandError) as refused:
        queue.answer(2_000, per_s=200)
    assert refused.value.fault == "unavailable"
    assert queue.now_s - began_s >= INTERVALS * INTERVAL_S
    assert queue.shrunk() == pytest.approx(200 * ANSWER_S_MAX, rel=0.05)
    # Admins are always admitted.
    queue.fill(LIMIT_FIRST // 2, [ADMIN])
    assert _let_in(queue.admission, 1) == 0


def test_the_limit_rises_while_answers_are_in_time_and_is_forgotten_with_the_queue() -> None:
    queue = Queue()
    queue.fill(LIMIT_FIRST)
    with pytest.raises(CommandError):
        queue.answer(2_000, per_s=100)
    before = queue.shrunk()
    queue.answer(3_500, per_s=150)
    assert before < before + _let_in(queue.admission, LIMIT_FIRST) < LIMIT_FIRST
    queue.end()
    assert _let_in(queue.admission, 2 * LIMIT_FIRST) < LIMIT_FIRST
    queue.now_s += FORGET_S
    assert _let_in(queue.admission, 2 * LIMIT_FIRST) == LIMIT_FIRST


def test_more_are_let_in_while_many_are_answered_in_time() -> None:
    queue = Queue()
    queue.fill(LIMIT_FIRST)
    queue.answer(10_000, per_s=2_000)
    assert LIMIT_FIRST < LIMIT_FIRST + _let_in(queue.admission, LIMIT_MAX) <= LIMIT_MAX


def test_of_what_is_let_in_one_tenant_has_half_and_one_caller_a_fourth() -> None:
    queue = Queue()
    users = [
        Caller(actor=f"team/u{n}", role=Role.USER, user=f"u{n}", tenant="team")
        for n in range(OF_ONE_PART)
    ]
    fault = "too-many-requests"
    let_in = _let_in(queue.admission, LIMIT_FIRST, users, fault)
    assert let_in == LIMIT_FIRST // OF_TENANT_PART
    let_in = _let_in(queue.admission, LIMIT_FIRST, users[:1], fault)
    assert let_in == LIMIT_FIRST // OF_ONE_PART
    # The limit has changed, and open requests count against the new limit.
    queue.fill(LIMIT_FIRST)
    with pytest.raises(CommandError):
        queue.answer(2_000, per_s=1)
    queue.end()
    assert _let_in(queue.admission, LIMIT_FIRST, users, fault) == LIMIT_MIN // OF_TENANT_PART


def test_a_burst_of_one_tenant_leaves_places_to_another(tmp_path: Path) -> None:
    with held_service(tmp_path) as held, ExitStack() as stack:
        burst, other = _submits(held, ["team"]), _submits(held, ["other"])
        held.hold.set()
        connections = []
        for number in range(LIMIT_FIRST + 2 * WAITING_MIN):
            connection = stack.enter_context(held.served.connect())
            connection.settimeout(WAIT_S)
            connection.sendall(burst(number))
            connections.append(connection)
        assert held.entered.wait(WAIT_S)
        of_tenant = LIMIT_FIRST // OF_TENANT_PART
        turned_away = len(connections) - of_tenant
        until(lambda: len(_answered(connections)) >= turned_away, "the rest is turned away")
        late = stack.enter_context(held.served.connect())
        late.settimeout(WAIT_S)
        late.sendall(other(10**6))
        held.let_go.set()
        assert late.recv(65_536).startswith(b"HTTP/1.1 200 ")
        statuses = Counter(each.recv(65_536).split(b" ", 2)[1] for each in connections)
        assert statuses == {b"200": of_tenant, b"429": turned_away}


def _answered(connections: Sequence[socket]) -> list[int]:
    """Return the descriptors of the connections on which an answer has arrived."""
    polled = select.poll()
    for each in connections:
        polled.register(each, select.POLLIN)
    return [descriptor for descriptor, _ in polled.poll(0)]


def test_a_request_that_fails_is_counted_no_more() -> None:
    admission = Admission()
    for _ in range(2 * LIMIT_FIRST):
        with pytest.raises(ZeroDivisionError), admission.taken(ALICE):
            raise ZeroDivisionError
    assert admission.trouble == ""


def test_a_refusal_is_an_answer_and_a_request_that_is_cancelled_has_none() -> None:
    limits = []
    for error in (CommandError(Exit.REFUSED, "no"), asyncio.CancelledError()):
        queue = Queue()
        queue.fill(WAITING_MIN + 1)
        for _ in range(2_100):
            queue.now_s += 0.001
            with suppress(type(error)), queue.admission.taken(ALICE):
                raise error
        limits.append(WAITING_MIN + 1 + _let_in(queue.admission, LIMIT_MAX))
    assert limits == [pytest.approx(1_000 * ANSWER_S_MAX, rel=0.05), LIMIT_FIRST]


@pytest.mark.parametrize(
    ("request_line", "is_shed"),
    [
        ("POST /api/v1/runs", True),
        ("POST /api/v1/runs?wide=true", True),
        ("POST /api/v1/plan/more", True),
        ("DELETE /api/v1/plan", True),
        ("POST /api/v1/plan", False),
        ("POST /api/v1/plan?wide=true", False),
        ("POST /api/v1/calc/rounds", False),
        ("POST /api/v1/ledger/verification", False),
        ("GET /api/v1/runs", False),
    ],
)
def test_reads_are_not_turned_away_unread_by_whatever_method(
    request_line: str, *, is_shed: bool
) -> None:
    queue = Queue()
    shedding = Shedding(queue.admission, lambda _: ALICE)
    method, url = request_line.encode().split()
    headers = [(b"authorization", b"Bearer q_id_secret"), (b"content-length", b"2")]
    assert shedding.answer_to(method, url, headers) is None
    queue.fill(LIMIT_FIRST)
    answer = shedding.answer_to(method, url, headers)
    assert (answer is not None and answer.startswith(b"HTTP/1.1 503 ")) is is_shed


WHOLE = (
    b"POST /api/v1/runs HTTP/1.1\r\nHost: q\r\nAuthorization: Bearer qt_id_secret\r\n"
    b"Content-Length: 2\r\n\r\n{}"
)


@pytest.mark.parametrize(
    ("old", "new", "is_rejected"),
    [
        (b"", b"", True),
        (b"Content-Length: 2", b"content-length:2", True),
        (b"Content-Length: 2\r\n\r\n{}", b"X: y\r\n\r\n", True),
        (b"POST /api/v1/runs ", b"POST /api/v1/plan ", False),
        (b"POST", b"GET", False),
        (b"{}", b"{", False),
        (b"{}", b"{}P", False),
        (b"\r\n\r\n{}", b"\r\n", False),
        (b"Content-Length: 2", b"Content-Length: 2\r\nContent-Length: 2", False),
        (b"Content-Length: 2", b"Transfer-Encoding: chunked", False),
        (b"Host: q", b"Host: q\r\nconnection: close", False),
        (b"Host: q", b"Host: q\r\nExpect: 100-continue", False),
        (b"Bearer qt_id_secret", b"Bearer eyJ.a.b", False),
        (b"HTTP/1.1", b"HTTP/1.0", False),
    ],
)
def test_a_whole_plain_request_is_rejected_as_it_came(
    old: bytes, new: bytes, *, is_rejected: bool
) -> None:
    queue = Queue()
    shedding = Shedding(queue.admission, {"id": ALICE}.get)
    data = WHOLE.replace(old, new, 1) if old else WHOLE
    assert shedding.answer_to_whole(data) is None
    queue.fill(LIMIT_FIRST)
    assert shedding.is_full
    assert (shedding.answer_to_whole(data) is not None) is is_rejected
    admins = Shedding(queue.admission, {"id": ADMIN}.get)
    assert admins.answer_to_whole(data) is None


def test_requests_that_have_come_take_places_before_they_are_taken() -> None:
    admission = Admission()
    overs = [admission.coming(f"t{n % 4}") for n in range(LIMIT_FIRST - 1)]
    assert admission.unread_refusal(ALICE) is None
    overs.append(admission.coming("t3"))
    assert admission.unread_refusal(ALICE) is not None
    assert admission.unread_refusal(ADMIN) is None
    # A request that has arrived counts for its place.
    for over in overs[:2]:
        over()
        over()
    with admission.taken(ALICE):
        assert admission.unread_refusal(ALICE) is None
        overs.append(admission.coming("t0"))
        assert admission.unread_refusal(ALICE) is not None
    for over in overs:
        over()
    assert not admission.is_full
    assert _let_in(admission, 2 * LIMIT_FIRST) == LIMIT_FIRST


def test_what_comes_beyond_the_share_of_one_tenant_takes_no_place() -> None:
    admission = Admission()
    overs = [admission.coming("burst") for _ in range(4 * LIMIT_FIRST)]
    assert admission.unread_refusal(ALICE) is None
    overs += [admission.coming("other") for _ in range(LIMIT_FIRST)]
    assert admission.unread_refusal(ALICE) is not None
    for over in overs:
        over()
    assert not admission.is_crowded


@pytest.mark.parametrize(
    ("authorization", "are_counted"),
    [
        ([], False),
        ([(b"authorization", b"Bearer qt_invented_secret")], False),
        ([(b"authorization", b"Bearer qt_id_secret")], True),
        ([(b"authorization", b"Bearer eyJ.a.b")], True),
    ],
)
def test_requests_that_will_be_refused_take_no_place_before(
    authorization: list[tuple[bytes, bytes]], *, are_counted: bool
) -> None:
    admission = Admission()
    shedding = Shedding(admission, {"id": ALICE}.get)
    overs = [shedding.coming(authorization) for _ in range(LIMIT_FIRST)]
    assert admission.is_crowded is are_counted
    for over in overs:
        over()
        over()
    assert not admission.is_crowded


def test_a_rejected_connection_is_kept_and_serves_again(tmp_path: Path) -> None:
    with held_service(tmp_path) as held, ExitStack() as stack:
        submit = _submits(held, [f"t{n}" for n in range(OF_ONE_PART)])
        held.hold.set()
        crowd = []
        for number in range(LIMIT_FIRST):
            connection = stack.enter_context(held.served.connect())
            connection.settimeout(WAIT_S)
            connection.sendall(submit(number))
            crowd.append(connection)
        assert held.entered.wait(WAIT_S)
        until(lambda: held.served.ledger_thread.admission.is_full, "there is no place left")
        late = stack.enter_context(held.served.connect())
        late.settimeout(WAIT_S)
        for _ in range(3):
            late.sendall(submit(10**6))
            assert late.recv(65_536).startswith(b"HTTP/1.1 503 ")
        # A request in two parts goes through the parser, with the same result.
        late.sendall(submit(10**6)[:40])
        late.sendall(submit(10**6)[40:])
        assert late.recv(65_536).startswith(b"HTTP/1.1 503 ")
        held.let_go.set()
        assert all(each.recv(65_536).startswith(b"HTTP/1.1 200 ") for each in crowd)
        late.sendall(submit(10**6))
        assert late.recv(65_536).startswith(b"HTTP/1.1 200 ")


def test_bodies_that_are_sent_slowly_shut_out_no_writes(tmp_path: Path) -> None:
    with held_service(tmp_path) as held, ExitStack() as stack:
        submit = _submits(held)

        def half_sent(count: int) -> None:
            for number in range(count):
                connection = stack.enter_context(held.served.connect())
                connection.sendall(submit(number)[:-1])

        half_sent(2 * WAITING_MIN)
        user = stack.enter_context(held.served.client(_token_of(submit(1))))
        end_s = monotonic() + (INTERVALS + 0.5) * INTERVAL_S
        # Few writes are answered in this time, because there are few.
        for number in range(1_000):
            if monotonic() >= end_s:
                break
            body = {"document": run_tree(f"run-{number}")}
            assert user.post("/api/v1/runs", json=body).status_code == 200
            sleep(0.05)
        half_sent(LIMIT_MIN)
        body = {"document": run_tree("last")}
        assert user.post("/api/v1/runs", json=body).status_code == 200
        assert _is_ready(held)


class Clients:
    """Callers that each submit a run when the previous one is answered, on one connection each."""

    def __init__(self, served: Served, requests: Callable[[int], bytes]) -> None:
        assert served.address is not None
        self._address = served.address
        self._requests = requests
        self.statuses: Counter[int] = Counter()
        self._stop = Event()

    @contextmanager
    def asking(self, clients: int, seconds: float) -> Iterator[None]:
        """Let ``clients`` clients submit during the block, for ``seconds`` at most."""
        thread = Thread(target=asyncio.run, args=(self._all(clients, seconds),), daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
            thread.join(WAIT_S)
            assert not thread.is_alive()

    async def _all(self, clients: int, seconds: float) -> None:
        async with asyncio.timeout(seconds + WAIT_S), asyncio.TaskGroup() as tasks:
            for number in range(clients):
                tasks.create_task(self._one(number, clients, monotonic() + seconds))

    async def _one(self, number: int, clients: int, end_s: float) -> None:
        reader, writer = await asyncio.open_connection(self._address.host, self._address.port)
        while monotonic() < end_s and not self._stop.is_set():
            writer.write(self._requests(number))
            head = await reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"content-length: (\d+)", head)
            assert length is not None, head
            await reader.readexactly(int(length[1]))
            self.statuses[int(head.split(b" ", 2)[1])] += 1
            number += clients
            if not head.startswith(b"HTTP/1.1 200 "):
                await asyncio.sleep(0.2)
        writer.close()


def _submits(held: Held, tenants: Sequence[str] = ("team",)) -> Callable[[int], bytes]:
    """Return the submit of a run by its number, by two users of each tenant in turn."""
    holders = []
    with held.served.client(held.served.token) as admin:
        for tenant in tenants:
            assert admin.post("/api/v1/tenants", json={"id": tenant}).status_code in (200, 409)
            for name in ("ann", "bea"):
                body = {"role": "user", "user": name, "tenant": tenant}
                token = admin.post("/api/v1/tokens", json=body).json()["token"]["secret"]
                holders.append((tenant, token))

    def submit(number: int) -> bytes:
        tenant, token = holders[number % len(holders)]
        document = json.dumps({"document": run_tree(f"run-{number}", tenant)}).encode()
        return held.head("POST /api/v1/runs", document, token)

    return submit


@pytest.mark.parametrize(
    "append_s", [0.0, pytest.param(1.1 * ANSWER_S_MAX, marks=pytest.mark.slow)]
)
def test_eight_clients_who_wait_for_their_answers_are_never_turned_away(
    tmp_path: Path, append_s: float
) -> None:
    with held_service(tmp_path) as held:
        clients = Clients(held.served, _submits(held))
        held.slow_down(append_s)
        with clients.asking(8, seconds=60):
            until(lambda: clients.statuses.total() >= 8 * 4, "as many answers as four of each")
        held.slow_down(0.0)
    assert set(clients.statuses) == {200}


@pytest.mark.soak
@pytest.mark.slow
def test_requests_beyond_what_is_answered_in_time_are_turned_away_unread(tmp_path: Path) -> None:
    with held_service(tmp_path) as held:
        submit = _submits(held, ["team", "b", "c", "d"])
        clients = Clients(held.served, submit)
        held.slow_down(1.1 * ANSWER_S_MAX)
        with clients.asking(LIMIT_MIN + 80, seconds=120), ExitStack() as stack:
            # No request is rejected before the queue has existed for some time.
            until(lambda: clients.statuses[503], "some are turned away")
            assert clients.statuses[200] > LIMIT_MIN
            held.hold.set()
            stack.callback(held.let_go.set)
            stack.callback(held.slow_down, 0.0)
            anybody = stack.enter_context(held.served.client(None))

            assert held.entered.wait(WAIT_S)
            admission = held.served.ledger_thread.admission
            trouble = until(lambda: admission.trouble, "there is no place left")
            assert "requests are under way" in trouble
            assert not _is_ready(held)
            assert anybody.get("/healthz").status_code == 200
            connection = stack.enter_context(held.served.connect())
            connection.settimeout(WAIT_S)
            connection.sendall(submit(10**6))
            answer = connection.recv(65_536)
            assert answer.startswith(b"HTTP/1.1 503 ")
            assert b"retry-after: 1" in answer
            # A read does not need the ledger thread.
            with held.served.client(_token_of(submit(1))) as user:
                assert user.get("/api/v1/whoami").status_code == 200
                assert user.get("/api/v1/runs?limit=1").status_code == 200
            # The connection is kept, and an admin is admitted.
            connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            assert connection.recv(65_536).startswith(b"HTTP/1.1 200 ")
            held.slow_down(0.0)
            held.let_go.set()
            with held.served.client(held.served.token) as admin:
                assert admin.get("/api/v1/whoami").status_code == 200
                scraped = admin.get("/metrics").text
                shed = re.search(r'quorate_requests_shed_total\{stage="unread"\} (\S+)', scraped)
                assert shed is not None, scraped
                assert float(shed[1]) >= 1
        until(lambda: _is_ready(held), "it is ready again")


def _token_of(request: bytes) -> str:
    """Return the access token in ``request``."""
    found = re.search(rb"Bearer (\S+)", request)
    assert found is not None, request
    return found[1].decode()


def _is_ready(held: Held) -> bool:
    """Return whether ``/readyz`` reports ready."""
    with held.served.client(None) as anybody:
        return anybody.get("/readyz").status_code == 200
