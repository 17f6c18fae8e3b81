"""The notices of a block: complete, and with texts that can be understood alone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from quorate.adapters.stores.store_memory import MemoryStore
from quorate.core.commands import (
    Apply,
    Command,
    Complete,
    Drain,
    Fail,
    MarkNode,
    Resolve,
    Submit,
    Tick,
)
from quorate.ledger.chain import open_blocks
from quorate.loop.engine import Engine
from quorate.model.amounts import HOUR_MS, MINUTE_MS
from quorate.model.events import (
    ConflictOutcome,
    ConflictResolved,
    NodeStatus,
    ThresholdCrossed,
)
from quorate.model.notice_kinds import NoticeKind
from quorate.model.specs import Malleable, OnQuota, Owner, Quota
from quorate.testing.builders import budget, envelope, fleet, run
from quorate.testing.memory_engines import HandClock, memory_engine
from quorate.views.notices.notice import KnownFew, KnownView, Notice, names_in
from quorate.views.notices.notice_feed import notices_of

Step = Command | int
"""A command, or a number of milliseconds that pass."""


def played(*steps: Step) -> Engine:
    """Return the ledger after ``steps``, none of which may be refused."""
    clock = HandClock()
    engine = memory_engine(MemoryStore(), clock)
    for step in steps:
        if isinstance(step, int):
            clock.ms += step
        else:
            found = engine.execute(step, actor="root").decision
            assert not found.refusals, (step, found.refusals)
    return engine


def told(engine: Engine) -> Iterator[Notice]:
    """Yield every notice of a ledger."""
    for head, events in open_blocks(engine.store.blocks()):
        yield from notices_of(head.seq - len(events) + 1, events, KnownView(engine.view))


def only(engine: Engine, kind: NoticeKind) -> Notice:
    """Return the only notice of ``kind``."""
    (found,) = (notice for notice in told(engine) if notice.kind is kind)
    return found


def base(gpus: int = 16, *owners: Owner, money: int = 1_000_000) -> Apply:
    """Return a fleet, and owners ``lab`` and ``other`` that can pay for all of it."""
    named = owners or (Owner(name="lab"), Owner(name="other"))
    return Apply(
        (
            *fleet({"A": gpus}),
            *named,
            *(
                budget(f"{each.name}s", each.name, envelope("e", 64, gpu_ms_max=money * HOUR_MS))
                for each in named
            ),
        )
    )


LOTTERY: tuple[Step, ...] = (
    base(),
    Submit(run("a", 8, "lab")),
    Submit(run("b", 8, "other")),
    4 * HOUR_MS,
    Resolve("default", "H100", (), 8),
    HOUR_MS,
    Tick(),
)


def test_a_start_says_where_and_who_pays() -> None:
    found = only(played(base(), Submit(run("train", 16, "lab"))), NoticeKind.RUN_STARTED)
    assert (found.owner, found.user, found.run) == ("lab", "alice", "train")
    assert "with 16 GPUs, on a0000[0-7],a0001[0-7], paid from labs/e (16)" in found.text
    assert found.text.endswith("quorate watch train")
    assert found.facts["payers"] == {"labs/e": 16}


def test_a_run_that_completes_is_told_with_where_to_look() -> None:
    engine = played(base(), Submit(run("train", 8, "lab")), Complete("train", "loss 1.7"))
    found = only(engine, NoticeKind.RUN_COMPLETED)
    assert (found.owner, found.user, found.run) == ("lab", "alice", "train")
    assert found.text.startswith("run/train completed: loss 1.7. What it wrote: quorate logs train")
    assert found.facts == {"outcome": "Completed", "note": "loss 1.7"}


def test_a_run_that_fails_is_told_with_its_note() -> None:
    engine = played(base(), Submit(run("train", 8, "lab")), Fail("train", "exit code 3"))
    found = only(engine, NoticeKind.RUN_FAILED)
    assert found.text.startswith("run/train failed: exit code 3.")
    assert found.facts == {"outcome": "Failed", "note": "exit code 3"}
    assert "What it wrote: quorate logs train." in found.text


def test_a_lottery_is_told_to_who_enters_and_then_to_who_lost_and_who_won() -> None:
    engine = played(*LOTTERY)
    entered = [each for each in told(engine) if each.kind is NoticeKind.LOTTERY_DECLARED]
    assert [(each.owner, each.run) for each in entered] == [("lab", "a"), ("other", "b")]
    assert "a (1/2 (50.0 %)); 2 tokens in all" in entered[0].text
    lost, won = only(engine, NoticeKind.LOTTERY_LOST), only(engine, NoticeKind.LOTTERY_WON)
    assert {lost.run, won.run} == {"a", "b"}
    resolved = engine.view.conflicts["1"].resolved
    assert resolved is not None
    assert lost.facts["odds"] == "1/2"
    assert lost.facts["seed"] == resolved.seed
    assert resolved.seed in lost.text
    for words in ("quorate lottery verify", "quorate describe resolveroutcome 1", "50.0 %"):
        assert words in lost.text
    assert lost.facts["waitsAgain"]
    assert "1 of 2 tokens drawn" in won.text


def test_a_lottery_that_nobody_is_drawn_for_is_told_to_be_off() -> None:
    engine = played(*LOTTERY[:-2])
    resolved = ConflictResolved(
        at_ms=engine.view.at_ms,
        actor="root",
        conflict="1",
        outcome=ConflictOutcome.NOT_NEEDED,
        preimage="",
        beacon="",
        seed="",
        cuts=(),
        draws=(),
        lost_gpu_ms=0,
    )
    found = notices_of(50, [resolved], KnownView(engine.view))
    assert [(each.name, each.kind, each.run) for each in found] == [
        ("50-0", NoticeKind.LOTTERY_WON, "a"),
        ("50-1", NoticeKind.LOTTERY_WON, "b"),
    ]
    assert "no run was drawn: no GPUs were missing any more" in found[0].text
    assert "lottery verify" not in found[0].text


def test_steps_that_are_cut_are_told_with_their_conflict() -> None:
    wide = run(
        "wide",
        16,
        "lab",
        malleable=Malleable(gpus_min=8, gpus_max=16, gpus_step=8, gpus_desired=16),
    )
    engine = played(
        base(), Submit(wide), 4 * HOUR_MS, Resolve("default", "H100", (), 8), HOUR_MS, Tick()
    )
    found = only(engine, NoticeKind.RUN_CUT)
    assert found.facts["step"] == "Shrink"
    assert "run/wide was cut by conflict/1 and loses 8 GPUs" in found.text
    assert "continues with fewer GPUs" in found.text
    assert not found.facts["waitsAgain"]


def test_a_spare_that_is_given_up_is_told() -> None:
    engine = played(
        base(),
        Submit(run("safe", 8, "lab", spares_per_group=8)),
        4 * HOUR_MS,
        Resolve("default", "H100", (), 8),
        HOUR_MS,
        Tick(),
    )
    found = only(engine, NoticeKind.RUN_CUT)
    assert (found.facts["step"], found.facts["gpus"]) == ("Spare", 8)
    assert "Its work continues without them." in found.text


def test_money_that_has_ended_is_told_with_what_comes_next() -> None:
    short = run("train", 8, "lab", expected_duration_ms=30 * MINUTE_MS)
    engine = played(base(money=5), Submit(short), HOUR_MS, Tick())
    found = only(engine, NoticeKind.MONEY_ENDED)
    assert "BudgetExhausted, the envelopes that may pay have no GPU-hours left" in found.text
    assert found.facts["waitsAgain"]
    assert found.text.endswith("quorate explain train")


def test_a_run_that_a_quota_holds_is_told_with_the_numbers() -> None:
    small = Owner(name="lab", quota=Quota(concurrent_runs_max=1))
    engine = played(
        base(16, small),
        Submit(run("first", 8, "lab")),
        Submit(run("second", 8, "lab", on_quota=OnQuota.WAIT)),
    )
    found = only(engine, NoticeKind.QUOTA_PARKED)
    assert 'tenant "lab" has 1 of 1 max_concurrent_allocations' in found.text
    assert (found.facts["current"], found.facts["limit"]) == (1, 1)


@pytest.mark.parametrize(
    ("more", "outcome", "words"),
    [
        ({"spares_per_group": 8}, "swapped", "the lost GPUs are replaced"),
        (
            {"malleable": Malleable(gpus_min=8, gpus_max=16, gpus_step=8, gpus_desired=16)},
            "shrunk",
            "it continues with fewer GPUs",
        ),
        ({}, "requeued", "it waits again, in its old place in the queue"),
    ],
)
def test_a_lost_node_is_told_with_how_its_runs_go_on(
    more: dict[str, object], outcome: str, words: str
) -> None:
    gpus = 16 if "malleable" in more else 8
    engine = played(base(), Submit(run("train", gpus, "lab", **more)))
    if outcome == "shrunk":
        step = next(each for each in engine.view.leases.values() if each.fact.bundle == 1)
    else:
        step = next(
            each for each in engine.view.leases.values() if each.fact.comp_path == "group/0"
        )
    node = step.fact.slots[0][0]
    engine.execute(MarkNode(node, NodeStatus.FAILED, "smoke"), actor="root")
    found = only(engine, NoticeKind.NODE_LOST)
    assert found.facts["outcome"] == outcome
    assert words in found.text
    assert f"node/{node} is Failed" in found.text


def test_a_drained_node_is_told() -> None:
    engine = played(base(8), Submit(run("train", 8, "lab")), Drain("a0000", "new cables"))
    assert only(engine, NoticeKind.NODE_LOST).facts["outcome"] == "requeued"


def test_a_promised_start_that_moves_is_told_with_its_cause() -> None:
    engine = played(
        base(8),
        Submit(run("now", 8, "lab", expected_duration_ms=HOUR_MS)),
        Submit(run("later", 8, "other")),
        2 * HOUR_MS,
        Tick(),
    )
    found = [each for each in told(engine) if each.kind is NoticeKind.START_MOVED]
    assert found
    assert all(each.run == "later" and each.facts["cause"] in each.text for each in found)


def test_a_threshold_is_told_to_the_owner_and_to_no_user() -> None:
    lab = Owner(name="lab", quota=Quota(gpu_ms_budget=10 * HOUR_MS))
    engine = played(base(16, lab), Submit(run("train", 8, "lab")), HOUR_MS + MINUTE_MS, Tick())
    found = only(engine, NoticeKind.THRESHOLD_CROSSED)
    assert (found.owner, found.user, found.run) == ("lab", "", "")
    assert found.facts["percent"] == 80
    assert "quorate usage --tenant lab" in found.text


def test_notices_of_one_event_have_names_of_their_own() -> None:
    engine = played(
        base(),
        Submit(run("a", 8, "lab", user="ada")),
        Submit(run("b", 8, "lab", user="bob")),
        4 * HOUR_MS,
        Resolve("default", "H100", (), 8),
    )
    entered = [each for each in told(engine) if each.kind is NoticeKind.LOTTERY_DECLARED]
    assert [each.user for each in entered] == ["ada", "bob"]
    assert [each.part for each in entered] == [0, 1]
    assert entered[0].name == f"{entered[0].seq}-0"


def test_a_threshold_that_is_left_again_says_so() -> None:
    event = ThresholdCrossed(0, "x", "lab", 80, is_above=False, used_ppm=700_000)
    (found,) = notices_of(7, [event], KnownFew({}, {}))
    assert "has used 70.0 % of a soft budget of its quota, and is clearly below 80 %" in found.text


def test_few_names_are_enough_to_tell_of_a_block() -> None:
    engine = played(*LOTTERY)
    for head, events in open_blocks(engine.store.blocks()):
        first = head.seq - len(events) + 1
        few = KnownFew.of(engine.view, *names_in(events))
        assert notices_of(first, events, few) == notices_of(first, events, KnownView(engine.view))
