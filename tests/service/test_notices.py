"""Notices of a service: listed and watched by REST, the client, gRPC and the command line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import httpx

from quorate import Client
from tests.cli.shell import finish, start
from tests.service.conftest import Stage
from tests.service.test_watch import Message, messages, submit


@contextmanager
def watching(client: httpx.Client, **params: Any) -> Iterator[Iterator[Message]]:
    with client.stream("GET", "/api/v1/notices/watch", params=params) as answer:
        assert answer.status_code == 200, answer.read()
        yield messages(answer.iter_lines())


def listed(client: httpx.Client, **params: Any) -> list[dict[str, Any]]:
    found = client.get("/api/v1/notices", params=params)
    assert found.status_code == 200, found.text
    items: list[dict[str, Any]] = found.json()["items"]
    return items


def test_a_start_is_listed_for_whom_it_concerns_and_hidden_from_others(stage: Stage) -> None:
    submit(stage.user, "listed")
    (notice,) = [each for each in listed(stage.user, **{"from": 1}) if each["run"] == "listed"]
    assert (notice["kind"], notice["owner"], notice["user"]) == ("run-started", "rai", "ann")
    assert notice in listed(stage.admin, kind="run-started")
    assert notice in listed(stage.auditor)
    assert listed(stage.stranger, **{"from": 1}) == []


def test_a_watch_is_told_as_it_happens_and_resumes_by_its_cursor(stage: Stage) -> None:
    with watching(stage.user) as found:
        submit(stage.user, "seen-1")
        first = next(found)
    assert (first.event, first.data["run"]) == ("run-started", "seen-1")
    submit(stage.user, "seen-2")
    headers = {"Last-Event-ID": str(first.id)}
    with stage.user.stream("GET", "/api/v1/notices/watch", headers=headers) as answer:
        again = next(messages(answer.iter_lines()))
    assert again.data["run"] == "seen-2"


def test_the_client_lists_and_watches(stage: Stage) -> None:
    submit(stage.user, "by-client")
    token = stage.token("user", "ann", "rai")
    with Client(stage.served.url, token=token) as client:
        page = client.list_notices(first=1, kinds=["run-started"])
        assert "by-client" in [each.run for each in page.items]
        watched = list(islice(client.watch_notices(first=1), len(page.items)))
    assert [each.id for each in watched] == [each.id for each in page.items]
    assert all(each.text and each.facts for each in watched)


def test_the_command_line_follows(stage: Stage, tmp_path: Path) -> None:
    env = {"QUORATE_SERVER": stage.served.url, "QUORATE_TOKEN": stage.token("user", "ann", "rai")}
    following = start(tmp_path, "notices", "-f", "--from", "1", "-o", "json", env=env)
    assert following.stdout is not None
    try:
        submit(stage.user, "by-hand")
        is_told = any(json.loads(line)["run"] == "by-hand" for line in following.stdout)
    finally:
        following.terminate()
        said = finish(following)
    assert is_told, said
