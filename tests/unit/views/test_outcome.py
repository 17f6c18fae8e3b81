"""The printed result of a decision if stops take time, as with an executor."""

from __future__ import annotations

from quorate.core.commands import (
    Cancel,
    Change,
    Command,
    Confirm,
    Decision,
    Drain,
    MarkNode,
    Shrink,
    Submit,
    Tick,
)
from quorate.core.decide import decide
from quorate.documents.times import time_text
from quorate.model.amounts import HOUR_MS, MINUTE_MS
from quorate.model.events import NodeStatus, RunRefused, RunSubmitted
from quorate.model.refusal import Refusal, RefusalCode
from quorate.model.specs import Malleable, Run
from quorate.model.state.apply_event import apply_all
from quorate.model.state.state import State
from quorate.testing.builders import NOW_MS, budget, envelope, fleet, node, run, world
from quorate.views.kinds.kind import Kind
from quorate.views.kinds.kinds_work import LEASE, RUN
from quorate.views.runs.describe import describe_run
from quorate.views.runs.instant import Moment
from quorate.views.runs.outcome_view import outcome_lines

STEPS = Malleable(gpus_min=8, gpus_max=24, gpus_step=8, gpus_desired=24)
LATER_MS = NOW_MS + MINUTE_MS
DEADLINE = time_text(LATER_MS + 2 * MINUTE_MS)
SHRINKS = "Shrink, the run continues without this step"


def do(
    state: State, command: Command, at_ms: int = LATER_MS, *, executor: bool = True
) -> list[str]:
    """Carry out ``command``, and return its printed result."""
    before = {name: lease.copy() for name, lease in state.leases.items()}
    decision = decide(state, command, now_ms=at_ms, actor="test", has_executor=executor)
    assert not decision.refusals, decision.refusals
    apply_all(state, decision.events)
    return outcome_lines(decision, Moment(state, at_ms, state.seq), before, dry_run=False)


def started(*asked: Run, gpus: int = 24) -> State:
    state = world(nodes=fleet({"A": gpus}), budgets=[budget("b", "team", envelope("e", 64))])
    for each in asked:
        do(state, Submit(each), NOW_MS)
    return state


def cell(kind: Kind, moment: Moment, name: str, title: str) -> str:
    (row,) = kind.rows(moment, [name])
    return row[[column.title for column in kind.columns].index(title)]


def test_a_cancelled_run_is_stopping_until_its_last_process_is_gone() -> None:
    state = started(run("r", 8))
    assert do(state, Cancel("r", "wrong data")) == [
        "run/r is stopping; it was cancelled (wrong data)",
        f"lease/r/0 is stopping: Cancelled, the run was cancelled; it has until {DEADLINE}",
    ]
    assert do(state, Confirm("r/0"), LATER_MS + MINUTE_MS) == [
        "lease/r/0 ended: Cancelled, 8 GPUs free, 0.27 GPU-hours paid from b/e",
        "run/r cancelled: wrong data",
    ]


def test_a_stopping_run_says_so_in_tables_documents_and_its_description() -> None:
    state = started(run("r", 8))
    do(state, Drain("a0000"))
    moment = Moment(state, LATER_MS, state.seq)
    said = "stopping: Drained, the node is taken out of service; then it waits again"
    assert cell(RUN, moment, "r", "REASON") == said
    told = f"Drained, the node is taken out of service; until {DEADLINE}"
    assert cell(LEASE, moment, "r/0", "STOPPING") == told
    (tree,) = RUN.trees(moment, ["r"])
    assert tree["status"]["stopping"] == {
        "since": time_text(LATER_MS),
        "reason": "Drained",
        "outcome": None,
        "note": "",
    }
    (lease_tree,) = LEASE.trees(moment, ["r/0"])
    assert (lease_tree["status"]["endReason"], lease_tree["status"]["deadline"]) == (
        "Drained",
        DEADLINE,
    )
    text = "\n".join(describe_run(moment, "r", []))
    assert said in text
    assert f"r/0 is stopping: {told}" in text


def test_a_run_that_shrinks_is_narrower_at_once_and_its_step_is_stopping() -> None:
    state = started(run("r", 24, malleable=STEPS))
    lines = do(state, Shrink("r", 16))
    assert lines == [
        f"lease/r/2 is stopping: {SHRINKS}; it has until {DEADLINE}",
        "run/r shrinks: from 24 to 16 GPUs",
    ]
    moment = Moment(state, LATER_MS, state.seq)
    assert [cell(RUN, moment, "r", title) for title in ("GPUS", "WIDTH")] == ["24", "16 (8..24)"]


def test_what_is_left_of_a_group_and_of_its_spares_is_not_told_as_an_end() -> None:
    state = world(
        nodes=[node(name, 4) for name in ("n1", "n2", "n3")],
        budgets=[budget("b", "team", envelope("e", 64))],
    )
    do(state, Submit(run("r", 4, group_gpus=4, spares_per_group=6)), NOW_MS)
    assert do(state, MarkNode("n1", NodeStatus.FAILED)) == [
        "node/n1 has failed",
        "lease/r/0 ended: Fail, 4 GPUs lost, 0.07 GPU-hours paid from b/e",
        "run/r: spares take over in group/0: n2[0-3] for n1[0-3]",
        "run/r continues with 4 GPUs, 2 GPUs spare",
    ]


def test_a_bundle_handed_over_twice_in_one_command_is_told_twice() -> None:
    hold_ms = HOUR_MS + 2 * MINUTE_MS
    lines = [envelope(name, 8, gpu_ms_max=8 * hold_ms) for name in ("a", "b", "c")]
    state = world(nodes=fleet({"A": 8}), budgets=[budget("t", "team", *lines)])
    asked = run("r", 8, expected_duration_ms=HOUR_MS)
    do(state, Submit(asked), NOW_MS, executor=False)
    told = do(state, Tick(), NOW_MS + 2 * hold_ms + 1, executor=False)
    assert told == [
        f"run/r handed over at {time_text(NOW_MS + count * hold_ms)}: from t/{giver} (8 GPUs) "
        f"to t/{taker} (8 GPUs), on the same slots"
        for count, giver, taker in ((1, "a", "b"), (2, "b", "c"))
    ]


def test_money_that_ends_takes_a_run_through_all_payers_and_back_to_the_queue() -> None:
    hold_ms = HOUR_MS + 2 * MINUTE_MS
    lines = [envelope(name, 8, gpu_ms_max=8 * hold_ms) for name in ("a", "b")]
    state = world(nodes=fleet({"A": 8}), budgets=[budget("t", "team", *lines)])
    do(state, Submit(run("r", 8, expected_duration_ms=HOUR_MS)), NOW_MS, executor=False)
    told = do(state, Tick(), NOW_MS + 3 * hold_ms, executor=False)
    assert " handed over at " in told[0]
    assert told[1].startswith("lease/r/1 ended: BudgetExhausted, 8 GPUs free, 8.27 GPU-hours")
    assert (
        told[2]
        == "run/r waits again: BudgetExhausted, the envelopes that may pay have no GPU-hours left"
    )


def test_who_submits_a_run_is_not_shown_why_others_wait() -> None:
    """A waiting run is refused for money, then for room that the new run has taken."""
    state = world(nodes=fleet({"A": 8}), budgets=[budget("b", "team", envelope("e", 8))])
    mine = RunSubmitted(at_ms=NOW_MS, actor="test", run=run("mine", 8))
    other = RunSubmitted(at_ms=NOW_MS, actor="test", run=run("other", 8))
    waits = [
        RunRefused(at_ms=NOW_MS, actor="test", run=name, refusal=refusal)
        for name in ("mine", "other")
        for refusal in [
            Refusal(code=RefusalCode.INSUFFICIENT_CAPACITY, subject="no room", remedy="")
        ]
    ]
    apply_all(state, [other, mine, *waits])
    decision = Decision((mine, *waits), changes=(("Run", "mine", Change.SUBMITTED),))
    told = outcome_lines(decision, Moment(state, NOW_MS, state.seq), {}, dry_run=False)
    assert told[0] == "run/mine submitted"
    assert [line for line in told if "other" in line] == [
        "1 other run waits for another reason now; see: quorate queue"
    ]
    decision = Decision(tuple(waits))
    told = outcome_lines(decision, Moment(state, NOW_MS, state.seq), {}, dry_run=False)
    assert any(line.startswith("run/other waits") for line in told)
