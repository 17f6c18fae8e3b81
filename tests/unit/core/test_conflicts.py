"""Conflicts as events: declared, settled, refused, declared anew; and limits that are tightened."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from quorate.core.audit import audit
from quorate.core.commands import (
    Apply,
    Cancel,
    Complete,
    Decision,
    Drain,
    Draw,
    Resolve,
    Submit,
)
from quorate.core.conflicts import asked_again, declare_conflict
from quorate.core.decide import decide
from quorate.core.due import next_due_ms
from quorate.core.explain import Explanation, RemedyKind, explain, refused_now
from quorate.core.held_back import release_due_ms
from quorate.core.invariants import sweep
from quorate.core.lottery_audit import Lotteries
from quorate.core.plan import Forecast, foretell
from quorate.core.question import for_reservation
from quorate.core.scribe import Scribe
from quorate.core.touched import check_touched
from quorate.model.amounts import HOUR_MS, MINUTE_MS
from quorate.model.apply import apply_all
from quorate.model.events import (
    ConflictCause,
    ConflictDeclared,
    ConflictOutcome,
    ConflictResolved,
    CutStep,
    EndReason,
    Event,
    LeaseEnded,
    LeaseEnding,
    LeaseStarted,
    RunRequeued,
    RunSubmitted,
    StartReason,
    Tier,
)
from quorate.model.records import ConflictRecord, Phase
from quorate.model.refusal import RefusalCode, sentence
from quorate.model.specs import Budget, Cap, Malleable, Node, Run
from quorate.model.state import State
from quorate.testing.world import NOW_MS, borrowing, budget, envelope, fleet, lending, opening, run
from tests.oracles.lotteries import declaration, nothing_needed
from tests.oracles.resolving import committed, link, reserve

LATER_MS = NOW_MS + 2 * HOUR_MS
LONG_MS = 1_000 * HOUR_MS


class Desk:
    """A ledger's events and state, with commands at any time."""

    def __init__(
        self, budgets: Sequence[Budget], nodes: Sequence[Node] | None = None, *, seen: bool = False
    ) -> None:
        self.events: list[Event] = opening(
            nodes=fleet({"A": 16}) if nodes is None else nodes, budgets=budgets
        )
        self.events.append(committed())
        self.state = State()
        self.has_executor = seen
        apply_all(self.state, self.events)

    def do(self, command: object, at_ms: int = LATER_MS) -> Decision:
        decision = decide(
            self.state,
            command,  # type: ignore[arg-type]
            now_ms=at_ms,
            actor="test",
            has_executor=self.has_executor,
        )
        self.write(decision.events)
        return decision

    def write(self, events: Sequence[Event]) -> None:
        apply_all(self.state, events)
        self.events += events
        assert check_touched(self.state, events) == []
        assert sweep(self.state) == []
        assert audit(self.events, view=self.state) == []
        lotteries = Lotteries()
        assert [fault for event in self.events for fault in lotteries.enter(event)] == []

    def start(self, spec: Run, at_ms: int = NOW_MS) -> None:
        self.do(Submit(spec), at_ms)
        assert self.state.runs[spec.name].leases, spec.name

    def draw(self, conflict: str = "1") -> ConflictResolved:
        declared = self.state.conflicts[conflict].declared
        preimage = link(declared.preimage_index) if declared.tokens else ""
        decision = self.do(Draw(conflict, preimage), max(declared.due_ms, self.state.at_ms))
        assert decision.refusals == ()
        resolved = next(e for e in decision.events if isinstance(e, ConflictResolved))
        assert resolved.conflict == conflict
        return resolved

    def reserve(self, spec: Run, *domains: str) -> ConflictDeclared:
        """Promise ``spec`` a start, and declare the conflict for it."""
        reserve(self.state, spec, [f"r/c/{domain}" for domain in domains])
        scribe = Scribe(self.state, now_ms=LATER_MS, actor="test", has_executor=self.has_executor)
        declared = declare_conflict(scribe, for_reservation(self.state, f"{spec.name}@1"))
        assert isinstance(declared, ConflictDeclared), declared
        apply_all(self.state, scribe.events)
        return declared


def long(name: str, gpus: int, owner: str = "ada", **more: object) -> Run:
    return run(name, gpus, owner, expected_duration_ms=LONG_MS, nonce=f"n-{name}", **more)


def rich(*owners: str) -> list[Budget]:
    return [budget(name, name, envelope("all", 100)) for name in owners]


def test_by_hand_a_conflict_is_declared_one_notice_ahead_and_settled_when_due() -> None:
    desk = Desk(rich("ada", "ben"))
    desk.start(long("a", 8))
    desk.start(long("b", 8, "ben"))
    decision = desk.do(Resolve("default", "H100", (), 4))
    (declared,) = decision.events
    assert isinstance(declared, ConflictDeclared)
    assert declared.due_ms == LATER_MS + 15 * MINUTE_MS
    assert (declared.deficit, declared.short, declared.size_max) == (4, 4, 16)
    assert [(t.owner, t.run, t.gpus, t.nonce) for t in declared.tokens] == [
        ("ada", "a", 8, "n-a"),
        ("ben", "b", 8, "n-b"),
    ]
    assert next_due_ms(desk.state, has_executor=False) == declared.due_ms
    early = desk.do(Draw("1", link(1)))
    assert early.refusals[0].code is RefusalCode.CONFLICT
    resolved = desk.draw()
    assert resolved.outcome is ConflictOutcome.CLEARED
    (victim,) = resolved.cuts
    assert resolved.lost_gpu_ms == 8 * HOUR_MS
    ended = [e for e in desk.events if isinstance(e, LeaseEnding | LeaseEnded)]
    assert {e.reason for e in ended} == {EndReason.RANDOM_PREEMPT}
    assert {e.detail for e in ended} == {resolved.seed}
    assert len(ended) == 2
    assert desk.state.runs[victim.run].cut_by == "1"
    assert desk.state.lottery.next_index == 2


def test_asked_again_the_open_conflict_is_the_answer() -> None:
    desk = Desk(rich("ada"))
    desk.start(long("a", 8))
    desk.do(Resolve("default", "H100", (), 8))
    assert desk.do(Resolve("default", "H100", (), 8)).events == ()
    assert list(desk.state.open_conflicts) == ["1"]


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (Resolve("other", "H100", (), 1), RefusalCode.UNKNOWN_NAME),
        (Resolve("default", "A100", (), 1), RefusalCode.UNKNOWN_NAME),
        (Resolve("default", "H100", ("r/c/Z",), 1), RefusalCode.UNKNOWN_NAME),
        (Resolve("default", "H100", (), 0), RefusalCode.INVALID),
        (Resolve("default", "H100", (), 9), RefusalCode.NOT_RESOLVABLE),
        (Draw("7"), RefusalCode.UNKNOWN_NAME),
    ],
)
def test_what_cannot_be_asked_is_refused_and_nothing_is_written(
    command: object, code: RefusalCode
) -> None:
    desk = Desk(rich("ada"))
    desk.start(long("a", 8))
    decision = desk.do(command)
    assert decision.events == ()
    assert decision.refusals[0].code is code
    assert sentence(decision.refusals[0])


def test_a_refusal_tells_what_stays_short() -> None:
    desk = Desk(rich("ada"))
    desk.start(long("a", 8))
    (refusal,) = desk.do(Resolve("default", "H100", ("r/c/A",), 10)).refusals
    assert (refusal.wanted, refusal.short) == (10, 2)
    assert sentence(refusal) == (
        "ending all that may be ended for H100 in r/c/A leaves 2 of 10 GPUs short"
    )


@pytest.mark.parametrize("preimage", ["", "00" * 32, "zz", link(2), link(1).upper()])
def test_only_the_declared_link_settles_a_lottery(preimage: str) -> None:
    desk = Desk(rich("ada"))
    desk.start(long("a", 8))
    desk.do(Resolve("default", "H100", (), 4))
    at_ms = LATER_MS + 15 * MINUTE_MS
    decision = desk.do(Draw("1", preimage), at_ms)
    assert decision.refusals[0].code is RefusalCode.CONFLICT
    assert "1" in desk.state.open_conflicts
    desk.draw()
    again = desk.do(Draw("1", link(1)), at_ms)
    assert "settled already: Cleared" in again.refusals[0].subject


def test_without_a_lottery_no_preimage_is_taken_or_used() -> None:
    desk = Desk(rich("ada"))
    desk.start(
        long("m", 8, malleable=Malleable(gpus_min=2, gpus_max=8, gpus_step=2, gpus_desired=8))
    )
    declared = desk.do(Resolve("default", "H100", (), 3)).events[0]
    assert isinstance(declared, ConflictDeclared)
    assert (declared.tokens, declared.size_max) == ((), 0)
    refused = desk.do(Draw("1", link(1)), declared.due_ms)
    assert refused.refusals[0].code is RefusalCode.CONFLICT
    resolved = desk.draw()
    assert (resolved.preimage, resolved.seed, resolved.draws) == ("", "", ())
    assert [cut.step for cut in resolved.cuts] == [CutStep.SHRINK, CutStep.SHRINK]
    assert desk.state.lottery.next_index == 1


def test_what_fits_by_itself_when_it_is_due_ends_nobody() -> None:
    desk = Desk(rich("ada", "ben", "cy"))
    desk.start(long("a", 8))
    desk.start(long("b", 8, "ben"))
    desk.reserve(long("wanted", 8, "cy"), "A")
    decision = decide(desk.state, Complete("b"), now_ms=LATER_MS, actor="test")
    apply_all(desk.state, decision.events)
    assert desk.state.runs["wanted"].leases
    decision = decide(desk.state, Draw("1", link(1)), now_ms=LATER_MS, actor="test")
    resolved = decision.events[0]
    assert isinstance(resolved, ConflictResolved)
    assert resolved.outcome is ConflictOutcome.NOT_NEEDED
    assert (resolved.cuts, resolved.draws, resolved.preimage) == ((), (), "")


def test_a_reserved_run_starts_in_the_room_that_is_made_for_it() -> None:
    desk = Desk(rich("ada", "ben", "cy"))
    desk.start(long("a", 8))
    desk.start(long("b", 8, "ben"))
    declared = desk.reserve(run("wanted", 8, "cy"), "A")
    assert (declared.cause, declared.attempt) == (ConflictCause.RESERVATION, 1)
    decision = decide(desk.state, Draw("1", link(1)), now_ms=LATER_MS, actor="test")
    apply_all(desk.state, decision.events)
    assert desk.state.runs["wanted"].leases
    assert desk.state.runs["wanted"].via_conflict == "1"
    (requeued,) = [e for e in decision.events if isinstance(e, RunRequeued)]
    assert requeued.reason is EndReason.RANDOM_PREEMPT


def test_with_an_executor_the_room_comes_when_the_victim_is_gone() -> None:
    desk = Desk(rich("ada", "cy"), seen=True)
    desk.start(long("a", 16))
    desk.reserve(run("wanted", 8, "cy"), "A")
    decision = decide(
        desk.state, Draw("1", link(1)), now_ms=LATER_MS, actor="test", has_executor=True
    )
    apply_all(desk.state, decision.events)
    assert desk.state.leases["a/0"].ending is not None
    assert desk.state.runs["a"].stopping is not None
    assert not desk.state.runs["wanted"].leases
    assert sweep(desk.state) == []


def test_a_second_lottery_by_the_same_link_is_declared_anew() -> None:
    desk = Desk(rich("ada", "ben"), fleet({"A": 8, "B": 8}))
    desk.start(long("a", 8))
    desk.start(long("b", 8, "ben"))
    desk.do(Resolve("default", "H100", ("r/c/A",), 4))
    desk.do(Resolve("default", "H100", ("r/c/B",), 4))
    assert desk.draw("1").outcome is ConflictOutcome.CLEARED
    second = desk.draw("2")
    assert (second.outcome, second.preimage) == (ConflictOutcome.INSUFFICIENT, "")
    anew = desk.state.conflicts["3"].declared
    assert (anew.attempt, anew.preimage_index, anew.scope) == (2, 2, second_scope(desk))


def second_scope(desk: Desk) -> object:
    return desk.state.conflicts["2"].declared.scope


def test_whoever_has_gone_since_is_passed_over_and_shown_as_spared() -> None:
    desk = Desk(rich("ada", "ben"))
    desk.start(long("a", 8))
    desk.start(long("b", 8, "ben"))
    desk.do(Resolve("default", "H100", (), 8))
    order = _order(desk)
    desk.do(Complete(order[0]))
    resolved = desk.draw()
    assert [(d.run, d.spared) for d in resolved.draws] == [(order[0], True), (order[1], False)]


def _order(desk: Desk) -> list[str]:
    """Return the runs a and b in the order in which they would be drawn."""
    declared = desk.state.conflicts["1"].declared
    decision = decide(desk.state, Draw("1", link(1)), now_ms=declared.due_ms, actor="test")
    resolved = decision.events[0]
    assert isinstance(resolved, ConflictResolved)
    first = resolved.draws[0].run
    return [first, "b" if first == "a" else "a"]


def test_when_too_few_are_left_nobody_is_ended() -> None:
    desk = Desk(rich("ada", "ben"))
    desk.start(long("a", 8))
    desk.start(long("b", 8, "ben"))
    desk.do(Resolve("default", "H100", (), 16))
    desk.do(Complete("b"))
    resolved = desk.draw()
    assert resolved.outcome is ConflictOutcome.INSUFFICIENT
    assert (resolved.cuts, resolved.draws, resolved.lost_gpu_ms) == ((), (), 0)
    assert desk.state.runs["a"].leases
    assert desk.state.disruption == {}


def test_a_run_that_began_anew_since_then_is_not_what_entered() -> None:
    desk = Desk(rich("ada"), fleet({"A": 8, "B": 8}))
    desk.start(long("a", 8))
    desk.do(Resolve("default", "H100", (), 8))
    node = desk.state.leases["a/0"].fact.slots[0][0]
    desk.do(Drain(node), LATER_MS + MINUTE_MS)
    assert desk.state.runs["a"].since_ms == LATER_MS + MINUTE_MS
    assert desk.draw().outcome is ConflictOutcome.INSUFFICIENT


# --- Tightening -----------------------------------------------------------------------------------


def ada(concurrency: int, *more: object) -> Budget:
    return budget("ada", "ada", envelope("own", concurrency), *more)  # type: ignore[arg-type]


def test_a_tightened_envelope_hands_over_first_and_newest_first() -> None:
    desk = Desk([ada(16, envelope("rest", 8))])
    desk.start(long("old", 4))
    desk.start(long("new", 4), NOW_MS + MINUTE_MS)
    decision = desk.do(Apply((ada(4, envelope("rest", 8)),)))
    assert decision.refusals == ()
    assert [e.lease for e in decision.events if isinstance(e, LeaseEnded)] == ["new/0"]
    assert desk.state.leases["new/1"].fact.reason is StartReason.HANDOVER
    assert desk.state.conflicts == {}


def test_the_highest_steps_are_handed_over_first() -> None:
    elastic = Malleable(gpus_min=2, gpus_max=8, gpus_step=2, gpus_desired=8)
    desk = Desk([ada(16, envelope("rest", 2))])
    desk.start(long("m", 8, malleable=elastic))
    desk.do(Apply((ada(6, envelope("rest", 2)),)))
    payers = {lease.fact.bundle: str(lease.fact.payer) for lease in desk.state.leases.values()}
    assert payers == {0: "ada/own", 1: "ada/own", 2: "ada/own", 3: "ada/rest"}


def test_what_was_told_to_stop_does_not_count_against_a_limit() -> None:
    desk = Desk([ada(16)], seen=True)
    desk.start(long("a1", 4))
    desk.start(long("a2", 4))
    desk.do(Cancel("a2"))
    assert desk.state.leases["a2/0"].ending is not None
    desk.do(Apply((ada(4),)))
    assert desk.state.conflicts == {}


def test_what_nobody_takes_over_is_a_conflict() -> None:
    desk = Desk([ada(16), *rich("ben")])
    desk.start(long("a1", 4))
    desk.start(long("a2", 4))
    desk.start(long("b", 4, "ben"))
    desk.do(Apply((ada(5),)))
    declared = desk.state.conflicts["1"].declared
    assert declared.cause is ConflictCause.TIGHTENED
    assert declared.scope.limit == "envelope ada/own"
    assert (declared.deficit, declared.short) == (3, 3)
    assert declared.due_ms == LATER_MS + 15 * MINUTE_MS, "one notice before anything is drawn for"
    assert [token.run for token in declared.tokens] == ["a1", "a2"]
    resolved = desk.draw()
    assert len(resolved.cuts) == 1
    assert desk.state.envelopes["ada/own"].gpus_active == 4  # type: ignore[index]


def test_a_tightened_limit_waits_for_what_has_not_run_long_enough() -> None:
    desk = Desk([ada(16)])
    desk.start(long("a", 4), LATER_MS - MINUTE_MS)
    desk.do(Apply((ada(2),)))
    declared = desk.state.conflicts["1"].declared
    assert declared.due_ms == LATER_MS + 59 * MINUTE_MS
    assert desk.do(Submit(long("late", 1))).refusals == ()
    assert not desk.state.runs["late"].leases
    assert desk.draw().outcome is ConflictOutcome.CLEARED


def test_a_cap_is_tightened_by_steps_of_what_it_pays_for() -> None:
    cap = Cap(name="both", flavor="H100", envelopes=("own", "two"), concurrency_max=8)
    desk = Desk([budget("ada", "ada", envelope("own", 8), envelope("two", 8), caps=[cap])])
    desk.start(
        long("a", 8, malleable=Malleable(gpus_min=2, gpus_max=8, gpus_step=2, gpus_desired=8))
    )
    tight = replace(cap, concurrency_max=5)
    desk.do(Apply((budget("ada", "ada", envelope("own", 8), envelope("two", 8), caps=[tight]),)))
    assert desk.state.conflicts["1"].declared.scope.limit == "cap ada/both"
    assert [cut.bundle for cut in desk.draw().cuts] == [3, 2]


def test_lending_is_tightened_by_ending_what_was_lent() -> None:
    lender = budget("ada", "ada", envelope("own", 8, lending=lending(concurrency_max=8)))
    desk = Desk([lender, budget("ben", "ben", envelope("few", 1))])
    desk.start(long("own", 2))
    desk.start(long("b", 4, "ben", funding=borrowing(4)))
    tight = budget("ada", "ada", envelope("own", 8, lending=lending(concurrency_max=1)))
    desk.do(Apply((tight,)))
    assert desk.state.conflicts["1"].declared.scope.limit == "lending ada/own"
    assert [cut.run for cut in desk.draw().cuts] == ["b"]


def test_what_is_not_lent_starts_while_lending_is_tightened() -> None:
    lender = budget("ada", "ada", envelope("own", 8, lending=lending(concurrency_max=8)))
    desk = Desk([lender, budget("ben", "ben", envelope("few", 1))])
    desk.start(long("b", 4, "ben", funding=borrowing(4)))
    tight = budget("ada", "ada", envelope("own", 8, lending=lending(concurrency_max=1)))
    desk.do(Apply((tight,)))
    assert desk.state.open_conflicts
    desk.start(long("own", 2), LATER_MS)
    # Lent, it would be more of what is too much already.
    lent = [
        replace(e, tier=Tier.BORROWED) if isinstance(e, LeaseStarted) and e.run == "own" else e
        for e in desk.events
    ]
    assert "I2: ada/own: 5 lent GPUs of 1" in [str(v) for v in audit(lent)]
    assert [cut.run for cut in desk.draw().cuts] == ["b"]


def test_with_an_executor_a_limit_is_kept_by_what_was_not_told_to_stop() -> None:
    desk = Desk([ada(16)], seen=True)
    desk.start(long("a1", 4))
    desk.start(long("a2", 4))
    desk.do(Apply((ada(4),)))
    desk.draw()
    assert desk.state.envelopes["ada/own"].gpus_active == 8  # type: ignore[index]
    assert sum(lease.ending is not None for lease in desk.state.leases.values()) == 1


def test_gpu_hours_below_what_is_spent_stay_refused() -> None:
    desk = Desk([ada(16)])
    desk.start(long("a", 4))
    less = budget("ada", "ada", envelope("own", 16, gpu_ms_max=HOUR_MS))
    (refusal,) = desk.do(Apply((less,))).refusals
    assert refusal.code is RefusalCode.CONFLICT
    assert "maxGPUHours" in refusal.subject
    assert refusal.remedy


def test_the_audit_finds_a_limit_that_nobody_brings_down() -> None:
    desk = Desk([ada(16)])
    desk.start(long("a", 4))
    desk.do(Apply((ada(2),)))
    without = [e for e in desk.events if not isinstance(e, ConflictDeclared)]
    assert [str(v) for v in audit(without)] == ["I2: ada/own: 4 GPUs of 2"]


def test_a_run_that_is_over_is_no_victim() -> None:
    desk = Desk(rich("ada"))
    desk.start(long("a", 8))
    desk.do(Resolve("default", "H100", (), 8))
    desk.do(Complete("a"))
    assert desk.state.runs["a"].phase is Phase.COMPLETED
    assert desk.draw().outcome is ConflictOutcome.INSUFFICIENT


def test_what_is_asked_again_was_first_asked_by_the_latest_that_asked_the_same() -> None:
    state = State()
    found = []
    for number, attempt in enumerate((1, 2, 1, 2)):
        declared = declaration(conflict=str(number), at_ms=NOW_MS + number)
        declared = replace(declared, attempt=attempt)
        state.conflicts[declared.conflict] = ConflictRecord(declared)
        found.append(asked_again(state, declared).since_ms)
    assert found == [NOW_MS, NOW_MS, NOW_MS + 2, NOW_MS + 2]


def test_who_was_just_cut_by_hand_could_not_start_now_however_much_room_there_is() -> None:
    desk = Desk(rich("ada", "ben"))
    desk.start(long("a", 8))
    desk.start(long("b", 8, "ben"))
    desk.do(Resolve("default", "H100", (), 4))
    resolved = desk.draw()
    notice_ms = desk.state.pools["default"].notice_ms
    record, now_ms = desk.state.runs[resolved.cuts[0].run], resolved.at_ms
    assert record.phase is Phase.PENDING
    refusal = refused_now(desk.state, record, now_ms)
    assert refusal is not None
    assert refusal.code is RefusalCode.JUST_CUT
    found = foretell(desk.state, record.spec, now_ms)
    assert isinstance(found, Forecast)
    assert (found.refusal, found.start_ms) == (refusal, now_ms + notice_ms)
    assert (found.reservation, found.parked) == (f"{record.spec.name}@1", "")
    assert refused_now(desk.state, record, now_ms + notice_ms) is None


def test_who_was_just_cut_is_not_told_to_let_go_of_sponsors_that_it_does_not_name() -> None:
    desk = Desk(rich("ada"))
    desk.start(long("a", 8, funding=borrowing()))
    desk.do(Resolve("default", "H100", (), 4))
    found = explain(desk.state, "a", desk.draw().at_ms)
    assert isinstance(found, Explanation)
    assert found.refusal is not None
    assert found.refusal.code is RefusalCode.JUST_CUT
    assert RemedyKind.ANY_SPONSOR not in {remedy.kind for remedy in found.remedies}


def test_of_those_who_were_cut_by_hand_the_first_who_may_start_again_is_due() -> None:
    desk = Desk(rich("ada"))
    for number, name in enumerate(("first", "second")):
        apply_all(desk.state, [RunSubmitted(LATER_MS, "test", long(name, 8))])
        declared = declaration(conflict=name, at_ms=NOW_MS + number * HOUR_MS)
        declared = replace(declared, cause=ConflictCause.BY_HAND)
        desk.state.conflicts[name] = ConflictRecord(declared, nothing_needed(declared))
        desk.state.runs[name].cut_by = name
    notice_ms = desk.state.pools["default"].notice_ms
    free_ms = [
        nothing_needed(desk.state.conflicts[name].declared).at_ms + notice_ms
        for name in ("first", "second")
    ]
    assert [release_due_ms(desk.state, at_ms) for at_ms in (NOW_MS, *free_ms)] == [*free_ms, None]
