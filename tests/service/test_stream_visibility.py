"""Every watch gives the same events as the list for the same caller, whoever watched before."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quorate.operations.common_requests import PAGE_MAX
from quorate.service.grpc.grpc_codec import write_answer
from quorate.views.redaction.redaction import OTHERS
from tests.oracles.effort import few_of, sized
from tests.service.families import METHODS, WATCHERS, Doors, Families, both_doors, families

SURFACES: Final = ("rest", "grpc")
STREAMS: Final = [(user, surface) for user in WATCHERS for surface in SURFACES]
ADDED: Final = {"block", "text"}
"""Fields of listed events that a stream does not have."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Families:
    """Return a ledger of two families."""
    return families(tmp_path_factory.mktemp("families"))


def listed(client: httpx.Client) -> list[dict[str, Any]]:
    """Return all events in the list for the client's caller."""
    found: list[dict[str, Any]] = []
    first = 1
    for _ in range(100):
        answer = client.get("/api/v1/ledger/events", params={"from": first, "limit": PAGE_MAX})
        assert answer.status_code == 200, answer.text
        page = answer.json()
        found += page["items"]
        if page["next"] == first:
            return [{key: event[key] for key in event if key not in ADDED} for event in found]
        first = page["next"]
    raise AssertionError("the list has no end")


def by_sse(client: httpx.Client, last: int) -> list[dict[str, Any]]:
    """Return the events of a watch from the beginning up to the event ``last``."""
    found: list[dict[str, Any]] = []
    with client.stream("GET", "/api/v1/watch", params={"from": 1}) as answer:
        assert answer.status_code == 200, answer.read()
        for line in answer.iter_lines():
            if line.startswith("data: "):
                found.append(json.loads(line.removeprefix("data: ")))
                if found[-1]["seq"] >= last:
                    return found
    raise AssertionError("the watch ended early")


def by_grpc(doors: Doors, user: str, last: int) -> list[Any]:
    """Return the messages of a watch from the beginning up to the event ``last``."""
    found: list[Any] = []
    stream = doors.call(user, "watch-events", first=1)
    for message in stream:
        found.append(message)
        if message.seq >= last:
            stream.cancel()
            return found
    raise AssertionError("the watch ended early")


def check(doors: Doors, user: str, surface: str) -> None:
    """Compare the watch of ``user`` with the list for the same caller."""
    with doors.rest.client(doors.tokens[user]) as client:
        expected = listed(client)
        last = expected[-1]["seq"]
        if surface == "rest":
            assert by_sse(client, last) == expected, user
            return
    method = METHODS["watch-events"]
    messages = by_grpc(doors, user, last)
    kind = type(messages[0])
    assert messages == [kind.FromString(write_answer(method, each)) for each in expected], user


def test_the_ledger_has_events_that_callers_are_told_differently(
    made: Families, tmp_path: Path
) -> None:
    with both_doors(made, tmp_path) as doors:
        texts: dict[str, dict[int, str]] = {}
        for user in WATCHERS:
            with doors.rest.client(doors.tokens[user]) as client:
                texts[user] = {each["seq"]: json.dumps(each) for each in listed(client)}
    redacted = {user: sum(OTHERS in text for text in texts[user].values()) for user in WATCHERS}
    assert redacted["root"] == redacted["audit"] == 0
    assert all(redacted[user] > 0 for user in ("max", "mia", "tea", "zac", "zed")), redacted
    # Two tenants may see one event with different names: neither gets the text for the other.
    both = texts["mia"].keys() & texts["zac"].keys()
    assert any(texts["mia"][seq] != texts["zac"][seq] for seq in both)


@pytest.mark.parametrize("first", few_of(["mia", "zac", "root"], 2))
def test_the_first_watcher_does_not_decide_what_others_are_sent(
    made: Families, tmp_path: Path, first: str
) -> None:
    with both_doors(made, tmp_path) as doors:
        for user in (first, *(each for each in WATCHERS if each != first)):
            check(doors, user, "rest")


@settings(
    max_examples=sized(2, 20),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(order=st.permutations(STREAMS))
def test_every_stream_equals_the_list_of_the_same_caller_in_any_order(
    made: Families, order: list[tuple[str, str]]
) -> None:
    with TemporaryDirectory() as folder, both_doors(made, Path(folder)) as doors:
        for user, surface in order:
            check(doors, user, surface)
