"""Output of runs if an executor keeps it, and the fleet as tenants see it."""

from __future__ import annotations

from typing import Any

import pytest

from quorate.adapters.kubernetes.object_names import object_name
from quorate.core.commands import Apply, Cancel, Complete, Submit
from quorate.loop.engine import Engine
from quorate.model.selector import selector_of
from quorate.model.specs import Owner, Pool, PoolExecutor
from quorate.operations.answering import answer
from quorate.operations.caller import Caller, Role
from quorate.operations.fleet.observe_operations import FleetTop, RunLogs
from quorate.operations.request_context import RequestContext
from quorate.operations.table import OPERATIONS
from quorate.testing.builders import budget, envelope, node, run
from quorate.testing.memory_engines import memory_engine
from quorate.testing.memory_logs import MemoryLogs
from quorate.views.exits import CommandError, Exit

ADMIN = Caller(actor="root", role=Role.ADMIN, user="root")
ANN = Caller(actor="ann", role=Role.USER, user="ann", tenant="lab")
BOB = Caller(actor="bob", role=Role.USER, user="bob", tenant="other")


@pytest.fixture
def engine() -> Engine:
    found = memory_engine()
    fleet = Apply((node("n1"), node("n2"), Owner(name="lab"), Owner(name="other")))
    payer_lists = (budget(each, each, envelope("e", concurrency=8)) for each in ("lab", "other"))
    for command in (
        fleet,
        Apply(tuple(payer_lists)),
        Submit(run("mine", gpus=4, owner="lab", user="ann")),
        Submit(run("theirs", gpus=6, owner="other", user="bob")),
    ):
        assert not found.execute(command, actor="test").decision.refusals
    return found


def _logs(engine: Engine, caller: Caller, logs: MemoryLogs | None, **asked: Any) -> Any:
    context = RequestContext(engine, caller, logs=logs)
    return answer(context, OPERATIONS["run-logs"], RunLogs(run="mine", **asked))


def test_lines_are_given_with_their_numbers_and_where_to_read_on(engine: Engine) -> None:
    logs = MemoryLogs()
    logs.write("mine", "epoch 1", at_ms=1_000)
    logs.write("mine", "warning", stream="err", node="n2")
    logs.write("mine", "epoch 2")
    found = _logs(engine, ANN, logs, from_=1, limit=1)
    assert found.tree() == {
        "run": "mine",
        "lines": [
            {
                "number": 1,
                "at": "1970-01-01T00:00:00Z",
                "node": "n2",
                "rank": 0,
                "stream": "err",
                "text": "warning",
            }
        ],
        "next": 2,
        "ended": False,
        "more": True,
    }
    assert list(found.lines(False)) == ["warning"]  # noqa: FBT003 - as of every answer


@pytest.mark.parametrize(
    ("asked", "numbers", "next_"),
    [
        ({"tail": 2}, [3, 4], 5),
        ({"tail": 9}, [0, 1, 2, 3, 4], 5),
        ({"tail": 3, "from_": 4}, [4], 5),
        ({"tail": 3, "limit": 1}, [2], 3),
    ],
)
def test_the_last_lines_can_be_asked_for(
    engine: Engine, asked: dict[str, int], numbers: list[int], next_: int
) -> None:
    logs = MemoryLogs()
    for number in range(5):
        logs.write("mine", f"epoch {number}")
    found = _logs(engine, ANN, logs, **asked).tree()
    assert [line["number"] for line in found["lines"]] == numbers
    assert found["next"] == next_
    assert _logs(engine, ANN, MemoryLogs(), tail=2).tree()["lines"] == []


def test_the_end_of_output_is_told_with_its_last_line(engine: Engine) -> None:
    logs = MemoryLogs()
    logs.write("mine", "a")
    logs.write("mine", "b")
    assert not _logs(engine, ANN, logs).tree()["ended"]
    engine.execute(Complete("mine"), actor="test")
    assert [_logs(engine, ANN, logs, from_=n, limit=1).tree()["ended"] for n in range(3)] == [
        False,
        True,
        True,
    ]


@pytest.mark.parametrize(
    ("caller", "logs", "fault"),
    [
        (ANN, None, "no-logs"),
        (BOB, MemoryLogs(), "unknown-name"),
        (BOB, None, "unknown-name"),
    ],
)
def test_output_that_is_not_there_or_not_theirs_is_refused(
    engine: Engine, caller: Caller, logs: MemoryLogs | None, fault: str
) -> None:
    with pytest.raises(CommandError) as caught:
        _logs(engine, caller, logs)
    assert caught.value.fault == fault


def test_a_run_that_has_written_nothing_yet_can_be_followed(engine: Engine) -> None:
    found = _logs(engine, ANN, MemoryLogs(), from_=3)
    assert found.tree() == {"run": "mine", "lines": [], "next": 3, "ended": False, "more": False}
    assert "has written nothing yet" in found.notes[0]
    engine.execute(Complete("mine"), actor="test")
    with pytest.raises(CommandError) as caught:
        _logs(engine, ANN, MemoryLogs())
    assert caught.value.fault == "no-logs"


@pytest.mark.parametrize("kept", [None, MemoryLogs()])
@pytest.mark.parametrize("is_over", [False, True])
def test_output_in_pods_is_refused_with_how_to_read_it(
    engine: Engine, kept: MemoryLogs | None, *, is_over: bool
) -> None:
    pool = Pool(
        name="pods",
        executor=PoolExecutor.KUBERNETES,
        cluster="west",
        selector=selector_of({"fabric.domain": "W"}),
    )
    work = run("Mine_2", gpus=1, owner="lab", user="ann", pool="pods")
    for command in (Apply((pool, node("w1", domain="W"))), Submit(work)):
        assert not engine.execute(command, actor="test").decision.refusals
    if is_over:
        engine.execute(Cancel("Mine_2"), actor="test")
    context = RequestContext(engine, ANN, logs=kept)
    with pytest.raises(CommandError) as caught:
        answer(context, OPERATIONS["run-logs"], RunLogs(run="Mine_2"))
    assert (caught.value.code, caught.value.fault) == (Exit.REFUSED, "no-logs")
    pods = f"-l quorate.dev/run={object_name('Mine_2')}"
    assert f"kubectl logs -n quorate-lab {pods}" in caught.value.lines[0]
    assert f"kubectl get pods --all-namespaces {pods}" in caught.value.lines[1]


def test_output_of_a_workload_is_refused_with_how_to_read_it(engine: Engine) -> None:
    pool = Pool(
        name="pods",
        executor=PoolExecutor.KUBERNETES,
        cluster="west",
        selector=selector_of({"fabric.domain": "W"}),
    )
    workload = "job.batch/quorate-lab/train@1234-5678"
    work = run("train-1234", gpus=1, owner="lab", user="ann", pool="pods", workload=workload)
    for command in (Apply((pool, node("w1", domain="W"))), Submit(work)):
        assert not engine.execute(command, actor="test").decision.refusals
    with pytest.raises(CommandError) as caught:
        answer(RequestContext(engine, ANN), OPERATIONS["run-logs"], RunLogs(run="train-1234"))
    assert caught.value.fault == "no-logs"
    assert "kubectl logs -n quorate-lab -l controller-uid=1234-5678 --prefix" in str(
        caught.value.lines[0]
    )


def test_a_tenant_sees_the_use_of_others_without_their_names(engine: Engine) -> None:
    def owners(caller: Caller) -> list[tuple[str, int]]:
        found = answer(RequestContext(engine, caller), OPERATIONS["fleet-top"], FleetTop()).tree()
        return [(each["owner"], each["gpus"]) for each in found["owners"]]

    assert owners(ADMIN) == [("other", 6), ("lab", 4)]
    assert owners(ANN) == [("lab", 4), ("(others)", 6)]
