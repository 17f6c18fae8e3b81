"""The line before the ledger's thread: whose turn it is, and how much is taken at once."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

from quorate.operations.caller import Caller, Role
from quorate.operations.resources.run_operations import SubmitRuns
from quorate.service.request_queue import Line, QueuedRequest


def request(tenant: str, name: str, documents: int = 1) -> QueuedRequest:
    """Return the submit of a batch; ``name`` is its actor."""
    caller = Caller(actor=name, role=Role.USER, user=f"u-{tenant}", tenant=tenant)
    asked = SubmitRuns(documents=({},) * documents)
    done: Any = Future[Any]()
    return QueuedRequest(done, None, caller, None, asked)


def names(queued_requests: list[QueuedRequest]) -> list[str]:
    return [queued.caller.actor for queued in queued_requests if queued.caller is not None]


def line_of(*queued_requests: QueuedRequest) -> Line:
    line = Line(100)
    for queued in queued_requests:
        line.put(queued, is_submit=True)
    return line


def test_what_is_put_back_is_next_and_tenants_keep_their_turns() -> None:
    line = line_of(*(request("a", f"a{number}") for number in range(3)), request("b", "b0"))
    taken = line.submits(100)
    assert names(taken) == ["a0", "b0", "a1", "a2"]
    line.put(request("c", "c0"), is_submit=True)
    line.put_back(taken[1:])
    assert len(line) == 4
    assert names(line.submits(100)) == ["b0", "a1", "c0", "a2"]
    assert len(line) == 0


def test_submits_are_taken_by_their_runs() -> None:
    line = line_of(request("a", "a0", 300), request("a", "a1", 300), request("a", "a2", 300))
    assert names(line.submits(512)) == ["a0", "a1"]
    assert names(line.submits(512)) == ["a2"]


def test_all_who_wait_are_taken_at_the_end() -> None:
    line = line_of(request("a", "a0", 300), request("a", "a1", 300))
    line.put(request("b", "b0"))
    assert names(line.rest()) == ["a0", "a1", "b0"]
    assert len(line) == 0
