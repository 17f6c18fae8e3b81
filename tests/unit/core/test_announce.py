"""Planned conflicts are announced to affected owners, again after changes, and called off."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from quorate.core.commands import Apply, Cancel, Complete, Draw, Submit, Tick
from quorate.core.preemption.announcements import LOOKED_AT_MAX, first_in_turn
from quorate.core.preemption.lottery import chain_link
from quorate.documents.times import time_text
from quorate.ledger.fold import fold
from quorate.ledger.snapshot import fingerprint, restore, take
from quorate.model.amounts import HOUR_MS, MINUTE_MS
from quorate.model.events import (
    ConflictAnnounced,
    ConflictDeclared,
    ConflictWithdrawn,
    Event,
    RunOdds,
    Scope,
)
from quorate.model.notice_kinds import NoticeKind
from quorate.model.specs import Malleable, Owner, Run
from quorate.model.state.apply_event import apply_all
from quorate.operations.caller import Caller, Role
from quorate.operations.visible_events import Sight
from quorate.testing.builders import NOW_MS, budget, envelope, fleet, run
from quorate.testing.memory_engines import LOTTERY_LENGTH, LOTTERY_SECRET
from quorate.views.notices.notice import KnownView, Notice
from quorate.views.notices.notice_feed import notices_of
from quorate.views.redaction.redaction import OTHERS
from tests.oracles.lives import Life
from tests.oracles.resolving import committed

NOTICE_MS = 15 * MINUTE_MS
LATER_MS = NOW_MS + 2 * HOUR_MS
SCOPE = Scope("default", "H100", ("r/c/A",))


def long(name: str, gpus: int, owner: str) -> Run:
    """Return a run that runs for a day."""
    return run(name, gpus, owner, expected_duration_ms=24 * HOUR_MS, nonce=name)


def life_of(*runs: Run, gpus: int = 32) -> Life:
    """Return a ledger of one domain in which ``runs`` started long ago."""
    owners = ("ada", "ben", "cy", "dee")
    life = Life(
        nodes=fleet({"A": gpus}),
        budgets=[budget(f"b-{name}", name, envelope("e", 32)) for name in owners],
        owners=[Owner(name=name) for name in owners],
    )
    apply_all(life.state, [committed()])
    life.events.append(committed())
    for spec in runs:
        life.do(Submit(spec))
    return life


def of_kind(events: tuple[Event, ...], kind: type[Event]) -> list[Event]:
    """Return the events of one kind."""
    return [event for event in events if isinstance(event, kind)]


def planned() -> tuple[Life, ConflictAnnounced]:
    """Return a ledger in which dee has just planned a conflict with the three other owners."""
    life = life_of(
        long("a", 8, "ada"), long("b", 8, "ben"), long("c", 8, "cy"), long("c2", 8, "cy")
    )
    decision = life.do(Submit(run("d", 8, "dee", nonce="d")), LATER_MS)
    (announced,) = of_kind(decision.events, ConflictAnnounced)
    assert isinstance(announced, ConflictAnnounced)
    return life, announced


def notices(life: Life) -> list[Notice]:
    """Return the notices of all events."""
    return notices_of(1, life.events, KnownView(life.state))


def test_a_planned_conflict_is_announced_at_once_with_the_odds_as_they_stand() -> None:
    life, announced = planned()
    assert (announced.reservation, announced.due_ms) == ("d@1", LATER_MS + NOTICE_MS)
    assert announced.scope == SCOPE
    odds = {(each.owner, each.run): each.ppm for each in announced.runs}
    assert list(odds) == [("ada", "a"), ("ben", "b"), ("cy", "c"), ("cy", "c2")]
    assert sum(odds.values()) == 1_000_000, "one of them ends"
    assert life.state.announced["d@1"].runs == {each.run: each.ppm for each in announced.runs}
    assert fingerprint(fold(life.events)) == fingerprint(life.state)
    back = restore(take(life.state))
    assert back is not None
    assert fingerprint(back) == fingerprint(life.state)


def test_each_owner_gets_a_notice_of_its_own_runs() -> None:
    life, announced = planned()
    told = [each for each in notices(life) if each.kind is NoticeKind.CONFLICT_ANNOUNCED]
    assert [each.owner for each in told] == ["ada", "ben", "cy"]
    of_cy = told[-1]
    ppm = {each.run: each.ppm for each in announced.runs}
    assert of_cy.facts["runs"] == [
        {"run": "c", "oddsPpm": ppm["c"]},
        {"run": "c2", "oddsPpm": ppm["c2"]},
    ]
    assert "may end runs of yours at" in of_cy.text
    for name in ("ada", "ben", "dee", "d@1"):
        assert name not in of_cy.text


def test_a_notice_of_a_lottery_that_is_drawn_at_once_asks_for_nothing_before_it() -> None:
    life, announced = planned()
    life.do(Tick(), announced.due_ms)
    told = [each for each in notices(life) if each.kind is NoticeKind.LOTTERY_DECLARED]
    assert [each.owner for each in told] == ["ada", "ben", "cy"]
    for each in told:
        assert each.facts["due"] == time_text(announced.due_ms)
        assert "before then" not in each.text
        assert "is stopped, with its checkpoint time to save its work. Details:" in each.text


def test_an_owner_sees_its_own_runs_of_an_announcement_and_no_other_name() -> None:
    life, announced = planned()
    sight = Sight(life.state, Caller(actor="x", role=Role.TENANT_ADMIN, user="x", tenant="ben"))
    assert sight.sees(announced)
    shown = sight.told(announced)
    assert isinstance(shown, ConflictAnnounced)
    assert [each.run for each in shown.runs] == ["b"]
    assert shown.reservation == OTHERS
    other = Sight(life.state, Caller(actor="y", role=Role.TENANT_ADMIN, user="y", tenant="dee"))
    assert not other.sees(announced)


def test_room_that_comes_calls_a_conflict_off() -> None:
    life, _ = planned()
    decision = life.do(Complete("c2"), LATER_MS + MINUTE_MS)
    assert life.state.runs["d"].leases, "there is room now"
    (withdrawn,) = of_kind(decision.events, ConflictWithdrawn)
    assert isinstance(withdrawn, ConflictWithdrawn)
    assert withdrawn.runs == ("a", "b", "c")
    assert "d@1" not in life.state.announced


def test_only_owners_whose_odds_changed_by_ten_points_hear_of_it_again() -> None:
    life = life_of(
        long("a", 8, "ada"), long("b", 8, "ben"), long("c", 8, "cy"), long("c2", 8, "cy")
    )
    life.do(Submit(run("d", 16, "dee", nonce="d")), LATER_MS)
    before = dict(life.state.announced["d@1"].runs)
    decision = life.do(Complete("b"), LATER_MS + MINUTE_MS)
    (again,) = of_kind(decision.events, ConflictAnnounced)
    assert isinstance(again, ConflictAnnounced)
    assert again.due_ms == LATER_MS + NOTICE_MS
    owner_of = {run: life.state.runs[run].spec.owner for run in ("a", "c", "c2")}
    changed = {each.run for each in again.runs if abs(each.ppm - before[each.run]) >= 100_000}
    assert changed
    assert {each.owner for each in again.runs} == {owner_of[run] for run in changed}
    quiet = {run for run in owner_of if run not in {each.run for each in again.runs}}
    assert all(life.state.announced["d@1"].runs[run] == before[run] for run in quiet)


def test_nothing_is_announced_twice_while_nothing_changes() -> None:
    life, _ = planned()
    for minute in range(1, 5):
        decision = life.do(Tick(), LATER_MS + minute * MINUTE_MS)
        assert not of_kind(decision.events, ConflictAnnounced)


def test_a_conflict_that_is_not_wanted_any_more_is_called_off() -> None:
    life, _ = planned()
    decision = life.do(Cancel("d"), LATER_MS + MINUTE_MS)
    (withdrawn,) = of_kind(decision.events, ConflictWithdrawn)
    assert isinstance(withdrawn, ConflictWithdrawn)
    assert (withdrawn.reservation, withdrawn.runs) == ("d@1", ("a", "b", "c", "c2"))
    told = [each for each in notices(life) if each.kind is NoticeKind.CONFLICT_WITHDRAWN]
    assert [each.owner for each in told] == ["ada", "ben", "cy"]
    assert "is cancelled" in told[0].text
    assert not life.state.announced


def test_a_lottery_that_is_declared_ends_its_announcement() -> None:
    life, _ = planned()
    decision = life.do(Tick(), LATER_MS + NOTICE_MS)
    assert of_kind(decision.events, ConflictDeclared)
    assert not of_kind(decision.events, ConflictWithdrawn)
    assert not life.state.announced
    life.do(Draw("1", chain_link(LOTTERY_SECRET, 1, length=LOTTERY_LENGTH).hex()))
    assert life.state.runs["d"].leases


def test_a_run_that_comes_in_is_announced_to_its_owner_alone() -> None:
    life = life_of(long("a", 8, "ada"), long("b", 8, "ben"), long("m", 8, "cy"), gpus=32)
    life.do(Submit(run("wide", 32, "dee", nonce="w")), LATER_MS)
    (first,) = [e for e in life.events if isinstance(e, ConflictAnnounced)]
    assert {each.run for each in first.runs} == {"a", "b", "m"}
    short = run("late", 4, "ben", expected_duration_ms=5 * MINUTE_MS, nonce="l")
    decision = life.do(Submit(short), LATER_MS + MINUTE_MS)
    if life.state.runs["late"].leases:
        (news,) = of_kind(decision.events, ConflictAnnounced)
        assert isinstance(news, ConflictAnnounced)
        assert {each.owner for each in news.runs} == {"ben"}
        assert RunOdds("ben", "late", 1_000_000) in news.runs


def test_a_limit_below_its_use_gives_notice_before_anything_is_cut_by_lot() -> None:
    life = life_of(long("a", 8, "ada"), long("a2", 8, "ada"))
    lowered = budget("b-ada", "ada", envelope("e", 8))
    decision = life.do(Apply((lowered,)), LATER_MS)
    (declared,) = of_kind(decision.events, ConflictDeclared)
    assert isinstance(declared, ConflictDeclared)
    assert declared.due_ms == LATER_MS + NOTICE_MS
    told = [each for each in notices(life) if each.kind is NoticeKind.LOTTERY_DECLARED]
    assert [each.owner for each in told] == ["ada"]
    assert "Save your work before then. Details:" in told[0].text


@pytest.mark.heavy
def test_every_planned_conflict_is_announced_at_once_however_many_there_are() -> None:
    life = life_of(*(long(f"r{number}", 4, "ada") for number in range(8)))
    for number in range(6):
        spec = run(f"w{number}", 4, ("ben", "cy", "dee")[number % 3], nonce=f"w{number}")
        life.do(Submit(spec), LATER_MS + number * 1_000)
    planned = {n for n, record in life.state.reservations.items() if record.by_conflict}
    assert len(planned) > 4
    assert set(life.state.announced) == planned


@pytest.mark.heavy
def test_conflicts_that_need_no_lottery_delay_no_announcement_of_one_that_does() -> None:
    owners = ("ada", "ben", "cy", "dee")
    narrow = [each for number in range(5) for each in fleet({f"S{number}": 16})]
    life = Life(
        nodes=[*narrow, *fleet({"A": 32})],
        budgets=[budget(f"b-{owner}", owner, envelope("e", 200)) for owner in owners],
        owners=[Owner(name=owner) for owner in owners],
    )
    apply_all(life.state, [committed()])
    life.events.append(committed())
    wide = Malleable(gpus_min=8, gpus_max=16, gpus_step=8, gpus_desired=16)
    long_ms = 24 * HOUR_MS
    for number in range(5):
        there = (("fabric.domain", f"S{number}"),)
        spec = run(f"wide{number}", 16, "ada", malleable=wide, selector=there)
        life.do(Submit(replace(spec, expected_duration_ms=long_ms)))
    in_a = (("fabric.domain", "A"),)
    for number, owner in enumerate(("ada", "ben", "cy", "cy")):
        spec = run(f"held{number}", 8, owner, selector=in_a)
        life.do(Submit(replace(spec, expected_duration_ms=long_ms)))
    for number in range(5):
        there = (("fabric.domain", f"S{number}"),)
        life.do(Submit(run(f"shrinks{number}", 8, "dee", selector=there)), LATER_MS)
    decision = life.do(Submit(run("draws", 8, "dee", selector=in_a)), LATER_MS)
    (announced,) = of_kind(decision.events, ConflictAnnounced)
    assert isinstance(announced, ConflictAnnounced)
    assert announced.reservation == "draws@1"


@pytest.mark.parametrize("events", range(1, 25))
def test_a_day_of_equal_decisions_looks_at_every_conflict(events: int) -> None:
    """An idle service decides every quarter of an hour, and may record equally many events."""
    for count in range(1, 25):
        looked_at = {
            (first_in_turn(seq, count) + more) % count
            for seq in range(1_000, 1_000 + 96 * events, events)
            for more in range(LOOKED_AT_MAX)
        }
        assert looked_at == set(range(count))
