"""Each gRPC call is one line of the log, like each REST request."""

from __future__ import annotations

import logging
from contextlib import suppress

import grpc
import pytest

from quorate.service.request_log import Handled
from quorate.service.service_log import TextFormatter
from tests.bounds import until
from tests.service.grpc_world import METHODS, serving


def logged(caplog: pytest.LogCaptureFixture, count: int) -> list[Handled]:
    """Return the logged calls as soon as there are ``count``."""

    def told() -> list[Handled]:
        found = [getattr(record, "handled", None) for record in caplog.records]
        return [each for each in found if isinstance(each, Handled)]

    until(lambda: len(told()) >= count, f"{count} calls are logged", tell=told)
    return told()


def test_each_call_is_one_line_with_who_asked_what_and_how_it_ended(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    with serving() as served:
        served.call("whoami", "user")
        with suppress(grpc.RpcError):
            served.call("get-run", "user", name="absent")
        with suppress(grpc.RpcError):
            served.call("list-nodes", "guess")
        metadata = [("authorization", "Bearer admin"), ("x-request-id", "mine-1")]
        served.send(METHODS["list-nodes"], b"", None, metadata=metadata)
        watching = served.stream("watch-events", "admin", 30, first=1)
        next(watching)
        watching.cancel()
        found = logged(caplog, 5)
    assert [(each.operation, each.caller, each.status) for each in found] == [
        ("whoami", "team/alice", 200),
        ("get-run", "team/alice", 404),
        ("list-nodes", "", 401),
        ("list-nodes", "ada", 200),
        ("watch-events", "ada", 200),
    ]
    assert {each.method for each in found} == {"GRPC"}
    assert found[0].path == METHODS["whoami"].path
    assert found[3].request_id == "mine-1"
    assert len({each.request_id for each in found}) == 5
    assert all(each.took_s > 0 for each in found)


def test_a_line_of_a_call_has_nothing_of_what_it_carried(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    with serving() as served, suppress(grpc.RpcError):
        served.call("get-run", "secret-token", name="secret-name")
    assert logged(caplog, 1)
    lines = [TextFormatter().format(record) for record in caplog.records]
    assert not any("secret" in line for line in lines)
