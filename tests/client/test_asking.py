"""Both clients with a real server: what they send, repeat and give up."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

import quorate
from quorate import AsyncClient, Client
from quorate.client.errors import (
    BusyError,
    NotListeningError,
    NotQuorateError,
    RefusedError,
    UnknownHostError,
    UnreachableError,
    UntrustedError,
    WaitedTooLongError,
)
from quorate.client.retrying import Retrying
from quorate.client.run_document import NoFlavorError
from quorate.operations.fleet.observe_operations import LINES_MAX
from tests.client.scripted import Act, gives, hangs_up, page, refuses, serving
from tests.service.program import reserved_port

pytestmark = pytest.mark.slow

TOKEN = "secret"  # noqa: S105 - of nobody
QUICK = Retrying(tries=4, wait_s_min=0.001, wait_s_max=0.002)
OUTCOME = {
    "dryRun": False,
    "changes": [{"kind": "Run", "name": "train-1", "change": "submitted"}],
    "warnings": [],
    "events": [],
    "head": None,
}
EMPTY: dict[str, Any] = {"apiVersion": "quorate.dev/v1", "kind": "List", "items": []}
Use = Callable[[str], Any]


def _thing(name: str, **status: str) -> dict[str, Any]:
    return {"apiVersion": "v", "kind": "K", "metadata": {"name": name}, "status": status}


def _both(do: Callable[[Any], Any]) -> list[Use]:
    """Return the results of ``do`` with each of the clients, at an address."""

    def sync(url: str) -> Any:
        with Client(url, token=TOKEN, retrying=QUICK) as client:
            return do(client)

    async def use(url: str) -> Any:
        async with AsyncClient(url, token=TOKEN, retrying=QUICK) as client:
            found = do(client)
            assert isinstance(found, Coroutine)
            return await found

    return [sync, lambda url: asyncio.run(use(url))]


LIST = _both(lambda client: client.list_runs(limit=3))
SUBMIT = _both(lambda client: client.submit({"kind": "Run"}))
MATCHED = _both(lambda client: client.update_tenant("a", {"max_nodes": 1}, if_match="7"))
WAIT = _both(lambda client: client.run("train-1").wait(timeout_s=30))


@pytest.mark.parametrize("use", LIST)
def test_a_question_is_asked_with_the_token_and_the_name_of_the_client(use: Use) -> None:
    with serving(gives(EMPTY)) as server:
        assert use(server.url).items == ()
    (got,) = server.got
    assert (got.method, got.path, got.query) == ("GET", "/api/v1/runs", [("limit", "3")])
    assert got.headers["authorization"] == "Bearer secret"
    assert got.headers["user-agent"] == f"quorate/{quorate.__version__}"
    assert got.headers["accept"] == "application/json"


@pytest.mark.parametrize("use", LIST)
@pytest.mark.parametrize(
    "trouble",
    [
        hangs_up,
        refuses(503, "unavailable", "later"),
        refuses(429, "too-many-requests", "later", Retry_After="0"),
        page("bad gateway", 502),
    ],
)
def test_a_question_is_asked_again_until_it_is_answered(use: Use, trouble: Act) -> None:
    with serving(trouble, trouble, trouble, gives(EMPTY)) as server:
        assert use(server.url).items == ()
    assert len(server.got) == 4


@pytest.mark.parametrize("use", LIST)
def test_nobody_is_asked_for_ever(use: Use) -> None:
    with serving(refuses(503, "unavailable", "later")) as server, pytest.raises(BusyError):
        use(server.url)
    assert len(server.got) == QUICK.tries


@pytest.mark.parametrize("use", SUBMIT)
def test_a_submit_is_sent_again_under_the_same_key(use: Use) -> None:
    with serving(hangs_up, refuses(503, "unavailable", "later"), gives(OUTCOME)) as server:
        assert use(server.url).name == "train-1"
    keys = [got.headers["idempotency-key"] for got in server.got]
    assert len(keys) == 3
    assert len(set(keys)) == 1
    assert [got.json for got in server.got] == [{"document": {"kind": "Run"}}] * 3


def test_two_submits_have_two_keys_and_a_dry_run_has_none() -> None:
    with serving(gives(OUTCOME)) as server, Client(server.url) as client:
        client.submit({"kind": "Run"})
        client.submit({"kind": "Run"})
        client.submit({"kind": "Run"}, idempotency_key="mine")
        client.submit_run(document={"kind": "Run"}, dry_run=True)
    first, second, third, dry = server.got
    assert first.headers["idempotency-key"] != second.headers["idempotency-key"]
    assert third.headers["idempotency-key"] == "mine"
    assert "idempotency-key" not in dry.headers


@pytest.mark.parametrize("use", SUBMIT)
def test_a_refusal_by_quota_is_told_at_once(use: Use) -> None:
    with (
        serving(refuses(429, "max-nodes", "too many")) as server,
        pytest.raises(RefusedError, match="too many") as caught,
    ):
        use(server.url)
    assert caught.value.code == "max-nodes"
    assert len(server.got) == 1


@pytest.mark.parametrize("use", MATCHED)
def test_a_change_of_one_version_is_not_sent_again_when_it_may_have_been_made(use: Use) -> None:
    with (
        serving(hangs_up, gives(OUTCOME)) as server,
        pytest.raises(UnreachableError, match="closed the connection") as caught,
    ):
        use(server.url)
    assert caught.value.maybe_done
    assert len(server.got) == 1


@pytest.mark.parametrize("use", MATCHED)
def test_a_change_of_one_version_is_sent_again_when_the_service_was_busy(use: Use) -> None:
    with serving(refuses(503, "unavailable", "later"), gives(OUTCOME)) as server:
        use(server.url)
    assert [got.headers["if-match"] for got in server.got] == ["7", "7"]


@pytest.mark.parametrize("use", LIST)
def test_what_cannot_be_reached_says_why(use: Use) -> None:
    with (
        reserved_port() as port,
        pytest.raises(NotListeningError, match=r"nothing listens at .*quorate serve"),
    ):
        use(f"http://127.0.0.1:{port}")
    with pytest.raises(UnknownHostError, match=r"the host name in http://nowhere\.invalid"):
        use("http://nowhere.invalid:8414")
    with (
        serving(gives(EMPTY)) as server,
        pytest.raises(UntrustedError, match="does not speak TLS; use http://"),
    ):
        use(server.url.replace("http:", "https:"))


@pytest.mark.parametrize("use", LIST)
def test_what_is_not_quorate_is_found_out(use: Use) -> None:
    with (
        serving(page("<h1>Welcome</h1>")) as server,
        pytest.raises(NotQuorateError, match="not Quorate: HTTP status 200, text/html: <h1>"),
    ):
        use(server.url)
    assert len(server.got) == 1


def test_a_tenant_is_changed_as_administrators_write_it() -> None:
    changes = {
        "max_nodes": 250,
        "max_concurrent_allocations": 50,
        "gpu_hours_budget": 150000,
        "node_hours_budget": 500000,
    }

    async def use(url: str) -> None:
        async with AsyncClient(url) as client:
            await client.update_tenant("physics", changes)

    with serving(gives(OUTCOME)) as server:
        asyncio.run(use(server.url))
    (got,) = server.got
    assert (got.method, got.path, got.json) == ("PUT", "/api/v1/tenants/physics", changes)


@pytest.mark.parametrize(
    ("changes", "named", "text"),
    [
        ({"max_node": 1}, {}, "max_node: unknown field; known fields: max_nodes,"),
        ({"max_nodes": 1}, {"max_nodes": 2}, "max_nodes: is given twice"),
    ],
)
def test_a_wrong_field_is_named_before_anything_is_sent(
    changes: dict[str, Any], named: dict[str, Any], text: str
) -> None:
    with (
        serving(gives(OUTCOME)) as server,
        Client(server.url) as client,
        pytest.raises(TypeError, match=text),
    ):
        client.update_tenant("physics", changes, **named)
    assert server.got == []


def test_a_text_is_not_taken_for_a_list() -> None:
    with (
        serving(gives(EMPTY)) as server,
        Client(server.url) as client,
        pytest.raises(TypeError, match="names: give a list of strings"),
    ):
        client.list_runs(names="train")
    assert server.got == []


def test_a_run_is_submitted_by_what_it_is_to_do() -> None:
    with serving(gives(OUTCOME)) as server, Client(server.url) as client:
        run = client.submit(
            gpus=8,
            team="vision",
            flavor="H100",
            command=["python", "train.py"],
            duration="4h",
            env={"SEED": "1"},
        )
    assert repr(run) == "RunHandle('train-1')"
    document = server.got[0].json["document"]
    assert document["metadata"] == {"generateName": "train-"}
    assert document["spec"] == {
        "owner": "vision",
        "resources": {"gpuType": "H100", "totalGPUs": 8},
        "runtime": {"expectedDuration": "4h"},
        "command": ["python", "train.py"],
        "env": {"SEED": "1"},
    }


def test_the_only_flavor_need_not_be_named() -> None:
    fleet = EMPTY | {"items": [_thing("a", flavor="H100"), _thing("b", flavor="H100")]}
    with serving(gives(fleet), gives(OUTCOME)) as server, Client(server.url) as client:
        client.submit(gpus=8, team="vision", name="a")
    assert server.got[0].path == "/api/v1/domains"
    assert server.got[1].json["document"]["spec"]["resources"]["gpuType"] == "H100"
    mixed = EMPTY | {"items": [_thing("a", flavor="H100"), _thing("b", flavor="A100")]}
    with (
        serving(gives(mixed)) as server,
        Client(server.url) as client,
        pytest.raises(NoFlavorError, match="several flavors: A100, H100; name one"),
    ):
        client.submit(gpus=8, team="vision", name="a")
    assert len(server.got) == 1


def test_whose_run_it_is_need_not_be_said() -> None:
    with serving(gives(OUTCOME)) as server, Client(server.url) as client:
        client.submit(gpus=8, flavor="H100", command=["true"])
    assert "owner" not in server.got[0].json["document"]["spec"]


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ({"team": "a"}, "gpus: is missing"),
        ({"gpus": 8, "team": "a", "gpu": 1}, "gpu: unknown argument"),
        ({"gpus": 8, "team": "a", "flavor": "H", "command": "python x"}, "command: give a list"),
    ],
)
def test_what_a_run_lacks_is_named(said: dict[str, Any], text: str) -> None:
    with (
        serving(gives(OUTCOME)) as server,
        Client(server.url) as client,
        pytest.raises(TypeError, match=text),
    ):
        client.submit(**said)
    assert server.got == []


@pytest.mark.parametrize("use", WAIT)
def test_a_run_is_waited_for_until_it_is_over(use: Use) -> None:
    phases = [gives(_thing("train-1", phase=each)) for each in ("Pending", "Running", "Failed")]
    with serving(phases[0], hangs_up, *phases[1:]) as server:
        assert use(server.url).status == {"phase": "Failed"}
    assert len(server.got) == 4


def test_waiting_ends_when_it_was_to() -> None:
    with (
        serving(gives(_thing("train-1", phase="Pending"))) as server,
        Client(server.url) as client,
        pytest.raises(WaitedTooLongError, match=r"run 'train-1' is not over after 0\.01 s"),
    ):
        client.run("train-1").wait(timeout_s=0.01)


def _page(first: int, end: int, *, ended: bool) -> dict[str, Any]:
    lines = [
        {"number": n, "at": "", "node": "n", "rank": 0, "stream": "out", "text": f"line {n}"}
        for n in range(first, end)
    ]
    more = len(lines) == LINES_MAX
    return {"run": "a", "lines": lines, "next": end, "ended": ended, "more": more}


def _lines(first: int, end: int, *, ended: bool) -> Act:
    return gives(_page(first, end, ended=ended))


def _stream(*pages: dict[str, Any], whole: bool) -> Act:
    parts = [f"event: lines\ndata: {json.dumps(page)}\n\n".encode() for page in pages]
    return lambda stand: stand.stream(b": nothing yet\n\n", *parts, whole=whole)


def test_output_is_read_page_by_page() -> None:
    pages = [_lines(0, 1000, ended=False), _lines(1000, 1001, ended=False)]
    with serving(*pages) as server, Client(server.url) as client:
        assert len(list(client.run("a").logs())) == 1001
    assert [got.query for got in server.got] == [[], [("from", "1000")]]


def test_output_begins_with_its_last_lines() -> None:
    first, rest = _lines(7, 9, ended=False), _stream(_page(9, 10, ended=True), whole=True)
    with serving(first, rest) as server, Client(server.url) as client:
        found = [line.number for line in client.run("a").logs(follow=True, tail=2)]
    assert found == [7, 8, 9]
    assert [got.query for got in server.got] == [[("tail", "2")], [("from", "9")]]
    assert [got.path for got in server.got] == [
        "/api/v1/runs/a/logs",
        "/api/v1/runs/a/logs/watch",
    ]


def test_output_is_followed_to_its_end_though_its_stream_is_cut() -> None:
    """A broken connection's rest of a page is sent again: no line is lost or repeated."""
    acts = [
        _lines(7, 8, ended=False),
        _stream(_page(8, 10, ended=False), whole=False),
        _stream(whole=True),
        _stream(_page(10, 11, ended=True), _page(99, 100, ended=True), whole=True),
    ]

    async def use(url: str) -> list[int]:
        async with AsyncClient(url) as client:
            return [line.number async for line in client.run("a").logs(follow=True, from_=7)]

    with serving(*acts) as server:
        assert asyncio.run(use(server.url)) == [7, 8, 9, 10]
    assert [got.query for got in server.got] == [[("from", str(n))] for n in (7, 8, 10, 10)]


def test_pages_of_output_can_be_read_as_they_come() -> None:
    pages = [_page(0, 2, ended=False), _page(2, 2, ended=True)]
    with serving(_stream(*pages, whole=True)) as server, Client(server.url) as client:
        assert [page.next for page in client.watch_logs("a")] == [2, 2]
