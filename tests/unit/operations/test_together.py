from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import Any

import pytest
from msgspec import structs

from quorate.adapters.stores.store_memory import MemoryStore
from quorate.core.commands import Apply
from quorate.ledger.chain import Block, Head
from quorate.ledger.snapshot import take
from quorate.loop.engine import Engine
from quorate.model.specs import Owner
from quorate.operations.answer_types import Answer, Order
from quorate.operations.answering import answer
from quorate.operations.caller import Caller, Role
from quorate.operations.group_commit import Asking, answer_together, may_wait_for_others
from quorate.operations.operation import Operation
from quorate.operations.request_context import RequestContext
from quorate.operations.resources import run_operations
from quorate.operations.table import OPERATIONS
from quorate.testing.builders import budget, envelope, fleet
from quorate.testing.memory_engines import HandClock, memory_engine
from quorate.views.exits import CommandError

SUBMIT = OPERATIONS["submit-run"]
ALICE = Caller(actor="alice", role=Role.USER, user="alice", tenant="team")
BOB = Caller(actor="bob", role=Role.USER, user="bob", tenant="other")


@pytest.fixture
def engine() -> Engine:
    found = memory_engine(clock=HandClock())
    owners = (Owner(name="team"), Owner(name="other"))
    money = budget("b", "team", envelope("e", 16))
    receipt = found.execute(Apply((*owners, *fleet({"A": 16}), money)), actor="test")
    assert not receipt.decision.refusals
    return found


def run_tree(name: str, owner: str = "team", gpus: int = 4) -> dict[str, Any]:
    return {
        "apiVersion": "quorate.dev/v1",
        "kind": "Run",
        "metadata": {"name": name},
        "spec": {"owner": owner, "resources": {"gpuType": "H100", "totalGPUs": gpus}},
    }


def _asking(engine: Engine, caller: Caller, name: str, **more: Any) -> Asking:
    owner = more.pop("owner", caller.tenant)
    request = run_operations.SubmitRun(document=run_tree(name, owner), **more)
    return Asking(RequestContext(engine, caller), SUBMIT, request)


def test_a_group_is_one_block_and_each_is_told_its_own_events(engine: Engine) -> None:
    height = engine.head.height
    found = answer_together(engine, [_asking(engine, ALICE, "r1"), _asking(engine, ALICE, "r2")])
    assert engine.head.height == height + 1
    trees = [each.tree() for each in found if isinstance(each, Answer)]
    assert [tree["changes"][0]["name"] for tree in trees] == ["r1", "r2"]
    sequences = [event["seq"] for tree in trees for event in tree["events"]]
    assert sequences == list(range(sequences[0], engine.head.seq + 1))
    assert {tree["head"]["height"] for tree in trees} == {engine.head.height}


def broken(context: RequestContext, asked: object, operation: Operation) -> Order:
    """Fail with a bug."""
    del context, asked, operation
    raise ZeroDivisionError


def test_a_bug_in_one_is_for_its_own_request_only(engine: Engine) -> None:
    bad = _asking(engine, ALICE, "bad")
    bad = replace(bad, operation=structs.replace(SUBMIT, handler=f"{__name__}:broken"))
    height = engine.head.height
    found = answer_together(
        engine, [_asking(engine, ALICE, "r1"), bad, _asking(engine, ALICE, "r2")]
    )
    assert [type(each) for each in found] == [Answer, ZeroDivisionError, Answer]
    assert engine.head.height == height + 1
    assert set(engine.view.runs) == {"r1", "r2"}


class FaultyStore(MemoryStore):
    """A store with a bug: it fails at blocks that contain the run called poisoned."""

    def append(self, block: Block, *, expected: Head) -> None:
        if b"poisoned" in block.body:
            raise ZeroDivisionError
        super().append(block, expected=expected)


def test_a_bug_while_all_are_decided_is_for_the_one_that_has_it() -> None:
    engine = memory_engine(FaultyStore(), HandClock())
    assert not engine.execute(Apply((Owner(name="team"),)), actor="test").decision.refusals
    names = ("r1", "poisoned", "r2")
    found = answer_together(engine, [_asking(engine, ALICE, name) for name in names])
    assert [type(each) for each in found] == [Answer, ZeroDivisionError, Answer]
    assert set(engine.view.runs) == {"r1", "r2"}
    alone = answer_together(engine, [_asking(engine, ALICE, "poisoned")])
    assert [type(each) for each in alone] == [ZeroDivisionError]


def test_submits_that_are_left_when_time_is_up_are_untouched(engine: Engine) -> None:
    askings = [_asking(engine, ALICE, f"r{number}") for number in range(5)]
    left = iter([True, False])
    found = answer_together(engine, askings, lambda: next(left))
    assert [type(each) for each in found] == [Answer, Answer]
    assert set(engine.view.runs) == {"r0", "r1"}
    again = answer_together(engine, askings[2:], lambda: False)
    assert [type(each) for each in again] == [Answer], "one is answered in any case"
    assert set(engine.view.runs) == {"r0", "r1", "r2"}


def test_time_is_looked_at_while_a_bug_has_each_decided_alone() -> None:
    engine = memory_engine(FaultyStore(), HandClock())
    assert not engine.execute(Apply((Owner(name="team"),)), actor="test").decision.refusals
    askings = [_asking(engine, ALICE, name) for name in ("r1", "poisoned", "r2", "r3")]
    left = iter([True, True, True, True, False])
    found = answer_together(engine, askings, lambda: next(left))
    assert [type(each) for each in found] == [Answer, ZeroDivisionError]
    assert set(engine.view.runs) == {"r1"}


def test_a_refusal_is_for_its_own_request_only(engine: Engine) -> None:
    found = answer_together(
        engine,
        [
            _asking(engine, BOB, "mine", owner="team"),
            _asking(engine, ALICE, "good"),
            _asking(engine, ALICE, "good", idempotency_key="k"),
        ],
    )
    assert isinstance(found[0], CommandError)
    assert found[0].fault == "forbidden"
    assert isinstance(found[1], Answer)
    assert isinstance(found[2], CommandError)
    assert found[2].fault == "already-exists"
    assert found[2].refusals[0].code == "already-exists"
    assert list(engine.view.runs) == ["good"]


def test_a_repeated_key_gives_the_first_answer_wherever_it_was_carried_out(engine: Engine) -> None:
    asking = _asking(engine, ALICE, "r1", idempotency_key="k1")
    found = answer_together(
        engine, [_asking(engine, ALICE, "r0"), asking, _asking(engine, ALICE, "r2")]
    )
    assert isinstance(found[1], Answer)
    first = found[1].tree()
    again = answer_together(engine, [asking])[0]
    assert isinstance(again, Answer)
    assert again.tree() == first
    alone = answer(asking.context, SUBMIT, asking.asked)
    assert alone.tree() == first
    assert next(iter(alone.lines(False))) == "run/r1 submitted"  # noqa: FBT003
    assert f"sequence {first['events'][0]['seq']}-" in alone.done
    assert alone.notes[0].startswith("note: this request was carried out before")


def test_one_key_for_two_requests_is_refused(engine: Engine) -> None:
    answer_together(engine, [_asking(engine, ALICE, "r1", idempotency_key="k1")])
    found = answer_together(engine, [_asking(engine, ALICE, "r2", idempotency_key="k1")])[0]
    assert isinstance(found, CommandError)
    assert found.fault == "key-reused"


def test_two_callers_may_choose_the_same_key(engine: Engine) -> None:
    answer_together(engine, [_asking(engine, ALICE, "r1", idempotency_key="k1")])
    found = answer_together(engine, [_asking(engine, BOB, "r2", idempotency_key="k1")])[0]
    assert isinstance(found, Answer)
    assert list(engine.view.runs) == ["r1", "r2"]


def test_a_dry_run_keeps_no_key_and_waits_for_nobody(engine: Engine) -> None:
    asking = _asking(engine, ALICE, "r1", idempotency_key="k1", dry_run=True)
    assert not may_wait_for_others(SUBMIT, asking.asked)
    assert answer(asking.context, SUBMIT, asking.asked).tree()["dryRun"] is True
    assert not engine.view.requests


def snapshot(engine: Engine) -> object:
    """Return the state as in a snapshot; the overlay of a view has all of it."""
    return take(engine.view.overlay())


@pytest.mark.parametrize("is_grouped", [True, False])
@pytest.mark.parametrize("most", range(1, 8))
def test_a_batch_that_may_not_go_on_is_refused_whole(
    engine: Engine, most: int, *, is_grouped: bool
) -> None:
    """Eight events: four runs are submitted and started. ``most`` events may be written."""
    written = count(1)
    context = RequestContext(engine, ALICE, go_on=lambda: next(written) <= most)
    asked = run_operations.SubmitRuns(documents=tuple(run_tree(f"r{n}") for n in range(4)))
    batch = OPERATIONS["submit-runs"]
    before, state = engine.head, snapshot(engine)
    if is_grouped:
        (refused,) = answer_together(engine, [Asking(context, batch, asked)])
    else:
        with pytest.raises(CommandError) as caught:
            answer(context, batch, asked)
        refused = caught.value
    assert isinstance(refused, CommandError)
    assert refused.fault == "too-large"
    started = max(0, most - 4)
    starts = f"{started} start" + ("s" if started != 1 else "")
    assert (
        "deciding 4 in one request would make other requests wait too long, and was stopped "
        f"after {starts}" in str(refused)
    )
    assert "nothing was recorded; send them in parts of at most 100" in str(refused)
    assert (engine.head, snapshot(engine)) == (before, state)
    whole = answer(RequestContext(engine, ALICE), batch, asked)
    assert len(whole.tree()["changes"]) == 4, "without the bound it is decided"
