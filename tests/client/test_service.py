"""Both clients with a real service: each sees the other's changes, also after a restart."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from quorate import AsyncClient, Client
from quorate.client.errors import (
    ForbiddenError,
    InvalidError,
    NotFoundError,
    RefusedError,
    StaleVersionError,
    UnauthenticatedError,
)
from quorate.client.retrying import Retrying
from quorate.client.watched_events import Event
from quorate.documents import Invalid, parse_documents, render
from quorate.operations.service import service_operations
from tests.bounds import WAIT_S, until_async
from tests.cli.shell import EXAMPLES
from tests.client.running import Running, running
from tests.service.program import client as http_client
from tests.service.program import reserved_port

pytestmark = pytest.mark.slow  # Each test starts a service.

QUICK = Retrying(tries=300, wait_s_min=0.05, wait_s_max=0.5)
"""Short pauses between tries, for as long as the start of a service takes on a busy machine."""


def _documents(*names: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for name in names:
        parsed = parse_documents((EXAMPLES / f"{name}.yaml").read_bytes(), source=name)
        assert not isinstance(parsed, Invalid)
        found += [render(document.spec) for document in parsed.items]
    return found


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("service") / "quorate.db") as found:
        with Client(found.url, token=found.token) as client:
            client.apply(_documents("fleet", "teams"))
        yield found


@pytest.fixture
def client(service: Running) -> Iterator[Client]:
    with Client(service.url, token=service.token, retrying=QUICK) as found:
        yield found


def test_a_run_is_submitted_planned_explained_and_cancelled(client: Client) -> None:
    run = client.submit(gpus=8, team="rai", flavor="H100", command=["python", "train.py"])
    assert run.outcome is not None
    assert run.outcome.head is not None
    assert run.phase() == "Running"
    assert run.plan().phase == "Running"
    assert run.explain().refusal is None
    assert run.cancel("enough").events
    over = run.wait(timeout_s=WAIT_S)
    assert isinstance(over.status, dict)
    assert over.status["phase"] == "Cancelled"


def test_a_key_makes_a_submit_one(client: Client) -> None:
    document = _documents("share")[0] | {"metadata": {"name": "once"}}
    first = client.submit(document, idempotency_key="once")
    second = client.submit(document, idempotency_key="once")
    assert first.outcome is not None
    assert second.outcome is not None
    assert first.outcome.head == second.outcome.head
    with pytest.raises(InvalidError) as caught:
        client.submit(document | {"metadata": {"name": "twice"}}, idempotency_key="once")
    assert caught.value.code == "key-reused"
    first.cancel()


def test_refusals_are_the_errors_of_their_kind(client: Client, service: Running) -> None:
    with pytest.raises(NotFoundError, match="there is no run 'nope'"):
        client.get_run("nope")
    with pytest.raises(InvalidError, match=r"spec\.owner: is required"):
        client.submit({"apiVersion": "quorate.dev/v1", "kind": "Run", "metadata": {"name": "a"}})
    with pytest.raises(RefusedError) as caught:
        client.run("nope").logs().__next__()
    assert caught.value.code == "unknown-name"
    with Client(service.url) as nobody, pytest.raises(UnauthenticatedError):
        nobody.list_runs()
    issued = client.issue_token("user", "ann", tenant="rai").token
    assert isinstance(issued, service_operations.Token)
    assert isinstance(issued.secret, str)
    with Client(service.url, token=issued.secret) as ann:
        assert ann.whoami().user == "ann"
        with pytest.raises(ForbiddenError, match="create-tenant: not for a user"):
            ann.create_tenant("mine")


def test_one_of_two_changes_of_a_version_wins(client: Client) -> None:
    client.create_tenant("physics", max_nodes=1)
    found = client.get_tenant("physics")
    assert isinstance(found.status, dict)
    version = str(found.status["version"])
    client.update_tenant("physics", {"max_nodes": 250}, if_match=version)
    with pytest.raises(StaleVersionError):
        client.update_tenant("physics", {"max_nodes": 3}, if_match=version)
    assert client.tenant_usage("physics", 90).status.period_days == 90
    assert client.user_usage("alice", 90).items == ()


def test_a_list_is_read_page_by_page_until_there_is_no_next_one(
    client: Client, service: Running
) -> None:
    whole = [node.name for node in client.list_nodes().items]
    size = (len(whole) + 2) // 3

    def paged() -> list[list[str]]:
        pages: list[list[str]] = []
        cursor: str | None = None
        while True:
            page = client.list_nodes(limit=size, cursor=cursor)
            pages.append([node.name for node in page.items])
            cursor = page.next
            if cursor is None:
                return pages

    async def paged_async() -> list[list[str]]:
        pages: list[list[str]] = []
        cursor: str | None = None
        async with AsyncClient(service.url, token=service.token) as asking:
            while True:
                page = await asking.list_nodes(limit=size, cursor=cursor)
                pages.append([node.name for node in page.items])
                cursor = page.next
                if cursor is None:
                    return pages

    found = paged()
    assert len(found) == 3
    assert [name for page in found for name in page] == whole
    assert asyncio.run(paged_async()) == found
    for number in range(2):
        client.issue_token("user", f"paged-{number}", tenant="rai")
    first = client.list_tokens(limit=1)
    assert first.next is not None
    assert client.list_tokens(cursor=first.next).next is None


def test_an_export_is_every_block(client: Client) -> None:
    blocks = list(client.export_ledger())
    assert [block.height for block in blocks] == list(range(1, len(blocks) + 1))
    assert blocks[0].events[0].tag.startswith("ledger-opened")
    page = client.list_events(first=1, limit=3)
    assert ([event.seq for event in page.items], page.next) == ([1, 2, 3], 4)


def test_events_are_watched_from_a_sequence_on(client: Client) -> None:
    client.create_tenant("watched")
    found = list(islice(client.watch(1), 5))
    assert [event.seq for event in found] == [1, 2, 3, 4, 5]
    assert found[0].tag.startswith("ledger-opened/")
    assert found[0].tree()["seq"] == 1


async def _collect(client: AsyncClient, count: int, seen: list[Event]) -> None:
    async for event in client.watch():
        seen.append(event)
        if len(seen) == count:
            return


def test_a_watch_goes_on_over_a_restart_without_gap_or_repeat(tmp_path: Path) -> None:
    ledger = tmp_path / "quorate.db"

    async def work(first: Running, seen: list[Event]) -> None:
        async with AsyncClient(first.url, token=first.token, retrying=QUICK) as client:
            watching = asyncio.create_task(_collect(client, 6, seen))
            with http_client(first.url, first.token) as admin:
                await until_async(
                    lambda: "\nquorate_watchers 1.0\n" in admin.get("/metrics").text,
                    "the watch has begun",
                )
            for name in ("a", "b", "c"):
                await client.create_tenant(name)
            await restart()
            for name in ("d", "e", "f"):
                await client.create_tenant(name)
            await asyncio.wait_for(watching, 60)

    with reserved_port() as port, ExitStack() as stack:
        first = stack.enter_context(running(ledger, port=port))

        async def restart() -> None:
            await asyncio.to_thread(stack.close)
            await asyncio.to_thread(
                lambda: stack.enter_context(running(ledger, port=port, token=first.token))
            )

        seen: list[Event] = []
        asyncio.run(work(first, seen))
    assert [event.fields["owner"]["name"] for event in seen] == list("abcdef")
    sequences = [event.seq for event in seen]
    assert sequences == sorted(set(sequences))


def test_what_a_program_sent_is_named_as_it_sent_it(client: Client) -> None:
    with pytest.raises(InvalidError, match=r"^max_nodes: must not be negative, got -1"):
        client.update_tenant("rai", {"max_nodes": -1})
    with pytest.raises(InvalidError, match="phase: there is no phase 'Runing'; use one of Pending"):
        client.list_runs(phase="Runing")
    with pytest.raises(TypeError, match=r"^gpu: unknown argument; did you mean gpus\?$"):
        client.submit(gpu=1, team="rai", command=["true"])  # type: ignore[call-overload]
