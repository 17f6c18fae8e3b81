"""Ways to evade a conflict, and accounts that a changed budget left wrong: one named test each."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from types import FrameType

import pytest
from msgspec.structs import replace

from quorate.adapters.stores.store_memory import MemoryStore
from quorate.core.audit.history_audit import audit
from quorate.core.audit.invariants import sweep
from quorate.core.commands import (
    Apply,
    Cancel,
    Command,
    Complete,
    Decision,
    Draw,
    Fail,
    Resolve,
    Shrink,
    Submit,
    Tick,
)
from quorate.core.decide import decide
from quorate.core.next_due import next_due_ms
from quorate.core.preemption.conflict_preview import Contest, foresee_declared
from quorate.core.preemption.lottery import check_draws, seed_of, seed_parts
from quorate.documents import Documents, parse_documents
from quorate.ledger.chain import open_blocks
from quorate.ledger.snapshot import restore, take
from quorate.loop.driver import Driver
from quorate.loop.engine import Engine
from quorate.model.amounts import HOUR_MS, MINUTE_MS, SECOND_MS
from quorate.model.events import ConflictOutcome, ConflictResolved, Event, LotteryCommitted
from quorate.model.refusal import RefusalCode
from quorate.model.specs import Budget, Cap, CapId, Malleable, Node, Owner, Pool
from quorate.model.state.apply_event import apply_all
from quorate.model.state.records import Phase
from quorate.model.state.state import State
from quorate.testing.builders import NOW_MS, budget, envelope, fleet, run, world
from quorate.testing.memory_engines import LOTTERY_LENGTH, LOTTERY_SECRET, HandClock
from tests.oracles.lotteries import declaration, outcome
from tests.oracles.resolving import committed, link

NOTICE_MS = 15 * MINUTE_MS
LONG_MS = 100 * HOUR_MS
RICH = Pool(name="default", disruption_rate_ppm=1_000_000)
ELASTIC = Malleable(gpus_min=8, gpus_max=16, gpus_step=4, gpus_desired=16)


class Ledger:
    """A ledger in memory whose clock is set by hand; every decision of it is audited."""

    def __init__(
        self,
        nodes: Sequence[Node],
        budgets: Sequence[Budget],
        pool: Pool | None = None,
        *,
        at_ms: int = NOW_MS,
    ) -> None:
        self.clock, self.store = HandClock(at_ms), MemoryStore()
        self.engine = Engine.create(
            self.store,
            self.clock,
            ledger_id="test",
            public_key="",
            actor="test",
            lottery_secret=LOTTERY_SECRET,
            lottery_length=LOTTERY_LENGTH,
        )
        owners = [Owner(name=name) for name in sorted({each.owner for each in budgets})]
        pools = () if pool is None else (pool,)
        self.do(Apply((*pools, *nodes, *owners, *budgets)))

    def do(self, command: Command, *, after_ms: int = 0) -> Decision:
        self.clock.ms += after_ms
        (receipt,) = self.engine.execute_all([command], actor="test")
        assert receipt.decision.refusals == (), receipt.decision.refusals
        assert sweep(self.state) == []
        assert audit(self.events, view=self.state) == []
        return receipt.decision

    @property
    def state(self) -> State:
        return self.engine._state

    @property
    def events(self) -> list[Event]:
        return [event for _, events in open_blocks(self.store.blocks()) for event in events]

    def width(self, name: str) -> int:
        return sum(self.state.leases[lease].gpus for lease in self.state.runs[name].leases)


def rich(*owners: str) -> list[Budget]:
    return [budget(name, name, envelope("all", 64)) for name in owners]


# --- Accounts under caps --------------------------------------------------------------------------


def capped(*names: str, under: Sequence[str], cap: str = "cap") -> Budget:
    """Return a budget of the envelopes ``names``, of which ``under`` share a cap."""
    caps = [Cap(name=cap, flavor="H100", envelopes=tuple(under), concurrency_max=100)]
    return budget("b", "team", *(envelope(name, 8) for name in names), caps=caps if under else ())


CHANGES = {
    "the envelope is left out": capped("e2", under=["e2"]),
    "it is left out with its cap": capped("e2", under=[]),
    "it is taken out of the cap": capped("e1", "e2", under=["e2"]),
    "it moves under another cap": capped("e1", "e2", under=["e1", "e2"], cap="other"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_caps_forget_what_a_reservation_holds_on_an_envelope_exactly_once(name: str) -> None:
    ledger = Ledger(fleet({"A": 8}), [capped("e1", "e2", under=["e1", "e2"]), *rich("other")], RICH)
    ledger.do(Submit(run("busy", 8, "other", expected_duration_ms=HOUR_MS)))
    ledger.do(Submit(run("r", 8, expected_duration_ms=HOUR_MS)))
    (promise,) = ledger.state.reservations.values()
    assert [share.payer for share in promise.payers] == ["b/e1"]
    assert ledger.state.caps[CapId("b/cap")].committed_gpu_ms > 0
    ledger.do(Apply((CHANGES[name],)))
    ledger.do(Cancel("r"))
    assert {cap.committed_gpu_ms for cap in ledger.state.caps.values()} == {0}
    assert {account.committed_gpu_ms for account in ledger.state.envelopes.values()} == {
        0,
        8 * 62 * MINUTE_MS,
    }


@pytest.mark.parametrize("name", CHANGES)
def test_caps_forget_what_a_pledge_holds_on_an_envelope_exactly_once(name: str) -> None:
    # e1 pays only for the spare, so its pledge is all that e1 pays for once the spare is filled.
    first = capped("e1", "e2", under=["e1", "e2"])
    ledger = Ledger(fleet({"A": 16}), [first, *rich("other")], RICH)
    ledger.do(Submit(run("s", 8, spares_per_group=8, expected_duration_ms=LONG_MS)))
    ledger.do(Submit(run("filler", 8, "other", expected_duration_ms=HOUR_MS)))
    assert len(ledger.state.pledges) == 8
    payers = {pledge.payer for pledge in ledger.state.pledges.values()}
    assert len(payers) == 1
    payer = payers.pop()
    account = ledger.state.envelopes[payer]
    assert (account.gpus_active, account.gpus_reserved) == (0, 8)
    changed = CHANGES[name]
    if account.spec.name == "e2":
        changed = _swapped(changed)
    if "left out" in name:
        # The spare is restored under this envelope.
        (receipt,) = ledger.engine.execute_all([Apply((changed,))], actor="test")
        (refusal,) = receipt.decision.refusals
        assert refusal.code is RefusalCode.CONFLICT
        assert "8 GPUs are kept for spares" in refusal.subject
    else:
        ledger.do(Apply((changed,)))
    ledger.do(Complete("filler"))
    ledger.do(Complete("s"))
    assert ledger.state.pledges == {}
    assert {cap.gpus_reserved for cap in ledger.state.caps.values()} == {0}
    assert {cap.gpus_active for cap in ledger.state.caps.values()} == {0}


def _swapped(changed: Budget) -> Budget:
    """Return ``changed`` with the contents of the two envelopes exchanged."""
    other = {"e1": "e2", "e2": "e1"}
    under = [other[name] for cap in changed.caps for name in cap.envelopes]
    names = [other[each.name] for each in changed.envelopes]
    return capped(*names, under=under, cap=changed.caps[0].name if changed.caps else "cap")


def test_an_envelope_that_comes_back_counts_under_its_cap_again() -> None:
    first = capped("e1", "e2", under=["e1", "e2"])
    ledger = Ledger(fleet({"A": 8}), [first, *rich("other")], RICH)
    ledger.do(Submit(run("busy", 8, "other", expected_duration_ms=HOUR_MS)))
    ledger.do(Submit(run("r", 8, expected_duration_ms=HOUR_MS)))
    held = ledger.state.caps[CapId("b/cap")].committed_gpu_ms
    assert held > 0
    # The other envelope pays nothing: the firm start has no payer until the first one is restored.
    (second,) = capped("e2", under=["e2"]).envelopes
    poor = replace(capped("e2", under=["e2"]), envelopes=(replace(second, concurrency=0),))
    ledger.do(Apply((poor,)))
    assert ledger.state.caps[CapId("b/cap")].committed_gpu_ms == 0
    ledger.do(Apply((first,)))
    assert ledger.state.caps[CapId("b/cap")].committed_gpu_ms == held
    assert restore(take(ledger.state)) is not None


# --- Resubmitting while a conflict is open --------------------------------------------------------


def by_hand(seed: int, *, dodge: bool, end: type[Cancel | Complete | Fail] = Cancel) -> Ledger:
    """Return a ledger with a conflict by hand for 8 of 16 GPUs, which ben has evaded or not."""
    ledger = Ledger(fleet({"A": 16}), rich("ada", "ben"), at_ms=NOW_MS + seed)
    ledger.do(Submit(run("a", 8, "ada", expected_duration_ms=LONG_MS, nonce=str(seed))))
    ledger.do(Submit(run("b", 8, "ben", expected_duration_ms=LONG_MS)))
    ledger.do(Resolve("default", "H100", (), 8), after_ms=3 * HOUR_MS)
    if dodge:
        ledger.do(end("b"), after_ms=NOTICE_MS - MINUTE_MS)
        ledger.do(Submit(run("b2", 8, "ben", expected_duration_ms=LONG_MS)))
        assert ledger.state.runs["b2"].phase is Phase.RUNNING
    return ledger


def settled(ledger: Ledger) -> ConflictResolved:
    """Return the outcome of the last conflict when the first one was due."""
    declared = ledger.state.conflicts["1"].declared
    ledger.clock.ms = declared.due_ms
    ledger.do(Tick())
    assert not ledger.state.open_conflicts
    resolved = ledger.state.conflicts[str(len(ledger.state.conflicts))].resolved
    assert resolved is not None
    return resolved


@pytest.mark.slow
def test_resubmitting_under_another_name_does_not_beat_a_conflict_by_hand() -> None:
    honest = Counter(settled(by_hand(seed, dodge=False)).cuts[0].run for seed in range(40))
    dodged = Counter(settled(by_hand(seed, dodge=True)).cuts[0].run for seed in range(40))
    # Half of the draws each: four standard deviations are about 13.
    assert honest.keys() == {"a", "b"}
    assert abs(honest["b"] - 20) <= 13
    assert dodged.keys() == {"a", "b2"}
    assert abs(dodged["b2"] - 20) <= 13


@pytest.mark.parametrize("end", [Cancel, Complete, Fail])
def test_however_an_entrant_ends_what_its_owner_starts_since_enters(
    end: type[Cancel | Complete | Fail],
) -> None:
    ledger = by_hand(0, dodge=True, end=end)
    assert settled(ledger).outcome is ConflictOutcome.CLEARED
    first, second = (ledger.state.conflicts[name] for name in ("1", "2"))
    assert first.resolved is not None
    assert (first.resolved.outcome, first.resolved.preimage) == (ConflictOutcome.INSUFFICIENT, "")
    assert (second.declared.attempt, second.declared.preimage_index) == (2, 1)
    assert second.declared.due_ms == first.declared.due_ms
    assert [token.run for token in second.declared.tokens] == ["a", "b2"]


def test_who_leaves_alone_is_followed_by_what_took_its_place() -> None:
    ledger = Ledger(fleet({"A": 8}), rich("ben", "cy"))
    ledger.do(Submit(run("b", 8, "ben", expected_duration_ms=LONG_MS)))
    ledger.do(Resolve("default", "H100", (), 8), after_ms=3 * HOUR_MS)
    ledger.do(Cancel("b"), after_ms=MINUTE_MS)
    ledger.do(Submit(run("c", 8, "cy", expected_duration_ms=LONG_MS)))
    resolved = settled(ledger)
    assert [cut.run for cut in resolved.cuts] == ["c"]
    assert ledger.state.conflicts["2"].declared.attempt == 2


def test_whoever_merely_left_is_passed_over_and_others_of_its_owner_stay_out() -> None:
    ledger = Ledger(fleet({"A": 24}), rich("ada", "ben"))
    ledger.do(Submit(run("a", 8, "ada", expected_duration_ms=LONG_MS)))
    ledger.do(Submit(run("b", 8, "ben", expected_duration_ms=LONG_MS)))
    young_ms = 3 * HOUR_MS
    ledger.do(Submit(run("young", 8, "ben", expected_duration_ms=LONG_MS)), after_ms=young_ms)
    ledger.do(Resolve("default", "H100", (), 8), after_ms=MINUTE_MS)
    ledger.do(Complete("b"), after_ms=MINUTE_MS)
    assert [cut.run for cut in settled(ledger).cuts] == ["a"]
    assert list(ledger.state.conflicts) == ["1"]


def test_a_third_attempt_still_knows_when_the_first_was_declared() -> None:
    state = world(nodes=fleet({"A": 16}), budgets=rich("ada", "ben"))
    apply_all(state, [committed()])
    declared_ms, due_ms = NOW_MS + 3 * HOUR_MS, NOW_MS + 3 * HOUR_MS + NOTICE_MS

    def do(command: Command, at_ms: int) -> None:
        decision = decide(state, command, now_ms=at_ms, actor="test")
        assert decision.refusals == ()
        apply_all(state, decision.events)

    def ben(name: str, gpus: int) -> Submit:
        return Submit(run(name, gpus, "ben", expected_duration_ms=LONG_MS))

    do(Submit(run("a", 8, "ada", expected_duration_ms=LONG_MS)), NOW_MS)
    do(ben("b", 8), NOW_MS)
    do(Resolve("default", "H100", (), 8), declared_ms)
    for command in (Cancel("b"), ben("b2", 4), ben("b3", 4)):
        do(command, declared_ms + MINUTE_MS)
    contest = foresee_declared(state, state.conflicts["1"].declared, due_ms, draws=10)
    assert isinstance(contest, Contest)
    assert [entrant.run for entrant in contest.entrants] == ["a", "b2", "b3"]
    do(Draw("1", link(1)), due_ms)
    for command in (Cancel("b3"), ben("b4", 4)):
        do(command, due_ms + MINUTE_MS)
    do(Draw("2", link(1)), due_ms + MINUTE_MS)
    last = state.conflicts["3"].declared
    assert (last.attempt, [token.run for token in last.tokens]) == (3, ["a", "b2", "b4"])
    do(Draw("3", link(1)), due_ms + MINUTE_MS)
    assert state.lottery.next_index == 2


def test_a_run_that_shrinks_out_of_the_cuts_is_drawn_for() -> None:
    ledger = Ledger(fleet({"A": 16}), rich("ada"))
    ledger.do(Submit(run("m", 16, "ada", malleable=ELASTIC, expected_duration_ms=LONG_MS)))
    ledger.do(Resolve("default", "H100", (), 8), after_ms=3 * HOUR_MS)
    assert ledger.state.conflicts["1"].declared.tokens == ()
    ledger.do(Shrink("m", 8), after_ms=MINUTE_MS)
    resolved = settled(ledger)
    assert [(cut.run, cut.bundle, cut.gpus) for cut in resolved.cuts] == [("m", 0, 8)]


# --- Growth after a cut by hand -------------------------------------------------------------------


def test_steps_cut_by_hand_are_not_grown_back_for_one_notice() -> None:
    ledger = Ledger(fleet({"A": 16}), rich("ada"))
    ledger.do(Submit(run("m", 16, "ada", malleable=ELASTIC, expected_duration_ms=LONG_MS)))
    ledger.do(Resolve("default", "H100", (), 8), after_ms=3 * HOUR_MS)
    ledger.do(Tick(), after_ms=NOTICE_MS)
    record, cut_ms = ledger.state.runs["m"], ledger.clock.ms
    assert (ledger.width("m"), record.steps_cut_by) == (8, "1")
    assert (record.cut_by, record.cut_ms) == ("", None)
    kept = restore(take(ledger.state))
    assert kept is not None
    assert kept.runs["m"].steps_cut_by == "1"
    ledger.do(Tick(), after_ms=NOTICE_MS - 1)
    assert ledger.width("m") == 8
    due_ms = next_due_ms(ledger.state, has_executor=False, after_ms=ledger.clock.ms)
    assert due_ms == cut_ms + NOTICE_MS
    ledger.do(Tick(), after_ms=1)
    assert ledger.width("m") == 16


# --- What is due ----------------------------------------------------------------------------------


def test_a_conflict_that_nobody_can_settle_is_due_once() -> None:
    ledger = Ledger(fleet({"A": 8}), rich("ada", "ben"), RICH)
    ledger.do(Submit(run("busy", 8, "ben", expected_duration_ms=LONG_MS)))
    ledger.do(Submit(run("r", 8, "ada", expected_duration_ms=HOUR_MS)), after_ms=3 * HOUR_MS)
    engine = Engine.open(ledger.store, ledger.clock)  # Without the secret.
    driver, seen = Driver(engine), list[int]()
    while len(seen) < 20:
        due_ms = driver.step()
        assert due_ms is not None
        seen.append(due_ms)
        ledger.clock.ms = due_ms
    assert list(engine.view.open_conflicts) == ["1"]
    assert min(b - a for a, b in pairwise(seen)) >= MINUTE_MS


# --- Tiny durations -------------------------------------------------------------------------------


@pytest.mark.parametrize("field", ["reservationNotice", "minRuntime"])
@pytest.mark.parametrize(("text", "accepted"), [("0s", False), ("999ms", False), ("1s", True)])
def test_a_notice_or_a_minimum_below_a_second_is_refused(
    field: str, text: str, *, accepted: bool
) -> None:
    head = "apiVersion: quorate.dev/v1\nkind: Pool\nmetadata: {name: a}\n"
    answer = parse_documents(f"{head}spec: {{{field}: {text}}}\n", source="pool.yaml")
    found = () if isinstance(answer, Documents) else answer.problems
    assert [(each.path, each.message, each.remedy) for each in found] == (
        []
        if accepted
        else [(f"spec.{field}", f'must be at least 1s, got "{text}"', "use 1s or more")]
    )


def test_a_pool_of_the_model_never_has_a_cool_down_below_a_minute() -> None:
    unstated = Pool(name="p", notice_ms=0)
    assert (unstated.least_runtime_ms, unstated.pause_ms) == (MINUTE_MS, MINUTE_MS)
    stated = Pool(name="p", runtime_min_ms=0, cool_down_ms=0)
    assert (stated.least_runtime_ms, stated.pause_ms) == (SECOND_MS, MINUTE_MS)


@pytest.mark.parametrize("runtime_min_ms", [None, SECOND_MS])
def test_two_runs_do_not_end_each_other_in_turn_without_notice(runtime_min_ms: int | None) -> None:
    pool = Pool(
        name="default",
        notice_ms=0,
        runtime_min_ms=runtime_min_ms,
        disruption_rate_ppm=1_000_000,
    )
    ledger = Ledger(fleet({"A": 8}), rich("ada", "ben"), pool)
    ledger.do(Submit(run("x", 8, "ada", expected_duration_ms=LONG_MS)))
    ledger.do(Submit(run("y", 8, "ben", expected_duration_ms=LONG_MS)))
    driver, began_ms = Driver(ledger.engine), ledger.clock.ms
    for _ in range(60):
        due_ms = driver.step()
        if due_ms is None or due_ms > began_ms + HOUR_MS:
            break
        ledger.clock.ms = due_ms
    assert len(ledger.state.conflicts) <= 60
    starts = sorted(record.declared.at_ms for record in ledger.state.conflicts.values())
    assert all(b - a >= MINUTE_MS for a, b in pairwise(starts))


def test_a_tiny_minimum_does_not_make_cuts_cheap() -> None:
    pool = Pool(name="default", notice_ms=MINUTE_MS, runtime_min_ms=MINUTE_MS)
    ledger = Ledger(fleet({"A": 8}), rich("ada"), pool)
    ledger.do(Submit(run("a", 8, "ada", expected_duration_ms=LONG_MS)))
    ledger.do(Resolve("default", "H100", (), 8), after_ms=30 * MINUTE_MS)
    resolved = settled(ledger)
    assert resolved.lost_gpu_ms == 8 * 31 * MINUTE_MS
    ledger = Ledger(fleet({"A": 8}), rich("ada"), pool)
    ledger.do(Submit(run("a", 8, "ada", expected_duration_ms=LONG_MS)))
    ledger.do(Resolve("default", "H100", (), 8), after_ms=9 * HOUR_MS)
    assert settled(ledger).lost_gpu_ms == 8 * HOUR_MS


# --- Who may call a conflict ----------------------------------------------------------------------


@pytest.mark.parametrize("end", [Cancel, Complete, Fail])
@pytest.mark.parametrize(("ran_ms", "is_barred"), [(HOUR_MS - 1, True), (HOUR_MS, False)])
def test_an_owner_whose_run_ends_at_once_at_others_cost_is_barred_however_it_ended(
    end: type[Cancel | Complete | Fail], ran_ms: int, *, is_barred: bool
) -> None:
    ledger = Ledger(fleet({"A": 8}), rich("ada", "ben"), RICH)
    ledger.do(Submit(run("busy", 8, "ben", expected_duration_ms=LONG_MS)))
    ledger.do(Submit(run("r", 8, "ada", expected_duration_ms=2 * HOUR_MS)), after_ms=3 * HOUR_MS)
    ledger.do(Tick(), after_ms=NOTICE_MS)
    assert ledger.state.runs["r"].via_conflict == "1"
    ledger.do(end("r"), after_ms=ran_ms)
    barred = {"ada": ledger.clock.ms + 8 * NOTICE_MS} if is_barred else {}
    assert ledger.state.barred == barred


# --- Lowering a limit -----------------------------------------------------------------------------


def counted(state: State, command: Command, now_ms: int) -> tuple[Decision, Counter[str]]:
    """Return a decision, and the number of calls of each function during it."""
    calls = Counter[str]()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            calls[frame.f_code.co_name] += 1

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        return decide(state, command, now_ms=now_ms, actor="test"), calls
    finally:
        sys.setprofile(before)


@pytest.mark.heavy
def test_lowering_an_envelope_looks_at_few_instants() -> None:
    runs = 64
    ledger = world(nodes=fleet({"A": runs}), budgets=[budget("b", "ada", envelope("e", runs))])
    apply_all(ledger, [LotteryCommitted(NOW_MS, "test", "00" * 32, 10)])
    for number in range(runs):
        submit = Submit(run(f"w{number}", 1, "ada", expected_duration_ms=LONG_MS))
        at_ms = NOW_MS + number * MINUTE_MS
        apply_all(ledger, decide(ledger, submit, now_ms=at_ms, actor="test").events)
    for left in (1, 20, 63):
        lower = Apply((budget("b", "ada", envelope("e", left, gpu_ms_max=10**15)),))
        now_ms = NOW_MS + runs * MINUTE_MS
        decision, calls = counted(ledger, lower, now_ms)
        assert calls["suffices"] <= 10
        assert calls["gpus_over"] <= 10
        declared = decision.events[-1]
        # The oldest may be drawn first, and as many runs as exceed the limit are enough.
        ripe_ms = NOW_MS + (runs - left - 1) * MINUTE_MS + 4 * NOTICE_MS
        assert getattr(declared, "due_ms", None) == max(now_ms + NOTICE_MS, ripe_ms), left


# --- Beacons --------------------------------------------------------------------------------------


def test_a_beacon_that_nobody_committed_to_is_refused() -> None:
    ledger = by_hand(0, dodge=False)
    ledger.clock.ms = ledger.state.conflicts["1"].declared.due_ms
    state = ledger.state
    tried = Draw("1", "00" * 32, "round 7")
    decision = decide(state, tried, now_ms=ledger.clock.ms, actor="operator")
    assert decision.events == ()
    (refusal,) = decision.refusals
    assert refusal.code is RefusalCode.CONFLICT
    assert (refusal.subject, refusal.remedy) == (
        "conflict '1' takes no beacon",
        "leave the beacon out",
    )
    assert settled(ledger).beacon == ""


def test_a_published_beacon_is_a_fault_even_when_the_seed_fits_it() -> None:
    declared = declaration()
    shown = outcome(declared, beacon="round 7")
    parts = seed_parts(declared, bytes.fromhex(shown.preimage), "round 7")
    assert seed_of(parts).hex() == shown.seed
    assert check_draws(declared, shown) == ["a beacon is shown, but beacons are not in use"]
