"""Histories of lotteries that the audit must reject."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from msgspec import structs

from quorate.core.audit.lottery_audit import Lotteries
from quorate.core.preemption.conflict_preview import ordeals_of
from quorate.model.events import (
    ConflictDeclared,
    CutStep,
    EndReason,
    Event,
    LeaseEnded,
    LeaseEnding,
    LeaseStarted,
    LotteryCommitted,
)
from quorate.model.state.apply_event import apply_all
from quorate.model.state.records import ConflictRecord
from quorate.model.state.state import State
from tests.oracles.lotteries import (
    FLEET,
    LENGTH,
    START_MS,
    declaration,
    honest,
    link,
    nothing_needed,
    opening,
    outcome,
    stops,
    token,
)


def faults(events: Iterable[Event]) -> list[str]:
    books = Lotteries()
    return [str(violation) for event in events for violation in books.enter(event)]


def test_an_honest_history_has_no_fault() -> None:
    assert faults(honest().events()) == []


def test_a_link_that_was_not_revealed_is_named_again() -> None:
    first, second = declaration(1), declaration(1, conflict="c-2", at_ms=START_MS + 10**7)
    history = [*opening(), first, nothing_needed(first), second, outcome(second)]
    assert faults(history) == []
    skipped = declaration(2, conflict="c-2", at_ms=START_MS + 10**7)
    found = faults([*opening(), first, nothing_needed(first), skipped])
    assert any("names link 2, but 0" in fault for fault in found)


def test_a_link_that_was_revealed_is_not_named_again() -> None:
    first, second = declaration(1), declaration(1, conflict="c-2")
    found = faults([*opening(), first, outcome(first), second])
    assert any("names link 1, but 1" in fault for fault in found)
    assert any("last public link" in fault for fault in found)


def test_of_two_open_conflicts_with_one_link_only_one_may_draw() -> None:
    first, second = declaration(1), declaration(1, conflict="c-2")
    opened = [*opening(), first, second, outcome(first)]
    assert faults([*opened, nothing_needed(second)]) == []
    assert faults([*opened, outcome(second, draws=0)]) == []
    assert faults([*opened, outcome(second)]) == [
        "I9: c-2: draws by a link that another lottery has used"
    ]


def test_a_chain_ends() -> None:
    history = opening()
    for number in range(1, LENGTH + 1):
        declared = declaration(number, conflict=f"c-{number}")
        history += [declared, outcome(declared, draws=1, spared=())]
    assert faults(history) == []
    beyond = structs.replace(
        declaration(1), preimage_index=LENGTH + 1, commitment=link(LENGTH).hex(), conflict="c"
    )
    assert faults([*history, beyond]) == [
        f"I9: c: names link {LENGTH + 1}, but {LENGTH} of {LENGTH} links are revealed"
    ]
    anew: list[Event] = [
        LotteryCommitted(START_MS, "root", link(0).hex(), LENGTH),
        declaration(1, conflict="c"),
    ]
    assert faults([*history, *anew]) == []


def test_a_new_chain_before_the_end_of_the_last_is_found() -> None:
    committed = LotteryCommitted(0, "root", "ab" * 32, 10)
    assert faults([*opening(), committed]) == [
        f"I9: a lottery chain: begins when only 0 of {LENGTH} links of the previous chain are used"
    ]


@pytest.mark.parametrize(("commitment", "length"), [("", 6), ("AB" * 32, 6), ("ab" * 32, 0)])
def test_a_chain_needs_a_link_and_a_length(commitment: str, length: int) -> None:
    found = faults([LotteryCommitted(0, "root", commitment, length)])
    assert found == ["I9: a lottery chain: has no link or no length"]


def test_a_conflict_needs_a_chain() -> None:
    events = [event for event in opening() if not isinstance(event, LotteryCommitted)]
    found = faults([*events, declaration(1)])
    assert "I9: c-1: is declared before any lottery chain was committed" in found


@pytest.mark.parametrize(
    "entered",
    [
        structs.replace(token("ada", "a1"), nonce="chosen afterwards"),
        structs.replace(token("ada", "a1"), owner="ben"),
        token("ada", "never submitted"),
    ],
    ids=str,
)
def test_a_token_is_what_was_submitted(entered: Any) -> None:
    declared = structs.replace(declaration(), tokens=(entered, token("cy", "c1")))
    (found,) = faults([*opening(), declared])
    assert f"has a token of {entered.run} with another owner" in found


def test_a_conflict_is_declared_once_and_resolved_once() -> None:
    first = declaration(1)
    declared_again: list[Event] = [*opening(), first, outcome(first), declaration(2)]
    assert faults(declared_again) == ["I9: c-1: is declared a second time"]
    resolved_again: list[Event] = [*opening(), first, outcome(first), nothing_needed(first)]
    assert faults(resolved_again) == ["I9: c-1: is resolved, but was not open"]
    assert faults([outcome(first)]) == ["I9: c-1: is resolved, but was not open"]


def _settled() -> tuple[list[Event], ConflictDeclared]:
    declared = declaration(1)
    return [*opening(), declared], declared


def test_the_faults_of_an_outcome_are_faults_of_the_history() -> None:
    history, declared = _settled()
    forged = structs.replace(outcome(declared), seed="00" * 32)
    (found,) = faults([*history, forged])
    assert found.startswith("I9: c-1: the seed does not follow")


def test_a_victim_loses_its_own_leases_only() -> None:
    history, declared = _settled()
    shown = outcome(declared)
    cuts = [
        structs.replace(cut, leases=("lease of a1",)) if cut.step is CutStep.LOTTERY else cut
        for cut in shown.cuts
    ]
    found = faults([*history, structs.replace(shown, cuts=tuple(cuts))])
    assert any("cuts a lease that is not one of" in fault for fault in found)


def test_nobody_but_a_victim_is_preempted_at_random() -> None:
    history, declared = _settled()
    shown = outcome(declared)
    spared = next(each.run for each in shown.draws if each.spared)
    end = LeaseEnding(
        shown.at_ms, "clock", f"lease of {spared}", EndReason.RANDOM_PREEMPT, 0, shown.seed
    )
    assert faults([*history, shown, end]) == [
        f"I9: lease of {spared}: is preempted at random, but was not drawn"
    ]


def test_a_victim_is_not_ended_before_its_conflict_is_resolved() -> None:
    history, declared = _settled()
    shown = outcome(declared)
    found = faults([*history, *stops(shown), shown])
    assert len([fault for fault in found if "was not drawn" in fault]) == len(stops(shown))


@pytest.mark.parametrize("kind", [LeaseEnding, LeaseEnded])
def test_a_victim_is_told_the_seed(kind: type[Event]) -> None:
    history, declared = _settled()
    shown = outcome(declared)
    ends = [
        structs.replace(event, detail="bad luck") if isinstance(event, kind) else event
        for event in stops(shown)
    ]
    found = faults([*history, shown, *ends])
    assert len(found) == len(ends) // 2
    assert all("does not name the seed that drew it" in fault for fault in found)


def test_a_victim_may_end_by_itself() -> None:
    history, declared = _settled()
    shown = outcome(declared)
    ends = [event for event in stops(shown) if isinstance(event, LeaseEnded)]
    over = [structs.replace(event, reason=EndReason.END, detail="") for event in ends]
    assert faults([*history, shown, *over]) == []


def test_a_run_that_was_drawn_is_told_whether_it_was_spared() -> None:
    state = State()
    apply_all(state, [e for e in opening() if not isinstance(e, LeaseStarted)])
    declared = declaration()
    shown = outcome(declared, spared=(1,))
    state.conflicts[declared.conflict] = ConflictRecord(declared, shown)
    told = {run: ordeals_of(state, run)[0].was_spared for _, run in FLEET}
    assert told == {run: any(d.run == run and d.spared for d in shown.draws) for _, run in FLEET}
    assert sorted(told.values()) == [False] * 4 + [True]
