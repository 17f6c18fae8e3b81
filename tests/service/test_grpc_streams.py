"""Watches and long answers by gRPC: in order, resumable, and without queues for slow clients."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import grpc
import msgspec
import pytest
from msgspec import Struct

from quorate.ledger.codec import event_to_json
from quorate.operations.caller import Caller
from quorate.operations.ledger.ledger_operations import EventTold
from quorate.operations.operation import Operation
from quorate.service.grpc.grpc_codec import read_tree
from quorate.service.grpc.grpc_server import GrpcLimits
from quorate.views.runs.event_text import entries
from tests.bounds import until
from tests.service.grpc_world import (
    ADMIN,
    Counter,
    Served,
    document,
    refused,
    serving,
)
from tests.service.worlds import run_tree, small_ledger


@pytest.fixture
def served() -> Iterator[Served]:
    with serving() as found:
        yield found


def test_a_watch_goes_on_from_a_cursor_without_gap_or_repeat(served: Served) -> None:
    served.call("submit-run", "user", document=document(run_tree("r1")))
    end = served.counter.engine.head.seq
    first = served.stream("watch-events", ADMIN, first=1)
    seen = [next(first).seq for _ in range(end - 1)]
    first.cancel()
    again = served.stream("watch-events", ADMIN, first=seen[-1] + 1)
    seen += [next(again).seq]
    served.call("submit-run", "user", document=document(run_tree("r2")))
    seen += [next(again).seq for _ in range(served.counter.engine.head.seq - end)]
    again.cancel()
    assert seen == list(range(1, served.counter.engine.head.seq + 1))


def test_an_event_has_all_that_its_tag_has(served: Served) -> None:
    served.call("submit-run", "user", document=document(run_tree("r1")))
    engine = served.counter.engine
    watch = served.stream("watch-events", ADMIN, first=1)
    told = {each.seq: each for _, each in zip(range(engine.head.seq), watch, strict=False)}
    for entry in entries(engine.store.blocks()):
        expected = msgspec.json.decode(msgspec.json.encode(event_to_json(entry.seq, entry.event)))
        assert read_tree(told[entry.seq], EventTold) == expected


def test_whoever_watches_sees_what_is_theirs(served: Served) -> None:
    served.call("submit-run", "user", document=document(run_tree("r1")))
    served.call("submit-run", "stranger", document=document(run_tree("r2", "other")))
    served.call("submit-run", "user", document=document(run_tree("r3")))
    assert _runs(served, "user", "r3") == ["r1", "r3"]
    assert _runs(served, "stranger", "r2") == ["r2"]


def _runs(served: Served, token: str, last: str) -> list[str]:
    """Return the runs whose submissions a watch sends from the beginning to that of ``last``."""
    found: list[str] = []
    watch = served.stream("watch-events", token, first=1)
    for event in watch:
        if event.tag.startswith("run-submitted/"):
            found.append(read_tree(event, EventTold)["run"]["name"])
            if found[-1] == last:
                watch.cancel()
                return found
    raise AssertionError("the watch ended early")


def test_a_cursor_that_leads_nowhere_is_refused(served: Served) -> None:
    beyond = served.counter.engine.head.seq + 2
    call = served.stream("watch-events", ADMIN, first=beyond)
    assert refused(grpc.StatusCode.OUT_OF_RANGE, next, call).code == "stale-cursor"


def test_the_ledger_is_exported_block_by_block(served: Served) -> None:
    blocks = list(served.stream("export-ledger", "auditor"))
    assert [each.height for each in blocks] == list(range(1, served.counter.engine.head.height + 1))
    assert blocks[-1].hash == served.counter.engine.head.hash.hex()


def test_only_so_many_watch_at_once() -> None:
    with serving(GrpcLimits(streams_max=1)) as served:
        first = served.stream("watch-events", ADMIN, first=1)
        next(first)
        second = served.stream("watch-events", ADMIN, first=1)
        problem = refused(grpc.StatusCode.UNAVAILABLE, next, second)
        assert problem.lines == ["1 streams are open, which is the limit; try again later"]
        first.cancel()
        assert served.call("list-nodes").items


def test_watches_end_when_the_service_stops(served: Served) -> None:
    call = served.stream("watch-events", ADMIN, first=served.counter.engine.head.seq)
    next(call)
    served.wait_for(served.server.stop(1.0))
    assert "continue from" in refused(grpc.StatusCode.UNAVAILABLE, next, call).lines[0]


class Endless(Counter):
    """Has an endless stream of long events, and counts the clients that left."""

    given = 0
    gone = 0

    async def follow(
        self, caller: Caller, operation: Operation, asked: Struct
    ) -> AsyncIterator[dict[str, Any]]:
        del caller, operation, asked
        try:
            while True:
                self.given += 1
                yield {"seq": self.given, "tag": "t/1", "at_ms": 0, "actor": "x" * 100_000}
        finally:
            self.gone += 1


def test_whoever_does_not_read_is_dropped_and_knows_where_they_were() -> None:
    counter = Endless(small_ledger())
    served = Served(counter, GrpcLimits(stall_s_max=0.2, streams_per_caller_max=1))
    try:
        call = served.stream("watch-events", "user", first=1)
        seen = [next(call).seq]
        until(lambda: counter.gone == 1, "it is dropped")
        told = counter.given
        # Until their watches end, they cannot have another one.
        other = served.stream("watch-events", "user", first=1)
        refused(grpc.StatusCode.RESOURCE_EXHAUSTED, next, other)
        problem = refused(grpc.StatusCode.ABORTED, lambda: seen.extend(event.seq for event in call))
        assert problem.code == "slow-watcher"
        assert b"\nquorate_watchers_dropped_total 1.0\n" in served.metrics.render(())
        assert seen == list(range(1, len(seen) + 1))
        assert told - 1 <= len(seen) <= told == counter.given
        until(lambda: not served.server._streams.open, "its stream is over")
        again = served.stream("watch-events", "user", first=len(seen) + 1)
        assert next(again).seq
        again.cancel()
    finally:
        served.close()
