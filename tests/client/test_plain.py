"""The HTTP client of the command line: only the standard library, with the clients' messages."""

from __future__ import annotations

import itertools
import socket
import subprocess
import sys
from collections.abc import Generator
from threading import Event

import pytest

import quorate
from quorate.client.asker import Asker
from quorate.client.drivers import Driver
from quorate.client.errors import (
    NotFoundError,
    NotListeningError,
    TimedOutError,
    UnknownHostError,
    UnreachableError,
    UntrustedError,
)
from quorate.client.flows import Read
from quorate.client.http_exchange import Exchange
from quorate.client.plain_http import PlainDriver, driver_for
from quorate.client.retrying import Retrying
from quorate.client.service_address import Place
from quorate.client.sync_runner import STREAM_SILENCE_S_MAX, Opened, Ticks
from quorate.operations.common_requests import Nothing
from quorate.operations.ledger.ledger_operations import WatchEvents
from quorate.operations.resources.resource_operations import ListThings
from quorate.operations.resources.run_operations import EndRun, SubmitRun
from tests.bounds import WAIT_S
from tests.client.scripted import Stand, gives, hangs_up, refuses, serving
from tests.service.program import reserved_port

QUICK = Retrying(tries=4, wait_s_min=0.001, wait_s_max=0.002)
TIMEOUT_S = 5.0


def _asker(url: str, *, timeout_s: float = TIMEOUT_S) -> Asker:
    place = Place(server=url, token="secret")  # noqa: S106 - of nobody
    return Asker(PlainDriver(place, timeout_s=timeout_s), QUICK)


def test_a_question_is_asked_as_the_clients_ask_it() -> None:
    with serving(gives({"items": []})) as server, _asker(f"{server.url}/at/some~place") as asker:
        asked = ListThings(names=("a b", "c&d=e/ü"), limit=3)
        assert asker.ask_json("list-nodes", asked) == {"items": []}
    (got,) = server.got
    assert (got.method, got.path) == ("GET", "/at/some~place/api/v1/nodes")
    assert got.query == [("names", "a b"), ("names", "c&d=e/ü"), ("limit", "3")]
    assert got.headers["authorization"] == "Bearer secret"
    assert got.headers["user-agent"] == f"quorate/{quorate.__version__}"
    assert got.headers["accept"] == "application/json"


def test_a_submit_is_sent_again_under_the_same_key() -> None:
    busy = refuses(503, "unavailable", "later")
    with serving(hangs_up, busy, gives({"changes": []})) as server, _asker(server.url) as asker:
        asker.ask_json("submit-run", SubmitRun(document={"kind": "Run"}))
    keys = {got.headers["idempotency-key"] for got in server.got}
    assert (len(server.got), len(keys)) == (3, 1)
    assert [got.json for got in server.got] == [{"document": {"kind": "Run"}}] * 3


def test_one_connection_serves_until_the_service_hangs_up() -> None:
    def last(stand: Stand) -> None:
        stand.send(200, b"{}")
        stand.handler.close_connection = True

    with serving(gives({}), last, gives({})) as server, _asker(server.url) as asker:
        for _ in range(4):
            assert asker.ask_json("cancel-run", EndRun(run="a")) == {}
    assert len(server.got) == 4


def test_what_cannot_be_reached_says_why() -> None:
    with (
        reserved_port() as port,
        _asker(f"http://127.0.0.1:{port}") as asker,
        pytest.raises(NotListeningError, match=r"nothing listens at .*quorate serve"),
    ):
        asker.ask_json("whoami", Nothing())
    with (
        _asker("http://nowhere.invalid:8414") as asker,
        pytest.raises(UnknownHostError, match=r"the host name in http://nowhere\.invalid"),
    ):
        asker.ask_json("whoami", Nothing())
    with (
        serving(gives({})) as server,
        _asker(server.url.replace("http:", "https:")) as asker,
        pytest.raises(UntrustedError, match="does not speak TLS; use http://"),
    ):
        asker.ask_json("whoami", Nothing())


def test_an_answer_that_does_not_come_may_have_been_done() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with (
            _asker(url, timeout_s=0.05) as asker,
            pytest.raises(TimedOutError, match="did not answer within") as late,
        ):
            asker.ask_json("whoami", Nothing())
    assert late.value.maybe_done
    with (
        serving(hangs_up) as server,
        _asker(server.url) as asker,
        pytest.raises(
            UnreachableError, match="closed the connection or does not speak HTTP"
        ) as cut,
    ):
        asker.ask_json("whoami", Nothing())
    assert cut.value.maybe_done
    assert len(server.got) == QUICK.tries


def test_lines_come_as_they_are_written_and_a_cut_is_not_their_end() -> None:
    def whole(stand: Stand) -> None:
        stand.stream(b'{"a":1}\n{"b"', b":2}\n", whole=True)

    def cut(stand: Stand) -> None:
        stand.stream(b'{"a":1}\n', whole=False)

    with serving(whole) as server, _asker(server.url) as asker:
        assert list(asker.ask_lines("export-ledger", Nothing())) == ['{"a":1}\n', '{"b":2}\n']
    with serving(cut) as server, _asker(server.url) as asker:
        lines = asker.ask_lines("export-ledger", Nothing())
        assert next(lines) == '{"a":1}\n'
        with pytest.raises(UnreachableError, match="closed the connection"):
            next(lines)
    with serving(refuses(404, "unknown-name", "none")) as server, _asker(server.url) as asker:
        with pytest.raises(NotFoundError, match="none"):
            next(asker.ask_lines("export-ledger", Nothing()))
        with pytest.raises(NotFoundError, match="none"):
            asker.ask_json("whoami", Nothing())


def test_a_body_shorter_than_announced_is_not_its_end() -> None:
    def short(stand: Stand) -> None:
        stand.handler.send_response(200)
        stand.handler.send_header("Content-Type", "application/x-ndjson")
        stand.handler.send_header("Content-Length", "100")
        stand.handler.end_headers()
        stand.handler.wfile.write(b'{"a":1}\n')
        stand.hang_up()

    with serving(short) as server, _asker(server.url) as asker:
        lines = asker.ask_lines("export-ledger", Nothing())
        assert next(lines) == '{"a":1}\n'
        with pytest.raises(UnreachableError, match="closed the connection"):
            next(lines)


@pytest.mark.parametrize(
    ("environ", "kind"),
    [
        ({}, PlainDriver),
        ({"NO_PROXY": "*", "https_proxy": ""}, PlainDriver),
        ({"https_proxy": "http://127.0.0.1:1"}, Driver),
        ({"ALL_PROXY": "http://127.0.0.1:1"}, Driver),
    ],
)
def test_a_proxy_is_asked_by_httpx(environ: dict[str, str], kind: type) -> None:
    driver = driver_for(Place(server="http://a:1"), timeout_s=TIMEOUT_S, environ=environ)
    driver.close()
    assert type(driver) is kind


def _message(*sequences: int) -> bytes:
    return b"".join(b'id: %d\ndata: {"seq":%d,"tag":"t/1"}\n\n' % (seq, seq) for seq in sequences)


@pytest.mark.parametrize("kind", [PlainDriver, Driver])
def test_a_watch_ticks_after_events_that_came_together(kind: type[PlainDriver | Driver]) -> None:
    seen = Event()

    def held(stand: Stand) -> None:
        def wait() -> None:
            assert seen.wait(WAIT_S)

        stand.stream(_message(1, 2), _message(3), whole=False, between=wait)

    def later(stand: Stand) -> None:
        stand.stream(_message(3, 4), whole=False)

    with serving(held, later) as server:
        driver = kind(Place(server=server.url), timeout_s=TIMEOUT_S)
        with Asker(driver, QUICK) as asker:
            events = asker.events(WatchEvents(first=1), tick_s=0.01)
            first = list(itertools.islice((each for each in events if each), 2))
            assert [each.seq for each in first] == [1, 2]
            if kind is PlainDriver:
                # The third event is sent after this, so no other event can be next.
                assert [next(events), next(events), next(events)] == [None, None, None]
            seen.set()
            rest = list(itertools.islice((each for each in events if each), 2))
            assert [each.seq for each in rest] == [3, 4]
            # The stream broke after the third event and was resumed there.
            assert next(events) is None
            assert isinstance(events, Generator)
            events.close()
    assert [dict(got.query)["from"] for got in server.got[:2]] == ["1", "4"]


def test_a_stream_that_says_nothing_for_too_long_is_late() -> None:
    opened = Opened(chunks=iter(()), is_ready=lambda _: False)
    clock = itertools.count(0.0, STREAM_SILENCE_S_MAX / 4)
    ticks = Ticks(1.0, now_s=lambda: next(clock))
    waited = ticks.before(Read(), opened)
    with pytest.raises(TimeoutError, match="was silent for 60 s"):
        list(waited)
    assert list(Ticks(None).before(Read(), opened)) == []


def test_what_one_read_has_left_is_known_without_waiting() -> None:
    seen = Event()

    def held(stand: Stand) -> None:
        parts = (b"one\n", b"two\n", b"three\n")
        stand.stream(*parts, whole=True, between=lambda: seen.wait(WAIT_S))

    with serving(held) as server:
        host, port = server.server.server_address[:2]
        exchange = Exchange(str(host), port, tls=None, timeout_s=TIMEOUT_S)
        assert exchange.is_ready(0.0)  # Reading on raises the error.
        exchange.connect()
        try:
            body = exchange.ask("GET", "/", {}, None).body
            assert exchange.is_ready(WAIT_S)
            assert next(body) == b"one\n"
            assert not exchange.is_ready(0.0)
            seen.set()
            assert exchange.is_ready(WAIT_S)
            assert list(body) == [b"two\n", b"three\n"]
        finally:
            exchange.close()


@pytest.mark.heavy
def test_telling_why_a_service_refused_imports_nothing_that_decides() -> None:
    heavy = ("quorate.calc", "quorate.core", "quorate.loop", "quorate.policy", "sqlite3")
    found = f"print(*({set(heavy)} & {{*sys.modules}}))"
    code = (
        "import sys; from quorate.cli.service_errors import command_error; "
        "from quorate.client.errors import RefusedError; "
        f"command_error(RefusedError(status=404, code='unknown-name', lines=('no',))); {found}"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60
    )
    assert done.stdout == "\n"


@pytest.mark.heavy
def test_who_asks_a_service_imports_nothing_that_decides() -> None:
    heavy = (
        "asyncio",
        "httpx",
        "yaml",
        "quorate.core",
        "quorate.loop",
        "quorate.documents",
        "sqlite3",
    )
    found = f"print(*({set(heavy)} & {{*sys.modules}}))"
    modules = "commands.get_command", "commands.watch_command", "live.watching_service", "remote"
    imports = "; ".join(f"import quorate.cli.{each}" for each in modules)
    code = f"import sys; {imports}; {found}"
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60
    )
    assert done.stdout == "\n"
