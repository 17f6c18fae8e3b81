"""Reads are answered by reader processes, and delay neither commits nor callers."""

from __future__ import annotations

import os
import re
import resource
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from quorate.adapters.stores.store_pages import PagedReader
from quorate.adapters.stores.store_sqlite import SqliteStore
from quorate.core.commands import Apply
from quorate.ledger.chain import seal
from quorate.loop.engine import Engine
from quorate.model.events import RunRefused, RunSubmitted
from quorate.model.refusal import Refusal, RefusalCode
from quorate.model.specs import Owner, Run
from quorate.operations import common_requests
from quorate.operations.answered_by import Place, place_of
from quorate.operations.ledger import plan_operations
from quorate.operations.operation import Effect
from quorate.operations.request_context import ONLY_A_LEDGER
from quorate.operations.resources import resource_operations
from quorate.operations.table import OPERATIONS
from quorate.service.daemon import Extras
from quorate.service.readers.reader_main import (
    FEW_EVENTS,
    FOLLOW_S,
    FOLLOW_S_MAX,
    next_wait_s,
)
from quorate.service.readers.reader_process import ProcessConfig, RemoteReader
from quorate.service.readers.state_reader import Question, Reader, ReaderConfig
from quorate.service.reply import Form
from quorate.testing.builders import budget, envelope, fleet
from quorate.testing.memory_engines import HandClock
from quorate.views.exits import CommandError
from tests.bounds import until
from tests.service.serving import Served, new_ledger, serving
from tests.service.stopping import readers, stopped_readers
from tests.service.worlds import ADMIN, run_tree


def waiting_ledger(folder: Path, waiting: int) -> tuple[Path, HandClock]:
    """Return a ledger with 16 GPUs and ``waiting`` runs that wait for room."""
    path = new_ledger(folder)
    with SqliteStore.open(path) as store:
        clock = HandClock(store_ms(store) + 1_000)
        engine = Engine.open(store, clock)
        money = budget("b", "team", envelope("e", 16))
        receipt = engine.execute(
            Apply((Owner(name="team"), *fleet({"A": 16}), money)), actor="test"
        )
        assert not receipt.decision.refusals
        refusal = Refusal(code=RefusalCode.INSUFFICIENT_CAPACITY, subject="H100", wanted=1, short=1)
        events: list[Any] = []
        for number in range(waiting):
            run = Run(name=f"r{number:05d}", owner="team", flavors=("H100",), gpus=99, user="u")
            events += [
                RunSubmitted(at_ms=clock.ms, actor="test", run=run),
                RunRefused(at_ms=clock.ms, actor="test", run=run.name, refusal=refusal),
            ]
        store.append(seal(engine.head, events), expected=engine.head)
    clock.ms += 1_000
    return path, clock


def store_ms(store: SqliteStore) -> int:
    return Engine.open(store, HandClock()).recorded_ms


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    path, clock = waiting_ledger(tmp_path, 30)
    with serving(path, extras=Extras(clock=clock)) as found:
        yield found


def test_commits_and_whoami_are_answered_while_readers_work(served: Served) -> None:
    with (
        served.client(served.token) as client,
        served.client(served.token) as other,
        ThreadPoolExecutor(3) as pool,
    ):
        assert client.get("/api/v1/runs").status_code == 200
        with stopped_readers():
            paths = ("/runs", "/runs/r00003/explanation", "/runs/r00003/plan")
            asking = [pool.submit(other.get, f"/api/v1{path}") for path in paths]
            told = client.get("/api/v1/whoami")
            assert told.json()["tenants"] == ["team"]
            sent = client.post("/api/v1/runs", json={"document": run_tree("late", gpus=99)})
            assert sent.status_code == 200, sent.text
            made = client.post("/api/v1/tenants", json={"id": "new"})
            assert made.status_code == 200, made.text
            assert client.get("/api/v1/whoami").json()["tenants"] == ["new", "team"]
            assert client.get("/readyz").status_code == 200
            assert not any(each.done() for each in asking)
        for each in asking:
            assert each.result(60).status_code == 200


def test_a_read_sees_what_was_acknowledged_before_it(served: Served) -> None:
    with served.client(served.token) as client:
        for number in range(5):
            name = f"n{number}"
            document = run_tree(name, gpus=99)
            assert client.post("/api/v1/runs", json={"document": document}).status_code == 200
            assert client.get(f"/api/v1/runs/{name}").json()["metadata"]["name"] == name
            told = client.get(f"/api/v1/runs/{name}/explanation").json()
            assert told["run"] == name


def test_an_answer_of_a_reader_says_how_much_work_it_was(served: Served) -> None:
    with served.client(served.token) as client:
        told = client.get("/api/v1/queue").headers["server-timing"]
        assert re.fullmatch(r"cpu;dur=\d+\.\d", told), told
        assert "server-timing" not in client.get("/api/v1/whoami").headers


def test_a_reader_waits_longer_while_little_is_recorded() -> None:
    waits = [FOLLOW_S]
    while (longer := next_wait_s(waits[-1], FEW_EVENTS)) > waits[-1]:
        waits.append(longer)
    assert waits[-1] == FOLLOW_S_MAX
    assert next_wait_s(FOLLOW_S_MAX, FEW_EVENTS + 1) == FOLLOW_S


def test_a_reader_that_was_killed_is_started_again(served: Served) -> None:
    with served.client(served.token) as client:
        assert client.get("/api/v1/runs").status_code == 200
        for pid in readers():
            os.kill(pid, signal.SIGKILL)
        assert client.get("/api/v1/runs").status_code == 200
        assert client.get("/api/v1/runs/r00001/plan").status_code == 200


def test_readers_end_with_their_service(tmp_path: Path) -> None:
    before = set(readers())
    path, clock = waiting_ledger(tmp_path, 1)
    with serving(path, extras=Extras(clock=clock)) as served:
        with served.client(served.token) as client:
            assert client.get("/api/v1/runs").status_code == 200
        mine = set(readers()) - before
        assert mine
    until(lambda: not mine & set(readers()), "the readers to end")


ASKED = (
    ("/runs?limit=1000", "list-runs", resource_operations.ListRuns(limit=1000)),
    ("/queue?limit=25", "list-queue", resource_operations.ListRuns(limit=25)),
    ("/runs/r00007", "get-run", resource_operations.GetThing(name="r00007")),
    ("/reservations?limit=5", "list-reservations", resource_operations.ListThings(limit=5)),
    ("/runs/r00007/plan", "plan-run", plan_operations.AboutRun(run="r00007")),
    ("/runs/r00007/explanation", "explain-run", plan_operations.AboutRun(run="r00007")),
    ("/picture", "picture", plan_operations.PictureRequest()),
)


def test_answers_are_those_of_the_same_sequence(tmp_path: Path) -> None:
    path, clock = waiting_ledger(tmp_path, 40)
    with (
        serving(path, extras=Extras(clock=clock)) as served,
        served.client(served.token) as client,
    ):
        document = run_tree("starts", gpus=4)
        assert client.post("/api/v1/runs", json={"document": document}).status_code == 200
        for where, name, wanted in ASKED:
            # Each answer is computed from a newly folded state, without caches of the previous one.
            config = ReaderConfig(reading=lambda: PagedReader(path), clock=clock)
            question = Question(ADMIN, OPERATIONS[name], wanted, Form.JSON)
            expected = Reader(config).reply(question).body
            found: httpx.Response = client.get(f"/api/v1{where}")
            assert found.status_code == 200, found.text
            assert found.content == expected, where


def _remote(path: Path, clock: HandClock, cpu_s_max: float) -> RemoteReader:
    config = ProcessConfig(ledger=str(path), beside=ONLY_A_LEDGER, is_executed=False)
    return RemoteReader(config, clock, dict.fromkeys(Place, cpu_s_max))


def test_work_beyond_its_bound_is_given_up_and_the_next_question_is_answered(
    tmp_path: Path,
) -> None:
    path, clock = waiting_ledger(tmp_path, 2_000)
    question = Question(ADMIN, OPERATIONS["list-runs"], resource_operations.ListRuns())
    reader = _remote(path, clock, 0.005)
    try:
        with pytest.raises(CommandError, match=r"more than 0\.005 s of CPU") as caught:
            reader.reply(question)
        assert caught.value.fault == "timed-out"
        short = Question(ADMIN, OPERATIONS["list-nodes"], resource_operations.ListThings(limit=1))
        for _ in range(2):
            with pytest.raises(CommandError, match="of CPU"):
                reader.reply(short)  # It has to read its state again.
    finally:
        reader.close()
    reader = _remote(path, clock, 30)
    try:
        assert len(reader.reply(question).tree["items"]) == 2_000
    finally:
        reader.close()


@contextmanager
def _no_more_files() -> Iterator[None]:
    """Let this process open no more files during the block."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.dup(0)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_reader_that_cannot_be_started_is_unavailable_and_starts_with_the_next_question(
    tmp_path: Path,
) -> None:
    path, clock = waiting_ledger(tmp_path, 1)
    reader = _remote(path, clock, 30)
    question = Question(ADMIN, OPERATIONS["list-runs"], resource_operations.ListRuns())
    try:
        with _no_more_files(), pytest.raises(CommandError, match="ask again") as caught:
            reader.reply(question)
        assert caught.value.fault == "unavailable"
        assert len(reader.reply(question).tree["items"]) == 1
    finally:
        reader.close()


def test_a_bug_in_a_reader_is_told_with_its_trace(tmp_path: Path) -> None:
    path, clock = waiting_ledger(tmp_path, 1)
    reader = _remote(path, clock, 30)
    try:
        with pytest.raises(RuntimeError, match="a reader failed: ") as caught:
            # The request of another operation.
            reader.reply(Question(ADMIN, OPERATIONS["list-runs"], common_requests.Nothing()))
        assert "listing.py" in "".join(caught.value.__notes__)
    finally:
        reader.close()


def test_only_writes_and_what_the_service_itself_knows_are_for_the_ledgers_thread() -> None:
    places = {
        name: place_of(each, common_requests.Nothing())
        for name, each in OPERATIONS.items()
        if each.effect is Effect.READ
    }
    here = {name for name, place in places.items() if place is Place.WRITER}
    of_quorum = {"cluster-status", "cluster-members", "step-down"}
    assert here == {"accounting-status", "accept-clock", "show-clock", *of_quorum}
    assert [name for name, place in places.items() if place is Place.AT_ONCE] == ["whoami"]
