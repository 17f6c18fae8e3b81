"""Arrays with a limit, in any history of their tasks, and the small size of their blocks.

The oracle has one rule: of the tasks that are not over, the first ones may run, as many as the
limit says.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from quorate.core.audit.invariants import sweep
from quorate.core.commands import Apply, CancelTasks, Complete, Fail
from quorate.core.lifecycle.follow import waits_for_upstream
from quorate.ledger.chain import GENESIS, open_block, seal
from quorate.ledger.codec import decode_events, encode_events, event_shapes
from quorate.ledger.errors import CorruptLedgerError
from quorate.ledger.snapshot import fingerprint, restore, take
from quorate.model.events import Event, RunSubmitted
from quorate.model.specs import Run
from quorate.model.state.records import TERMINAL, Phase
from quorate.model.task_arrays import indexes_text, read_array, task_runs
from quorate.testing.builders import NOW_MS, budget, envelope, fleet, run
from tests.oracles.effort import examples
from tests.oracles.lives import Life

GPUS = 6
few_indexes = st.sets(st.integers(0, 30), min_size=1, max_size=8).map(lambda s: tuple(sorted(s)))


def array(tasks: str, name: str = "train", command: tuple[str, ...] = ()) -> Run:
    return run(name, 1, array=replace(read_array(tasks), name=name), command=command)


def new_life() -> Life:
    return Life(
        nodes=fleet({"A": GPUS}),
        budgets=[budget("b", "team", envelope("e", GPUS))],
        has_executor=False,
    )


@pytest.mark.heavy
@examples(0.5)
@given(few_indexes, st.integers(1, 9), st.data())
def test_the_first_tasks_that_are_not_over_may_run(
    indexes: tuple[int, ...], limit: int, data: st.DataObject
) -> None:
    life, now_ms = new_life(), NOW_MS
    tasks = task_runs(array(f"{indexes_text(indexes)}%{limit}"))
    life.do(Apply(tasks))
    while True:
        records = [life.state.runs[each.name] for each in tasks]
        left = [record for record in records if record.phase not in TERMINAL]
        may_run = [each for each in left if waits_for_upstream(life.state, each.spec) is None]
        assert may_run == left[:limit]
        running = [record for record in left if record.phase is Phase.RUNNING]
        assert running == left[: min(limit, GPUS)]
        assert not list(sweep(life.state))
        if not left:
            break
        now_ms += data.draw(st.integers(0, 100_000))
        ending = data.draw(st.sampled_from(running))
        others = data.draw(st.lists(st.sampled_from(left), max_size=3))
        commands: list[Complete | Fail | CancelTasks] = [
            Complete(ending.spec.name),
            Fail(ending.spec.name),
            CancelTasks(tuple(dict.fromkeys(each.spec.name for each in others))),
        ]
        command = data.draw(st.sampled_from(commands))
        if command != CancelTasks(()):
            life.do(command, now_ms)
    known = life.state.arrays["train"]
    assert (known.open_tasks, known.released) == (0, {})
    assert known.uncompleted == sum(each.phase is not Phase.COMPLETED for each in records)
    restored = restore(take(life.state))
    assert restored is not None
    assert fingerprint(restored) == fingerprint(life.state)


@pytest.mark.heavy
@given(
    st.lists(st.tuples(few_indexes, st.none() | st.integers(1, 4), st.booleans()), max_size=3),
    st.randoms(use_true_random=False),
)
def test_blocks_of_arrays_come_back_equal(
    drawn: list[tuple[tuple[int, ...], int | None, bool]], chance: object
) -> None:
    """This includes mixed tasks of several arrays, and a task that differs from its first one."""
    events: list[Event] = []
    for number, (indexes, limit, is_odd) in enumerate(drawn):
        text = indexes_text(indexes) + ("" if limit is None else f"%{limit}")
        tasks = list(task_runs(array(text, f"a{number}")))
        if is_odd:
            tasks[-1] = replace(tasks[-1], gpus=2)
        events += [RunSubmitted(NOW_MS, "ada", task) for task in tasks]
    chance.shuffle(events)  # type: ignore[attr-defined]
    data = encode_events(events)
    assert decode_events(data) == events
    assert encode_events(decode_events(data)) == data
    if events:
        assert open_block(seal(GENESIS, events), after=GENESIS) == events


def test_the_document_of_an_array_is_stored_once() -> None:
    text = "x" * 2_000
    tasks = task_runs(array("0-999", command=("sh", "-c", text)))
    events = [RunSubmitted(NOW_MS, "ada", task) for task in tasks]
    data = encode_events(events)
    assert data.count(text.encode()) == 1
    assert len(data) < 60 * len(tasks)
    assert all(task.name.encode() in data for task in tasks), "a search by name finds the block"
    assert [len(shapes) for shapes in event_shapes(data)] == [1] + [2] * 999


def test_a_task_without_the_first_of_its_array_is_no_ledger() -> None:
    tasks = task_runs(array("0-1"))
    data = encode_events([RunSubmitted(NOW_MS, "ada", task) for task in tasks])
    (first,) = (encode_events([RunSubmitted(NOW_MS, "ada", tasks[0])])[1:],)
    alone = b"\x91" + data[1:].removeprefix(first)
    with pytest.raises(CorruptLedgerError, match="train_1"):
        decode_events(alone)
