from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path
from typing import Any

import httpx
import pytest

from quorate.service.daemon import Extras
from tests.bounds import WAIT_S, until
from tests.service.conftest import Stage
from tests.service.serving import Served, new_ledger, read_all, serving
from tests.service.worlds import large_run_tree, run_tree


@dataclass
class Message:
    """A server-sent event."""

    id: int
    event: str
    data: dict[str, Any]


def messages(lines: Iterator[str]) -> Iterator[Message]:
    """Yield the events of a stream without comments and bare ids."""
    fields: dict[str, str] = {}
    for line in lines:
        if line:
            name, _, value = line.partition(": ")
            if name:
                fields[name] = value
        elif "data" in fields:
            yield Message(int(fields["id"]), fields["event"], json.loads(fields["data"]))
            fields = {}
        else:
            fields = {}


@contextmanager
def watching(client: httpx.Client, **more: Any) -> Iterator[Iterator[Message]]:
    with client.stream("GET", "/api/v1/watch", **more) as answer:
        assert answer.status_code == 200, answer.read()
        assert answer.headers["content-type"] == "text/event-stream"
        yield messages(answer.iter_lines())


def submit(client: httpx.Client, name: str, owner: str = "rai") -> None:
    done = client.post("/api/v1/runs", json={"document": run_tree(name, owner)})
    assert done.status_code == 200, done.text


def test_everything_is_watched_in_order_from_the_beginning(stage: Stage) -> None:
    end = stage.admin.get("/readyz").json()["sequence"]
    with watching(stage.admin, params={"from": 1}) as found:
        seen = list(islice(found, end))
    assert [each.id for each in seen] == list(range(1, end + 1))
    assert seen[0].event == "ledger-opened"
    assert all(each.data["seq"] == each.id for each in seen)


def test_a_watcher_sees_what_is_recorded_from_now_on(stage: Stage) -> None:
    with watching(stage.admin) as found:
        submit(stage.user, "from-now")
        first = next(found)
    assert first.event == "run-submitted"
    assert first.data["run"]["name"] == "from-now"


def test_a_watcher_resumes_after_the_last_event_it_has(stage: Stage) -> None:
    submit(stage.user, "resume")
    end = stage.admin.get("/readyz").json()["sequence"]
    headers = {"Last-Event-ID": str(end - 2)}
    with watching(stage.admin, headers=headers, params={"from": 1}) as found:
        assert [each.id for each in islice(found, 2)] == [end - 1, end]


@pytest.mark.parametrize("last", ["x", "-1", "9" * 40])
def test_a_cursor_that_is_none_is_refused(stage: Stage, last: str) -> None:
    found = stage.admin.get("/api/v1/watch", headers={"Last-Event-ID": last})
    assert (found.status_code, found.json()["code"]) == (400, "usage")


def test_each_watch_begins_with_heads_of_its_own(stage: Stage) -> None:
    def heads() -> list[str]:
        with stage.admin.stream("GET", "/api/v1/watch") as answer:
            assert answer.headers.get_list("x-request-id") == [answer.headers["x-request-id"]]
            return [name for name, _ in answer.headers.multi_items()]

    assert heads() == heads()


def test_a_cursor_beyond_the_end_is_refused(stage: Stage) -> None:
    found = stage.admin.get("/api/v1/watch", params={"from": 10**9})
    assert (found.status_code, found.json()["code"]) == (410, "stale-cursor")


def test_a_watcher_sees_only_what_is_theirs(stage: Stage) -> None:
    with watching(stage.stranger) as found:
        submit(stage.user, "not-yours")
        submit(stage.admin, "yours", "partner")
        first = next(found)
    assert first.data["run"]["name"] == "yours"


def test_a_watch_ends_with_the_token_that_began_it(stage: Stage) -> None:
    token = stage.token("user", "ira", "rai")
    with stage.served.client(token) as client:
        with watching(client) as found:
            gone = stage.admin.delete(f"/api/v1/tokens/{token.split('_')[1]}")
            assert gone.status_code == 200, gone.text
            submit(stage.user, "after-the-end")
            seen = list(found)
        assert [each.event for each in seen] == ["dropped"]
        assert client.get("/api/v1/watch").status_code == 401


def test_watchers_are_let_go_with_their_cursor_when_the_service_stops(tmp_path: Path) -> None:
    served = Served(new_ledger(tmp_path), {}, Extras())
    served.start()
    with (
        served.client(served.token) as client,
        client.stream("GET", "/api/v1/watch", params={"from": 1}) as answer,
    ):
        found = messages(answer.iter_lines())
        assert next(found).id == 1
        served.daemon.stop()
        last = list(found)[-1]
    served.stop()
    assert last.event == "stopping"
    assert last.data["from"] == last.data["cursor"] + 1


@pytest.mark.soak
@pytest.mark.slow
def test_a_watcher_that_does_not_read_is_dropped_with_a_cursor(tmp_path: Path) -> None:
    with (
        serving(new_ledger(tmp_path), {"limits.slow_client_s": "5"}) as served,
        served.client(served.token) as client,
    ):
        assert client.post("/api/v1/tenants", json={"id": "team"}).status_code == 200
        with served.connect(receive_bytes=4_096) as sleeper:
            sleeper.sendall(
                b"GET /api/v1/watch?from=1 HTTP/1.1\r\nHost: x\r\n"
                b"Authorization: Bearer %s\r\n\r\n" % str(served.token).encode()
            )
            numbers = count()

            def is_dropped() -> bool:
                """Return whether the watcher was dropped after further events."""
                runs = [large_run_tree(f"x{next(numbers)}", "team") for _ in range(20)]
                done = client.post("/api/v1/runs/batch", json={"documents": runs}, timeout=60)
                assert done.status_code == 200, done.text
                return "\nquorate_watchers_dropped_total 1.0\n" in client.get("/metrics").text

            # The last message to a dropped watcher waits for another such time.
            until(is_dropped, "the watcher is dropped", within_s=2 * WAIT_S, every_s=0.2)
            found = read_all(sleeper)
        assert b"event: dropped" in found
        last = json.loads(found.rpartition(b"data: ")[2].partition(b"\n")[0])
        told = re.findall(rb"^id: (\d+)\nevent: (?!dropped)", found, re.MULTILINE)
        assert [int(seq) for seq in told] == list(range(1, last["cursor"] + 1))
        with watching(client, params={"from": last["from"]}) as rest:
            assert next(rest).id == last["from"]
