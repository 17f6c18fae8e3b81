"""The resolver's rules, one by one: which runs are cut, drawn, or never ended."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from msgspec.structs import replace

from quorate.core.commands import Submit
from quorate.core.decide import decide
from quorate.core.preemption.conflict_scope import Prepared, Question, for_reservation, prepare
from quorate.core.preemption.cut_order import Candidate
from quorate.core.preemption.cut_trial import Trial
from quorate.core.preemption.goals import Ends, Room
from quorate.core.preemption.lottery import dummy_seed
from quorate.core.preemption.resolver import Drawn, Resolver
from quorate.core.preemption.scope_survey import survey_domains
from quorate.model.amounts import HOUR_MS, MINUTE_MS
from quorate.model.events import (
    ConflictCause,
    CutStep,
    EndReason,
    LeaseEnding,
    LeaseStarted,
    NodeMarked,
    NodeStatus,
    ReservationClosed,
    ReservationOutcome,
    Role,
    Scope,
)
from quorate.model.specs import Malleable, Pool, Run
from quorate.model.state.apply_event import apply_all
from quorate.model.state.records import RunRecord
from quorate.model.state.state import State
from quorate.model.state.state_view import StateView
from quorate.testing.builders import NOW_MS, budget, envelope, node, run, world
from tests.oracles.resolving import BEGAN_MS, OWNERS, RESERVED, WANTED, begin, reserve, start

LONG = {"expected_duration_ms": 1_000 * HOUR_MS}


def elastic(least: int, most: int, step: int) -> Malleable:
    return Malleable(gpus_min=least, gpus_max=most, gpus_step=step, gpus_desired=most)


def fixed(name: str, gpus: int, owner: str = "ada", **more: object) -> Run:
    return run(name, gpus, owner, **{**LONG, **more})


def busy(domains: dict[str, int], *runs: Run, pool: Pool | None = None, gpus: int = 8) -> State:
    """Return a fleet on which ``runs`` were started, a minute apart."""
    state = begin(domains, pool, gpus=gpus)
    for number, spec in enumerate(runs):
        assert start(state, spec, NOW_MS + number * MINUTE_MS), spec.name
    return state


def wanting(state: State, spec: Run, *domains: str, at_ms: int = BEGAN_MS) -> Resolver:
    """Return the resolver of a conflict for ``spec`` in ``domains``."""
    reserve(state, spec, [f"r/c/{domain}" for domain in domains])
    resolver = for_reservation(state, f"{spec.name}@1").resolver(state, at_ms)
    assert resolver is not None
    return resolver


def entered(state: State, resolver: Resolver, at_ms: int = BEGAN_MS) -> Prepared | int:
    return prepare(state, for_reservation(state, RESERVED), resolver, at_ms)


def drawn(prepared: Prepared | int, seed: int) -> set[str]:
    assert isinstance(prepared, Prepared)
    found = prepared.draw(dummy_seed(seed))
    assert found is not None
    return {victim.run for victim in found.victims}


def cut(resolver: Resolver) -> list[tuple[CutStep, str, int]]:
    return [(item.step, item.run, item.bundle) for item in resolver.cuts]


def test_the_first_worked_example_shrinks_sixteen_and_draws_for_two() -> None:
    state = busy(
        {"A": 72},
        fixed("J1", 32),
        fixed("J2", 24, "ben", malleable=elastic(8, 24, 8)),
        fixed("J3", 2),
    )
    resolver = wanting(state, run(WANTED, 32, "ben"), "A")
    assert (resolver.deficit, resolver.short) == (18, 2)
    assert cut(resolver) == [(CutStep.SHRINK, "J2", 2), (CutStep.SHRINK, "J2", 1)]
    prepared = entered(state, resolver)
    assert isinstance(prepared, Prepared)
    assert prepared.size_max == 8
    assert [(t.run, t.gpus) for t in prepared.tokens] == [("J2", 8), ("J3", 2)]
    assert {frozenset(drawn(prepared, seed)) for seed in range(20)} == {
        frozenset({"J2"}),
        frozenset({"J3"}),
    }


def test_the_second_worked_example_ends_two_and_never_the_third() -> None:
    ra2 = fixed("RA2", 16, "ben", malleable=elastic(16, 48, 8), selector=(("fabric.domain", "B"),))
    there = {"selector": (("fabric.domain", "B"),)}
    state = busy(
        {"A": 72, "B": 72},
        fixed("RA1", 72, selector=(("fabric.domain", "A"),)),
        replace(ra2, gpus=16, malleable=elastic(16, 16, 8)),
        fixed("MM1", 48, "cy", **there),
        fixed("MM2", 4, "cy", **there),
    )
    resolver = wanting(state, run(WANTED, 64, "cy"), "B")
    assert (resolver.deficit, resolver.short, resolver.cuts) == (60, 60, ())
    prepared = entered(state, resolver)
    assert {frozenset(drawn(prepared, seed)) for seed in range(40)} == {frozenset({"MM1", "RA2"})}


def test_a_fixed_gang_of_two_groups_is_one_token_and_min_equal_max_is_no_shield() -> None:
    state = busy(
        {"A": 16},
        fixed("gang", 8, group_gpus=4),
        fixed("stiff", 8, "ben", malleable=elastic(8, 8, 1)),
    )
    resolver = wanting(state, run(WANTED, 4, "cy"), "A")
    assert resolver.cuts == ()
    prepared = entered(state, resolver)
    assert isinstance(prepared, Prepared)
    assert [(t.run, t.gpus) for t in prepared.tokens] == [("gang", 8), ("stiff", 8)]
    assert {run for seed in range(20) for run in drawn(prepared, seed)} == {"gang", "stiff"}


def test_a_demand_over_two_domains_is_resolved() -> None:
    state = busy({"A": 16, "B": 16}, fixed("a", 16), fixed("b1", 8, "ben"), fixed("b2", 8, "cy"))
    resolver = wanting(state, run(WANTED, 24, "wanting", group_gpus=8), "A", "B")
    assert resolver.deficit == 24
    assert drawn(entered(state, resolver), 0) >= {"a"}


def test_two_gpus_never_end_a_huge_gang_while_something_smaller_will_do() -> None:
    state = busy({"A": 2_112}, fixed("huge", 2_048), *(fixed(f"s{n}", 8, "ben") for n in range(8)))
    resolver = wanting(state, run(WANTED, 2, "cy"), "A")
    prepared = entered(state, resolver)
    assert isinstance(prepared, Prepared)
    assert "huge" not in {token.run for token in prepared.tokens}
    alone = busy({"A": 2_048}, fixed("huge", 2_048))
    assert drawn(entered(alone, wanting(alone, run(WANTED, 2, "cy"), "A")), 1) == {"huge"}


def test_spares_go_first_and_are_not_counted_again_with_their_step() -> None:
    state = busy(
        {"A": 16}, fixed("m", 10, malleable=elastic(4, 10, 3), spares_per_group=2, group_gpus=10)
    )
    resolver = wanting(state, run(WANTED, 6, "cy"), "A")
    assert resolver.short == 0
    assert [item.step for item in resolver.cuts] == [CutStep.SPARE, CutStep.SPARE, CutStep.SPARE]
    more = busy(
        {"A": 16}, fixed("m", 10, malleable=elastic(4, 10, 3), spares_per_group=2, group_gpus=10)
    )
    wider = wanting(more, run(WANTED, 12, "cy"), "A")
    leases = [name for item in wider.cuts for name in item.leases]
    assert len(leases) == len(set(leases))
    assert sum(item.gpus for item in wider.cuts) == 12
    assert wider.short == 0


def test_within_a_step_the_newest_start_comes_first_then_the_later_submission() -> None:
    state = begin({"A": 8})
    for name, at_ms in (("old", NOW_MS), ("x", NOW_MS + HOUR_MS), ("b", NOW_MS + HOUR_MS)):
        spec = fixed(name, 2, malleable=elastic(1, 2, 1))
        assert start(state, spec, at_ms)
    resolver = wanting(state, run(WANTED, 5, "cy"), "A")
    assert [item.run for item in resolver.cuts] == ["b", "x", "old"]


def start_after(state: State, spec: Run, wanted: Run) -> None:
    """Reserve a start in domain A for ``wanted``, and then start ``spec`` out of order."""
    later_ms = state.at_ms + 1
    events = decide(state, Submit(spec), now_ms=later_ms, actor="test").events
    reserve(state, wanted, ["r/c/A"])
    apply_all(
        state,
        [
            replace(event, backfill=True) if isinstance(event, LeaseStarted) else event
            for event in events
        ],
    )


def test_what_overstays_goes_before_spares() -> None:
    state = busy({"A": 8}, fixed("kept", 3, spares_per_group=1))
    guest = fixed("guest", 4, "ben", expected_duration_ms=HOUR_MS)
    start_after(state, guest, run(WANTED, 4, "cy"))
    for at_ms, step in ((NOW_MS + 30 * MINUTE_MS, CutStep.SPARE), (BEGAN_MS, CutStep.BACKFILL)):
        resolver = for_reservation(state, RESERVED).resolver(state, at_ms)
        assert resolver is not None
        assert cut(resolver)[0][0] is step


def test_what_overstays_and_is_older_than_the_waiting_goes_no_sooner_than_others() -> None:
    state = busy({"A": 8}, fixed("kept", 3, spares_per_group=1))
    reserve(state, run("decoy", 8, "ben"), ["r/c/A"])
    closed = ReservationClosed(
        at_ms=NOW_MS + 1,
        actor="test",
        reservation="decoy@1",
        outcome=ReservationOutcome.CANCELLED,
    )
    guest = fixed("guest", 4, "ben", expected_duration_ms=HOUR_MS)
    assert start(state, guest, NOW_MS + 1)
    assert state.runs["guest"].backfills
    apply_all(state, [closed])
    resolver = wanting(state, run(WANTED, 4, "cy"), "A")
    assert CutStep.BACKFILL not in {step for step, _, _ in cut(resolver)}


def test_what_is_going_already_is_room_that_comes() -> None:
    state = busy({"A": 8}, fixed("a", 4), fixed("b", 4, "ben"))
    ending = LeaseEnding(
        at_ms=state.at_ms, actor="", lease="a/0", reason=EndReason.SHRINK, deadline_ms=BEGAN_MS
    )
    apply_all(state, [ending])
    assert wanting(state, run(WANTED, 4, "cy"), "A").deficit == 0


def test_a_young_run_is_not_drawn_unless_it_began_after_the_promise() -> None:
    state = busy({"A": 8}, fixed("young", 8))
    soon = NOW_MS + 59 * MINUTE_MS
    resolver = wanting(state, run(WANTED, 4, "cy"), "A", at_ms=soon)
    assert entered(state, resolver, soon) == 4
    assert drawn(entered(state, resolver, soon + MINUTE_MS), 0) == {"young"}
    late = begin({"A": 8})
    start_after(late, fixed("later", 8), run(WANTED, 4, "cy"))
    again = for_reservation(late, RESERVED).resolver(late, NOW_MS + MINUTE_MS)
    assert again is not None
    assert drawn(entered(late, again, NOW_MS + MINUTE_MS), 0) == {"later"}


def test_money_is_not_made_by_ending_work() -> None:
    state = busy({"A": 8}, fixed("own", 8, "cy"))
    poor = replace(state.budgets["cy"].envelopes[0], concurrency=8)
    state.envelopes["cy/all"].spec = poor  # type: ignore[index]
    resolver = wanting(state, run(WANTED, 4, "cy"), "A")
    assert isinstance(entered(state, resolver), int)


def test_where_nodes_go_whole_what_is_missing_is_counted_in_nodes() -> None:
    pool = Pool(name="default", whole_nodes=False)
    state = busy(
        {"A": 16}, *(fixed(f"r{n}", 4, OWNERS[n % 3]) for n in range(4)), pool=pool, gpus=8
    )
    state.pools["default"] = Pool(name="default", whole_nodes=True)
    resolver = wanting(state, run(WANTED, 8, "wanting"), "A")
    prepared = entered(state, resolver)
    for seed in range(10):
        victims = drawn(prepared, seed)
        nodes = {state.leases[f"{name}/0"].fact.slots[0][0] for name in victims}
        assert len(victims) == 2
        assert len(nodes) == 1


def test_where_a_rack_is_asked_for_what_is_free_in_another_is_missing_all_the_same() -> None:
    state = world(
        nodes=[node("n1", 8, rack="r1"), node("n2", 8, rack="r2")],
        budgets=[budget(name, name, envelope("all", 64)) for name in (*OWNERS, "wanting")],
    )
    there = (("rack", "r1"),)
    for name, owner in (("a", "ada"), ("b", "ben")):
        assert start(state, fixed(name, 4, owner, selector=there), NOW_MS)
    resolver = wanting(state, run(WANTED, 8, "wanting", selector=there), "A")
    assert (resolver.deficit, resolver.short) == (8, 8)


def test_a_spare_that_brings_the_start_no_nearer_is_not_cut() -> None:
    # Beside its group of 4, B has too few GPUs for the other group, with the spare or without.
    a, b = ((("fabric.domain", domain),) for domain in "AB")
    keeper = fixed("b", 1, selector=b, spares_per_group=2)
    state = busy({"A": 4, "B": 7}, fixed("a", 4, selector=a), keeper)
    resolver = wanting(state, run(WANTED, 8, "cy", group_gpus=4), "A", "B")
    assert (resolver.deficit, resolver.short, resolver.cuts) == (4, 4, ())
    assert drawn(entered(state, resolver), 0) == {"a"}


@dataclass(frozen=True)
class Picky:
    """A goal of so many GPUs, and the spares of some runs in any case, which counting ignores."""

    gpus: int
    runs: tuple[str, ...]
    is_plain: bool = True

    def lacking(self, room: Room) -> int:
        return max(0, self.gpus - sum(room.values()))

    def missing(self, view: Callable[[], StateView]) -> int:
        facts = (lease.fact for lease in view().leases.values())
        return sum(fact.role is Role.SPARE and fact.run in self.runs for fact in facts)

    def end_ms(self, view: StateView, leases: Iterable[str]) -> int:
        del view, leases
        return 0

    def room_of(self, ends: Ends) -> Room:
        return {domain: sum(gpus.values()) for domain, gpus in ends.items()}


def test_what_counting_would_give_back_and_is_needed_stays_cut() -> None:
    keepers = {"oldest": 1, "large": 4, "newest": 1}
    state = busy({"A": 9}, *(fixed(name, 1, spares_per_group=n) for name, n in keepers.items()))
    survey = survey_domains(state, "default", "H100", ())
    goal, trial = Picky(3, ("oldest", "newest")), Trial(state, whole=True)
    resolver = Resolver(survey, goal, trial, now_ms=BEGAN_MS)
    assert (resolver.deficit, resolver.short) == (3, 0)
    assert cut(resolver) == [(CutStep.SPARE, name, 0) for name in ("newest", "large", "oldest")]


class InOneRack:
    """A start that fits only while ``keeps`` runs and ``ends`` does not; ``tries`` are counted.

    After ``tries_max`` tries that reach it, the search for such a start has no steps left.
    """

    def __init__(self, ends: str, keeps: str, tries_max: int = 1_000) -> None:
        self.is_plain = False
        self.ends = ends
        self.keeps = keeps
        self.tries_left = tries_max

    def lacking(self, room: Room) -> int:
        return max(0, 1 - sum(room.values()))

    def missing(self, view: Callable[[], StateView]) -> int:
        running = {lease.fact.run for lease in view().leases.values()}
        if self.ends in running or (self.keeps and self.keeps not in running):
            return 1
        self.tries_left -= 1
        return int(self.tries_left < 0)

    def end_ms(self, view: StateView, leases: Iterable[str]) -> int:
        del view, leases
        return 0

    def room_of(self, ends: Ends) -> Room:
        return {domain: sum(gpus.values()) for domain, gpus in ends.items()}


def resolver_of(goal: InOneRack) -> tuple[Resolver, list[Candidate]]:
    state = busy({"A": 12}, fixed("large", 8), fixed("small", 4, "ben"))
    survey = survey_domains(state, "default", "H100", ())
    resolver = Resolver(survey, goal, Trial(state, whole=True), now_ms=BEGAN_MS)
    assert (resolver.deficit, resolver.short) == (1, 1)
    return resolver, resolver.tokens(lambda record: record.since_ms is not None)


def test_some_tokens_that_are_enough_do_not_show_that_all_are() -> None:
    resolver, tokens = resolver_of(InOneRack("large", "small"))
    assert not resolver.suffices(tokens)
    assert resolver.entrants(tokens, 8) is None
    draws = [("ben", "small"), ("ada", "large")]
    assert resolver.draw(tokens, draws) is None


def test_tokens_that_were_enough_stay_enough_when_the_search_has_no_steps_left() -> None:
    resolver, tokens = resolver_of(InOneRack("large", "", tries_max=1))
    assert resolver.suffices(tokens)
    found = resolver.draw(tokens, [("ben", "small"), ("ada", "large")])
    assert found is not None
    assert {victim.run for victim in found.victims} == {"small", "large"}


class Counted(InOneRack):
    """A start for which counting GPUs is usually enough, so that some tokens are tried first."""

    def __init__(self, ends: str, keeps: str, tries_max: int = 1_000) -> None:
        super().__init__(ends, keeps, tries_max)
        self.is_plain = True


def test_tokens_stay_enough_if_some_of_them_were_when_the_search_has_no_steps_left() -> None:
    resolver, tokens = resolver_of(Counted("large", "", tries_max=1))
    assert resolver.suffices(tokens)
    found = resolver.draw(tokens, [("ben", "small"), ("ada", "large")])
    assert found is not None
    assert "large" in {victim.run for victim in found.victims}


class FoundLate(InOneRack):
    """A start that the bounded search finds only after ``is_found`` is set, without any cut."""

    is_found = False

    def lacking(self, room: Room) -> int:
        del room
        return 0

    def missing(self, view: Callable[[], StateView]) -> int:
        del view
        return int(not self.is_found)


def test_no_run_is_drawn_if_the_search_finds_the_start_without_it_after_all() -> None:
    goal = FoundLate("", "")
    resolver, tokens = resolver_of(goal)
    goal.is_found = True
    found = resolver.draw(tokens, [("ben", "small"), ("ada", "large")])
    assert found == Drawn((), (), (), frozenset())


def test_nothing_that_makes_no_room_is_cut() -> None:
    state = busy({"A": 8, "B": 8}, fixed("a", 8), fixed("b", 8, "ben"))
    place = state.leases["a/0"].fact.slots[0][0]
    mark = NodeMarked(at_ms=state.at_ms, actor="", node=place, status=NodeStatus.CORDONED)
    apply_all(state, [mark])
    prepared = entered(state, wanting(state, run(WANTED, 4, "cy"), "A", "B"))
    assert isinstance(prepared, Prepared)
    assert [token.run for token in prepared.tokens] == ["b"]


def test_burst_is_asked_of_the_state_without_what_was_cut_before() -> None:
    state = busy({"A": 8}, fixed("a", 4), fixed("b", 4, "ben"))
    seen: list[int] = []

    def burst(view: StateView, record: RunRecord) -> bool:
        seen.append(len(view.leases))
        return record.spec.owner == "ben"

    question = Question(ConflictCause.BY_HAND, Scope("default", "H100", ()), gpus=6)
    resolver = question.resolver(state, BEGAN_MS, burst=burst)
    assert resolver is not None
    assert cut(resolver) == [(CutStep.BURST, "b", 0)]
    assert resolver.short == 2
    assert seen == [2, 1]


def test_the_spare_of_a_step_is_not_counted_again_with_the_rest_of_its_run() -> None:
    steps = fixed("m", 4, "ben", malleable=elastic(2, 4, 2), group_gpus=2, spares_per_group=1)
    state = busy({"A": 8}, steps, fixed("a", 2))
    question = Question(ConflictCause.BY_HAND, Scope("default", "H100", ()), gpus=7)
    resolver = question.resolver(state, BEGAN_MS, burst=lambda _, run: run.spec.owner == "ben")
    assert resolver is not None
    assert cut(resolver) == [(CutStep.SHRINK, "m", 1), (CutStep.BURST, "m", 0)]
    leases = [name for item in resolver.cuts for name in item.leases]
    assert len(leases) == len(set(leases))
    assert (sum(item.gpus for item in resolver.cuts), resolver.short) == (6, 1)
    assert drawn(prepare(state, question, resolver, BEGAN_MS), 0) == {"a"}


def test_what_is_sensitive_is_never_cut() -> None:
    state = busy({"A": 8}, fixed("a", 4), fixed("b", 4, "ben"))
    record = state.runs.own("a")
    record.spec = replace(record.spec, sensitive=True)
    assert entered(state, wanting(state, run(WANTED, 8, "cy"), "A")) == 4
