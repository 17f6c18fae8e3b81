"""Conflicts as events: declared, settled, refused, declared again; and tightened limits."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from quorate.core.audit.commit_checks import check_touched
from quorate.core.audit.history_audit import audit
from quorate.core.audit.invariants import sweep
from quorate.core.audit.lottery_audit import Lotteries
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
from quorate.core.decide import decide
from quorate.core.decision_log import DecisionLog
from quorate.core.explain.explanation import Explanation, RemedyKind, explain
from quorate.core.explain.start_plan import Forecast, foretell
from quorate.core.lifecycle.held_back import release_due_ms
from quorate.core.next_due import next_due_ms
from quorate.core.planning.foresight import Foresight
from quorate.core.preemption.conflict_scope import for_reservation
from quorate.core.preemption.conflicts import asked_again, declare_conflict
from quorate.model.amounts import HOUR_MS, MINUTE_MS
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
from quorate.model.refusal import Refusal, RefusalCode, sentence
from quorate.model.specs import Budget, Cap, Malleable, Node, Run
from quorate.model.state.apply_event import apply_all
from quorate.model.state.records import ConflictRecord, Phase
from quorate.model.state.state import State
from quorate.testing.builders import (
    NOW_MS,
    borrowing,
    budget,
    envelope,
    fleet,
    lending,
    opening,
    run,
)
from tests.oracles.lotteries import declaration, nothing_needed
from tests.oracles.resolving import committed, link, reserve

LATER_MS = NOW_MS + 2 * HOUR_MS
LONG_MS = 1_000 * HOUR_MS


class RequestContext:
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
        """Reserve a start for ``spec``, and declare its conflict."""
        reserve(self.state, spec, [f"r/c/{domain}" for domain in domains])
        log = DecisionLog(self.state, now_ms=LATER_MS, actor="test", has_executor=self.has_executor)
        declared = declare_conflict(log, for_reservation(self.state, f"{spec.name}@1"))
        assert isinstance(declared, ConflictDeclared), declared
        apply_all(self.state, log.events)
        return declared


def long(name: str, gpus: int, owner: str = "ada", **more: object) -> Run:
    return run(name, gpus, owner, expected_duration_ms=LONG_MS, nonce=f"n-{name}", **more)


def rich(*owners: str) -> list[Budget]:
    return [budget(name, name, envelope("all", 100)) for name in owners]


def test_by_hand_a_conflict_is_declared_one_notice_ahead_and_settled_when_due() -> None:
    context = RequestContext(rich("ada", "ben"))
    context.start(long("a", 8))
    context.start(long("b", 8, "ben"))
    decision = context.do(Resolve("default", "H100", (), 4))
    (declared,) = decision.events
    assert isinstance(declared, ConflictDeclared)
    assert declared.due_ms == LATER_MS + 15 * MINUTE_MS
    assert (declared.deficit, declared.short, declared.size_max) == (4, 4, 16)
    assert [(t.owner, t.run, t.gpus, t.nonce) for t in declared.tokens] == [
        ("ada", "a", 8, "n-a"),
        ("ben", "b", 8, "n-b"),
    ]
    assert next_due_ms(context.state, has_executor=False) == declared.due_ms
    early = context.do(Draw("1", link(1)))
    assert early.refusals[0].code is RefusalCode.CONFLICT
    resolved = context.draw()
    assert resolved.outcome is ConflictOutcome.CLEARED
    (victim,) = resolved.cuts
    assert resolved.lost_gpu_ms == 8 * HOUR_MS
    ended = [e for e in context.events if isinstance(e, LeaseEnding | LeaseEnded)]
    assert {e.reason for e in ended} == {EndReason.RANDOM_PREEMPT}
    assert {e.detail for e in ended} == {resolved.seed}
    assert len(ended) == 2
    assert context.state.runs[victim.run].cut_by == "1"
    assert context.state.lottery.next_index == 2


def test_asked_again_the_open_conflict_is_the_answer() -> None:
    context = RequestContext(rich("ada"))
    context.start(long("a", 8))
    context.do(Resolve("default", "H100", (), 8))
    assert context.do(Resolve("default", "H100", (), 8)).events == ()
    assert list(context.state.open_conflicts) == ["1"]


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
    context = RequestContext(rich("ada"))
    context.start(long("a", 8))
    decision = context.do(command)
    assert decision.events == ()
    assert decision.refusals[0].code is code
    assert sentence(decision.refusals[0])


def test_a_refusal_tells_what_stays_short() -> None:
    context = RequestContext(rich("ada"))
    context.start(long("a", 8))
    (refusal,) = context.do(Resolve("default", "H100", ("r/c/A",), 10)).refusals
    assert (refusal.wanted, refusal.short) == (10, 2)
    assert sentence(refusal) == (
        "ending all work that may be ended for H100 in r/c/A leaves 2 of 10 GPUs short"
    )


def test_a_refusal_says_that_no_work_may_be_stopped() -> None:
    refusal = Refusal(code=RefusalCode.NOT_RESOLVABLE, subject="H100 in r/c/A", wanted=8, short=8)
    assert sentence(refusal) == "no work may be stopped now for H100 in r/c/A; 8 GPUs stay short"


@pytest.mark.parametrize("preimage", ["", "00" * 32, "zz", link(2), link(1).upper()])
def test_only_the_declared_link_settles_a_lottery(preimage: str) -> None:
    context = RequestContext(rich("ada"))
    context.start(long("a", 8))
    context.do(Resolve("default", "H100", (), 4))
    at_ms = LATER_MS + 15 * MINUTE_MS
    decision = context.do(Draw("1", preimage), at_ms)
    assert decision.refusals[0].code is RefusalCode.CONFLICT
    assert "1" in context.state.open_conflicts
    context.draw()
    again = context.do(Draw("1", link(1)), at_ms)
    assert "settled already: Cleared" in again.refusals[0].subject


def test_without_a_lottery_no_preimage_is_taken_or_used() -> None:
    context = RequestContext(rich("ada"))
    context.start(
        long("m", 8, malleable=Malleable(gpus_min=2, gpus_max=8, gpus_step=2, gpus_desired=8))
    )
    declared = context.do(Resolve("default", "H100", (), 3)).events[0]
    assert isinstance(declared, ConflictDeclared)
    assert (declared.tokens, declared.size_max) == ((), 0)
    refused = context.do(Draw("1", link(1)), declared.due_ms)
    assert refused.refusals[0].code is RefusalCode.CONFLICT
    resolved = context.draw()
    assert (resolved.preimage, resolved.seed, resolved.draws) == ("", "", ())
    assert [cut.step for cut in resolved.cuts] == [CutStep.SHRINK, CutStep.SHRINK]
    assert context.state.lottery.next_index == 1


def test_what_fits_by_itself_when_it_is_due_ends_nobody() -> None:
    context = RequestContext(rich("ada", "ben", "cy"))
    context.start(long("a", 8))
    context.start(long("b", 8, "ben"))
    context.reserve(long("wanted", 8, "cy"), "A")
    decision = decide(context.state, Complete("b"), now_ms=LATER_MS, actor="test")
    apply_all(context.state, decision.events)
    assert context.state.runs["wanted"].leases
    decision = decide(context.state, Draw("1", link(1)), now_ms=LATER_MS, actor="test")
    resolved = decision.events[0]
    assert isinstance(resolved, ConflictResolved)
    assert resolved.outcome is ConflictOutcome.NOT_NEEDED
    assert (resolved.cuts, resolved.draws, resolved.preimage) == ((), (), "")


def test_a_reserved_run_starts_in_the_room_that_is_made_for_it() -> None:
    context = RequestContext(rich("ada", "ben", "cy"))
    context.start(long("a", 8))
    context.start(long("b", 8, "ben"))
    declared = context.reserve(run("wanted", 8, "cy"), "A")
    assert (declared.cause, declared.attempt) == (ConflictCause.RESERVATION, 1)
    decision = decide(context.state, Draw("1", link(1)), now_ms=LATER_MS, actor="test")
    apply_all(context.state, decision.events)
    assert context.state.runs["wanted"].leases
    assert context.state.runs["wanted"].via_conflict == "1"
    (requeued,) = [e for e in decision.events if isinstance(e, RunRequeued)]
    assert requeued.reason is EndReason.RANDOM_PREEMPT


def test_with_an_executor_the_room_comes_when_the_victim_is_gone() -> None:
    context = RequestContext(rich("ada", "cy"), seen=True)
    context.start(long("a", 16))
    context.reserve(run("wanted", 8, "cy"), "A")
    decision = decide(
        context.state, Draw("1", link(1)), now_ms=LATER_MS, actor="test", has_executor=True
    )
    apply_all(context.state, decision.events)
    assert context.state.leases["a/0"].ending is not None
    assert context.state.runs["a"].stopping is not None
    assert not context.state.runs["wanted"].leases
    assert sweep(context.state) == []


def test_a_second_lottery_by_the_same_link_is_declared_anew() -> None:
    context = RequestContext(rich("ada", "ben"), fleet({"A": 8, "B": 8}))
    context.start(long("a", 8))
    context.start(long("b", 8, "ben"))
    context.do(Resolve("default", "H100", ("r/c/A",), 4))
    context.do(Resolve("default", "H100", ("r/c/B",), 4))
    assert context.draw("1").outcome is ConflictOutcome.CLEARED
    second = context.draw("2")
    assert (second.outcome, second.preimage) == (ConflictOutcome.INSUFFICIENT, "")
    anew = context.state.conflicts["3"].declared
    assert (anew.attempt, anew.preimage_index, anew.scope) == (2, 2, second_scope(context))


def second_scope(context: RequestContext) -> object:
    return context.state.conflicts["2"].declared.scope


def test_whoever_has_gone_since_is_passed_over_and_shown_as_spared() -> None:
    context = RequestContext(rich("ada", "ben"))
    context.start(long("a", 8))
    context.start(long("b", 8, "ben"))
    context.do(Resolve("default", "H100", (), 8))
    order = _order(context)
    context.do(Complete(order[0]))
    resolved = context.draw()
    assert [(d.run, d.spared) for d in resolved.draws] == [(order[0], True), (order[1], False)]


def _order(context: RequestContext) -> list[str]:
    """Return the runs a and b in the order in which they would be drawn."""
    declared = context.state.conflicts["1"].declared
    decision = decide(context.state, Draw("1", link(1)), now_ms=declared.due_ms, actor="test")
    resolved = decision.events[0]
    assert isinstance(resolved, ConflictResolved)
    first = resolved.draws[0].run
    return [first, "b" if first == "a" else "a"]


def test_when_too_few_are_left_nobody_is_ended() -> None:
    context = RequestContext(rich("ada", "ben"))
    context.start(long("a", 8))
    context.start(long("b", 8, "ben"))
    context.do(Resolve("default", "H100", (), 16))
    context.do(Complete("b"))
    resolved = context.draw()
    assert resolved.outcome is ConflictOutcome.INSUFFICIENT
    assert (resolved.cuts, resolved.draws, resolved.lost_gpu_ms) == ((), (), 0)
    assert context.state.runs["a"].leases
    assert context.state.disruption == {}


def test_a_run_that_began_anew_since_then_is_not_what_entered() -> None:
    context = RequestContext(rich("ada"), fleet({"A": 8, "B": 8}))
    context.start(long("a", 8))
    context.do(Resolve("default", "H100", (), 8))
    node = context.state.leases["a/0"].fact.slots[0][0]
    context.do(Drain(node), LATER_MS + MINUTE_MS)
    assert context.state.runs["a"].since_ms == LATER_MS + MINUTE_MS
    assert context.draw().outcome is ConflictOutcome.INSUFFICIENT


# --- Tightening -----------------------------------------------------------------------------------


def ada(concurrency: int, *more: object) -> Budget:
    return budget("ada", "ada", envelope("own", concurrency), *more)  # type: ignore[arg-type]


def test_a_tightened_envelope_hands_over_first_and_newest_first() -> None:
    context = RequestContext([ada(16, envelope("rest", 8))])
    context.start(long("old", 4))
    context.start(long("new", 4), NOW_MS + MINUTE_MS)
    decision = context.do(Apply((ada(4, envelope("rest", 8)),)))
    assert decision.refusals == ()
    assert [e.lease for e in decision.events if isinstance(e, LeaseEnded)] == ["new/0"]
    assert context.state.leases["new/1"].fact.reason is StartReason.HANDOVER
    assert context.state.conflicts == {}


def test_the_highest_steps_are_handed_over_first() -> None:
    elastic = Malleable(gpus_min=2, gpus_max=8, gpus_step=2, gpus_desired=8)
    context = RequestContext([ada(16, envelope("rest", 2))])
    context.start(long("m", 8, malleable=elastic))
    context.do(Apply((ada(6, envelope("rest", 2)),)))
    payers = {lease.fact.bundle: str(lease.fact.payer) for lease in context.state.leases.values()}
    assert payers == {0: "ada/own", 1: "ada/own", 2: "ada/own", 3: "ada/rest"}


def test_what_was_told_to_stop_does_not_count_against_a_limit() -> None:
    context = RequestContext([ada(16)], seen=True)
    context.start(long("a1", 4))
    context.start(long("a2", 4))
    context.do(Cancel("a2"))
    assert context.state.leases["a2/0"].ending is not None
    context.do(Apply((ada(4),)))
    assert context.state.conflicts == {}


def test_what_nobody_takes_over_is_a_conflict() -> None:
    context = RequestContext([ada(16), *rich("ben")])
    context.start(long("a1", 4))
    context.start(long("a2", 4))
    context.start(long("b", 4, "ben"))
    context.do(Apply((ada(5),)))
    declared = context.state.conflicts["1"].declared
    assert declared.cause is ConflictCause.TIGHTENED
    assert declared.scope.limit == "envelope ada/own"
    assert (declared.deficit, declared.short) == (3, 3)
    assert declared.due_ms == LATER_MS + 15 * MINUTE_MS, "one notice before anything is drawn for"
    assert [token.run for token in declared.tokens] == ["a1", "a2"]
    resolved = context.draw()
    assert len(resolved.cuts) == 1
    assert context.state.envelopes["ada/own"].gpus_active == 4  # type: ignore[index]


def test_a_tightened_limit_waits_for_what_has_not_run_long_enough() -> None:
    context = RequestContext([ada(16)])
    context.start(long("a", 4), LATER_MS - MINUTE_MS)
    context.do(Apply((ada(2),)))
    declared = context.state.conflicts["1"].declared
    assert declared.due_ms == LATER_MS + 59 * MINUTE_MS
    assert context.do(Submit(long("late", 1))).refusals == ()
    assert not context.state.runs["late"].leases
    assert context.draw().outcome is ConflictOutcome.CLEARED


def test_a_cap_is_tightened_by_steps_of_what_it_pays_for() -> None:
    cap = Cap(name="both", flavor="H100", envelopes=("own", "two"), concurrency_max=8)
    context = RequestContext(
        [budget("ada", "ada", envelope("own", 8), envelope("two", 8), caps=[cap])]
    )
    context.start(
        long("a", 8, malleable=Malleable(gpus_min=2, gpus_max=8, gpus_step=2, gpus_desired=8))
    )
    tight = replace(cap, concurrency_max=5)
    context.do(Apply((budget("ada", "ada", envelope("own", 8), envelope("two", 8), caps=[tight]),)))
    assert context.state.conflicts["1"].declared.scope.limit == "cap ada/both"
    assert [cut.bundle for cut in context.draw().cuts] == [3, 2]


def test_lending_is_tightened_by_ending_what_was_lent() -> None:
    lender = budget("ada", "ada", envelope("own", 8, lending=lending(concurrency_max=8)))
    context = RequestContext([lender, budget("ben", "ben", envelope("few", 1))])
    context.start(long("own", 2))
    context.start(long("b", 4, "ben", funding=borrowing(4)))
    tight = budget("ada", "ada", envelope("own", 8, lending=lending(concurrency_max=1)))
    context.do(Apply((tight,)))
    assert context.state.conflicts["1"].declared.scope.limit == "lending ada/own"
    assert [cut.run for cut in context.draw().cuts] == ["b"]


def test_what_is_not_lent_starts_while_lending_is_tightened() -> None:
    lender = budget("ada", "ada", envelope("own", 8, lending=lending(concurrency_max=8)))
    context = RequestContext([lender, budget("ben", "ben", envelope("few", 1))])
    context.start(long("b", 4, "ben", funding=borrowing(4)))
    tight = budget("ada", "ada", envelope("own", 8, lending=lending(concurrency_max=1)))
    context.do(Apply((tight,)))
    assert context.state.open_conflicts
    context.start(long("own", 2), LATER_MS)
    # As a loan, it would add to the use that is already too high.
    lent = [
        replace(e, tier=Tier.BORROWED) if isinstance(e, LeaseStarted) and e.run == "own" else e
        for e in context.events
    ]
    assert "I2: ada/own: 5 lent GPUs of 1" in [str(v) for v in audit(lent)]
    assert [cut.run for cut in context.draw().cuts] == ["b"]


def test_with_an_executor_a_limit_is_kept_by_what_was_not_told_to_stop() -> None:
    context = RequestContext([ada(16)], seen=True)
    context.start(long("a1", 4))
    context.start(long("a2", 4))
    context.do(Apply((ada(4),)))
    context.draw()
    assert context.state.envelopes["ada/own"].gpus_active == 8  # type: ignore[index]
    assert sum(lease.ending is not None for lease in context.state.leases.values()) == 1


def test_gpu_hours_below_what_is_spent_stay_refused() -> None:
    context = RequestContext([ada(16)])
    context.start(long("a", 4))
    less = budget("ada", "ada", envelope("own", 16, gpu_ms_max=HOUR_MS))
    (refusal,) = context.do(Apply((less,))).refusals
    assert refusal.code is RefusalCode.CONFLICT
    assert "maxGPUHours" in refusal.subject
    assert refusal.remedy


def test_the_audit_finds_a_limit_that_nobody_brings_down() -> None:
    context = RequestContext([ada(16)])
    context.start(long("a", 4))
    context.do(Apply((ada(2),)))
    without = [e for e in context.events if not isinstance(e, ConflictDeclared)]
    assert [str(v) for v in audit(without)] == ["I2: ada/own: 4 GPUs of 2"]


def test_a_run_that_is_over_is_no_victim() -> None:
    context = RequestContext(rich("ada"))
    context.start(long("a", 8))
    context.do(Resolve("default", "H100", (), 8))
    context.do(Complete("a"))
    assert context.state.runs["a"].phase is Phase.COMPLETED
    assert context.draw().outcome is ConflictOutcome.INSUFFICIENT


def test_what_is_asked_again_was_first_asked_by_the_latest_that_asked_the_same() -> None:
    state = State()
    found = []
    for number, attempt in enumerate((1, 2, 1, 2)):
        declared = declaration(conflict=str(number), at_ms=NOW_MS + number)
        declared = replace(declared, attempt=attempt)
        state.conflicts[declared.conflict] = ConflictRecord(declared)
        found.append(asked_again(state, declared).since_ms)
    assert found == [NOW_MS, NOW_MS, NOW_MS + 2, NOW_MS + 2]


@pytest.mark.heavy
def test_who_was_just_cut_by_hand_could_not_start_now_however_much_room_there_is() -> None:
    context = RequestContext(rich("ada", "ben"))
    context.start(long("a", 8))
    context.start(long("b", 8, "ben"))
    context.do(Resolve("default", "H100", (), 4))
    resolved = context.draw()
    notice_ms = context.state.pools["default"].notice_ms
    record, now_ms = context.state.runs[resolved.cuts[0].run], resolved.at_ms
    assert record.phase is Phase.PENDING
    refusal = Foresight.of(context.state, now_ms, has_executor=False).refusal_of(record)
    assert refusal is not None
    assert refusal.code is RefusalCode.JUST_CUT
    found = foretell(context.state, record.spec, now_ms)
    assert isinstance(found, Forecast)
    assert (found.refusal, found.start_ms) == (refusal, now_ms + notice_ms)
    assert (found.reservation, found.parked) == (f"{record.spec.name}@1", "")
    later = Foresight.of(context.state, now_ms + notice_ms, has_executor=False)
    assert later.refusal_of(record) is None


def test_who_was_just_cut_is_not_told_to_let_go_of_sponsors_that_it_does_not_name() -> None:
    context = RequestContext(rich("ada"))
    context.start(long("a", 8, funding=borrowing()))
    context.do(Resolve("default", "H100", (), 4))
    found = explain(context.state, "a", context.draw().at_ms)
    assert isinstance(found, Explanation)
    assert found.refusal is not None
    assert found.refusal.code is RefusalCode.JUST_CUT
    assert RemedyKind.ANY_SPONSOR not in {remedy.kind for remedy in found.remedies}


def test_of_those_who_were_cut_by_hand_the_first_who_may_start_again_is_due() -> None:
    context = RequestContext(rich("ada"))
    for number, name in enumerate(("first", "second")):
        apply_all(context.state, [RunSubmitted(LATER_MS, "test", long(name, 8))])
        declared = declaration(conflict=name, at_ms=NOW_MS + number * HOUR_MS)
        declared = replace(declared, cause=ConflictCause.BY_HAND)
        context.state.conflicts[name] = ConflictRecord(declared, nothing_needed(declared))
        context.state.runs[name].cut_by = name
    notice_ms = context.state.pools["default"].notice_ms
    free_ms = [
        nothing_needed(context.state.conflicts[name].declared).at_ms + notice_ms
        for name in ("first", "second")
    ]
    assert [release_due_ms(context.state, at_ms) for at_ms in (NOW_MS, *free_ms)] == [
        *free_ms,
        None,
    ]
