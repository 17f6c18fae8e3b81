"""Reservations: correct starts, in their order, that no other start delays."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from quorate.core.audit.history_audit import audit
from quorate.core.audit.invariants import sweep
from quorate.core.commands import Command, Complete, Submit, Tick
from quorate.core.decide import decide
from quorate.core.next_due import next_due_ms
from quorate.ledger.fold import fold
from quorate.model.amounts import HOUR_MS, MINUTE_MS
from quorate.model.events import (
    EndReason,
    Event,
    LeaseEnding,
    LeaseStarted,
    ReservationClosed,
    ReservationMade,
    ReservationMoved,
)
from quorate.model.specs import Funding, Malleable, Pool, Run
from quorate.model.state.apply_event import apply_all
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
    world,
)

DOMAINS = ("A", "B", "C")
NO_CONFLICTS = Pool(
    name="default", disruption_rate_ppm=0, firm_horizon_ms=1_000 * HOUR_MS, reservation_depth=100
)


@dataclass(frozen=True)
class Work:
    """A drawn run: its width, group size, hours, and whether it needs one domain."""

    gpus: int
    group: int | None
    hours: int
    one_domain: bool

    def spec(self, name: str, owner: str) -> Run:
        """Return the run, without grace, so that all times are whole hours."""
        return run(
            name,
            self.gpus,
            owner,
            group_gpus=self.group,
            cross_group_spread=not self.one_domain,
            expected_duration_ms=self.hours * HOUR_MS,
            checkpoint_ms=0,
        )


def works() -> st.SearchStrategy[Work]:
    return st.builds(
        Work,
        gpus=st.integers(1, 8),
        group=st.none() | st.integers(1, 4),
        hours=st.integers(1, 5),
        one_domain=st.booleans(),
    )


@dataclass
class Play:
    """A world, and all its events."""

    state: State
    log: list[Event] = field(default_factory=list)
    has_executor: bool = False

    def do(self, command: Command, at_ms: int) -> list[Event]:
        decision = decide(
            self.state, command, now_ms=at_ms, actor="test", has_executor=self.has_executor
        )
        assert not decision.refusals, decision.refusals
        apply_all(self.state, decision.events)
        self.log += decision.events
        assert sweep(self.state) == []
        if not isinstance(command, Submit):
            again = decide(
                self.state, Tick(), now_ms=at_ms, actor="test", has_executor=self.has_executor
            )
            assert again.events == (), ("a second tick at one instant", again.events)
        return list(decision.events)

    def quarter(self, at_ms: int, takes: dict[str, int]) -> None:
        """Play all that happens until ``at_ms``, in order."""
        seen_ms: int | None = None
        while True:
            ends = [
                (record.since_ms + takes[name], name)
                for name, record in self.state.runs.items()
                if record.leases and record.since_ms is not None
            ]
            due_ms = next_due_ms(self.state, has_executor=self.has_executor, after_ms=seen_ms)
            if ends and min(ends)[0] <= min(at_ms, at_ms if due_ms is None else due_ms):
                self.do(Complete(min(ends)[1], has_gone=True), min(ends)[0])
            elif due_ms is not None and due_ms <= at_ms:
                seen_ms = max(due_ms, self.state.at_ms)
                self.do(Tick(), due_ms)
            else:
                return

    def complete_due(self, at_ms: int) -> None:
        """End the runs whose time is over, one after the other, and tick."""
        for name, record in list(self.state.runs.items()):
            if record.leases and _end_ms(record.since_ms, record.spec) == at_ms:
                self.do(Complete(name, has_gone=True), at_ms)
        self.do(Tick(), at_ms)


def _end_ms(since_ms: int | None, spec: Run) -> int:
    assert since_ms is not None
    assert spec.expected_duration_ms is not None
    return since_ms + spec.expected_duration_ms


def _world(sizes: tuple[int, int, int], width: int, other: int) -> State:
    return world(
        pools=[NO_CONFLICTS],
        nodes=fleet({d: n for d, n in zip(DOMAINS, sizes, strict=True) if n}, gpus=4),
        budgets=[
            budget("b", "team", envelope("e", width)),
            budget("o", "guest", envelope("e", other)),
        ],
    )


# --- A dumb timeline: hour by hour, every way to put every group ---


@dataclass(frozen=True)
class Span:
    """GPUs by domain from one hour to another, paid by one owner."""

    first: int
    last: int
    domains: dict[str, int]
    owner: str


def spans_of(state: State, now_ms: int) -> list[Span]:
    """Return the running and reserved GPUs, in whole hours from now."""
    found = []
    for record in state.runs.values():
        if not record.leases:
            continue
        domains: dict[str, int] = {}
        for name in record.leases:
            for node, mask in state.leases[name].fact.slots:
                key = state.nodes[node].spec.domain
                domains[key] = domains.get(key, 0) + mask.bit_count()
        last = (_end_ms(record.since_ms, record.spec) - now_ms) // HOUR_MS
        found.append(Span(0, last, domains, record.spec.owner))
    for reservation in state.reservations.values():
        spec = state.runs[reservation.made.run].spec
        assert reservation.planned_start_ms is not None
        assert spec.expected_duration_ms is not None
        first = (reservation.planned_start_ms - now_ms) // HOUR_MS
        domains = {key.rpartition("/")[2]: gpus for key, gpus in reservation.slice.domains}
        last = first + spec.expected_duration_ms // HOUR_MS
        found.append(Span(first, last, domains, spec.owner))
    return found


def first_hour(
    sizes: dict[str, int], widths: dict[str, int], spans: list[Span], spec: Run, work: Work
) -> int | None:
    """Return the first hour from which ``work`` fits for its whole time, tried one by one."""
    horizon = max((span.last for span in spans), default=0)
    for hour in range(horizon + 1):
        free = dict(sizes)
        width = widths[spec.owner]
        for moment in range(hour, hour + work.hours):
            now = [span for span in spans if span.first <= moment < span.last]
            for domain, size in sizes.items():
                left = size - sum(span.domains.get(domain, 0) for span in now)
                free[domain] = min(free[domain], left)
            paid = sum(sum(s.domains.values()) for s in now if s.owner == spec.owner)
            width = min(width, widths[spec.owner] - paid)
        if width >= work.gpus and _fits(free, work):
            return hour
    return None


def _fits(free: dict[str, int], work: Work) -> bool:
    if work.one_domain:
        return max(free.values()) >= work.gpus
    if work.group is None:
        return sum(max(0, gpus) for gpus in free.values()) >= work.gpus
    full, rest = divmod(work.gpus, work.group)
    groups = [work.group] * full + ([rest] if rest else [])
    for places in product(free, repeat=len(groups)):
        asked = dict.fromkeys(free, 0)
        for place, gpus in zip(places, groups, strict=True):
            asked[place] += gpus
        if all(asked[d] <= free[d] for d in free):
            return True
    return False


@pytest.mark.heavy
@given(
    sizes=st.tuples(st.integers(1, 8), st.integers(0, 8), st.integers(0, 8)),
    width=st.integers(4, 24),
    other=st.integers(4, 24),
    drawn=st.lists(st.tuples(works(), st.booleans()), min_size=2, max_size=8),
)
@example(
    # The last run waits for the place of the second; after that, it lacks room itself.
    sizes=(7, 3, 0),
    width=4,
    other=19,
    drawn=[
        (Work(gpus=7, group=None, hours=1, one_domain=False), False),
        (Work(gpus=5, group=None, hours=1, one_domain=False), False),
        (Work(gpus=1, group=None, hours=1, one_domain=False), False),
        (Work(gpus=1, group=None, hours=1, one_domain=False), False),
        (Work(gpus=4, group=None, hours=1, one_domain=False), True),
    ],
)
def test_a_reservation_is_made_for_the_first_hour_that_works_and_starts_in_it(
    sizes: tuple[int, int, int], width: int, other: int, drawn: list[tuple[Work, bool]]
) -> None:
    play = Play(_world(sizes, width, other))
    totals = {d: n for d, n in zip(DOMAINS, sizes, strict=True) if n}
    widths = {"team": width, "guest": other}
    for number, (work, mine) in enumerate(drawn):
        spec = work.spec(f"r{number}", "team" if mine else "guest")
        expected = first_hour(totals, widths, spans_of(play.state, NOW_MS), spec, work)
        play.do(Submit(spec), NOW_MS)
        record = play.state.runs[spec.name]
        if record.leases:
            assert expected == 0
        elif record.reservation is None:
            assert expected is None
        else:
            planned_ms = play.state.reservations[record.reservation].planned_start_ms
            assert planned_ms is not None
            assert (planned_ms - NOW_MS, expected) == ((expected or 0) * HOUR_MS, expected)
    promised = {r.made.run: r.planned_start_ms for r in play.state.reservations.values()}
    for hour in range(60):
        play.complete_due(NOW_MS + hour * HOUR_MS)
        if not play.state.leases:
            break
    starts = {e.run: e.start_ms for e in reversed(play.log) if isinstance(e, LeaseStarted)}
    assert {name: starts.get(name) for name in promised} == promised
    assert not any(isinstance(event, ReservationMoved) for event in play.log)
    made = [e.reservation for e in play.log if isinstance(e, ReservationMade)]
    assert sorted(made) == sorted(
        e.reservation for e in play.log if isinstance(e, ReservationClosed)
    )


# --- Starts before a reservation do not delay it ---


@dataclass(frozen=True)
class Arrival:
    """A run that comes after ``wait`` quarters and takes ``share`` of its declared time."""

    wait: int
    work: Work
    mine: bool
    share: int
    spares: int
    steps: int
    borrows: bool

    def spec(self, name: str) -> Run:
        """Return the run; it is malleable if it has steps."""
        more = {}
        if self.steps:
            width = self.work.gpus + self.steps * self.work.gpus
            more["malleable"] = Malleable(
                gpus_min=self.work.gpus,
                gpus_max=width,
                gpus_step=self.work.gpus,
                gpus_desired=width,
            )
        base = self.work.spec(name, "team" if self.mine else "guest")
        return replace(
            base,
            checkpoint_ms=2 * MINUTE_MS,
            spares_per_group=self.spares,
            funding=borrowing() if self.borrows else Funding(),
            **more,
        )


def arrivals() -> st.SearchStrategy[Arrival]:
    return st.builds(
        Arrival,
        wait=st.integers(0, 6),
        work=works(),
        mine=st.booleans(),
        share=st.integers(1, 4),
        spares=st.sampled_from((0, 0, 0, 1)),
        steps=st.sampled_from((0, 0, 1, 2)),
        borrows=st.booleans(),
    )


@pytest.mark.heavy
@given(
    sizes=st.tuples(st.integers(1, 12), st.integers(0, 12), st.integers(0, 8)),
    width=st.integers(4, 24),
    other=st.integers(4, 24),
    coming=st.lists(arrivals(), min_size=2, max_size=10),
    has_executor=st.booleans(),
)
def test_while_nobody_takes_longer_than_said_no_start_moves_later(
    sizes: tuple[int, int, int],
    width: int,
    other: int,
    coming: list[Arrival],
    has_executor: bool,  # noqa: FBT001 - drawn
) -> None:
    opened = opening(
        pools=[NO_CONFLICTS],
        nodes=fleet({d: n for d, n in zip(DOMAINS, sizes, strict=True) if n}, gpus=4),
        budgets=[
            budget("b", "team", envelope("e", width)),
            budget("o", "guest", envelope("e", other, lending=lending(concurrency_max=3))),
        ],
    )
    play = Play(fold(opened), has_executor=has_executor)
    quarter_ms, now_ms = 15 * MINUTE_MS, NOW_MS
    takes: dict[str, int] = {}
    for number, arrival in enumerate(coming):
        for _ in range(arrival.wait):
            now_ms += quarter_ms
            play.quarter(now_ms, takes)
        spec = arrival.spec(f"r{number}")
        assert spec.expected_duration_ms is not None
        takes[spec.name] = max(1, arrival.share * spec.expected_duration_ms // 4)
        play.do(Submit(spec), now_ms)
    for _ in range(4 * 60):
        now_ms += quarter_ms
        play.quarter(now_ms, takes)
    planned: dict[str, int] = {}
    for event in play.log:
        match event:
            case ReservationMade():
                planned[event.reservation] = event.planned_start_ms
            case ReservationMoved():
                assert event.planned_start_ms is not None, event
                assert event.planned_start_ms < planned[event.reservation], event
                planned[event.reservation] = event.planned_start_ms
            case ReservationClosed():
                assert event.at_ms <= planned[event.reservation], event
            case LeaseEnding():
                assert event.reason is not EndReason.OVERSTAYED, event
            case _:
                pass
    assert not play.state.reservations
    assert audit([*opened, *play.log], view=play.state) == []
