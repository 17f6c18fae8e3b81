"""``explain``: why a run waits now, and remedies that work when they are carried out."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from quorate.core.accounting.wait_causes import Wait
from quorate.core.commands import (
    Apply,
    Cancel,
    Command,
    Complete,
    Decision,
    Fail,
    Submit,
    UpdateOwner,
)
from quorate.core.decide import decide
from quorate.core.explain import budget_remedies, end_remedies, quota_remedies, run_remedies
from quorate.core.explain.explanation import Explanation, Remedy, RemedyKind, explain
from quorate.core.explain.remedies import Trials
from quorate.documents import Documents, parse_tree, render
from quorate.model.amounts import HOUR_MS
from quorate.model.events import Event, LeaseStarted
from quorate.model.refusal import Refusal, RefusalCode
from quorate.model.specs import (
    Budget,
    Cap,
    Follow,
    Malleable,
    Node,
    OnQuota,
    Owner,
    Pool,
    Quota,
    Run,
)
from quorate.model.state.apply_event import apply_all
from quorate.model.state.records import Phase
from quorate.model.state.state import State
from quorate.testing.builders import (
    NOW_MS,
    borrowing,
    budget,
    envelope,
    fleet,
    lending,
    node,
    run,
    world,
)
from quorate.views.runs.explanation_view import explanation_lines
from tests.oracles.counting import counting
from tests.oracles.effort import sized


def give(state: State, command: Command, at_ms: int = NOW_MS) -> Decision:
    decision = decide(state, command, now_ms=at_ms, actor="test")
    assert not decision.refusals, decision.refusals
    apply_all(state, decision.events)
    return decision


def explained(state: State, name: str, at_ms: int = NOW_MS) -> Explanation:
    found = explain(state, name, at_ms)
    assert isinstance(found, Explanation), found
    return found


def of_kind(explanation: Explanation, kind: RemedyKind) -> list[Remedy]:
    return [remedy for remedy in explanation.remedies if remedy.kind is kind]


def changes(explanation: Explanation, kind: RemedyKind) -> list[dict[str, object]]:
    return [dict(remedy.changes) for remedy in of_kind(explanation, kind)]


def started(events: tuple[Event, ...]) -> set[str]:
    return {event.run for event in events if isinstance(event, LeaseStarted)}


def assert_proven(state: State, name: str, remedy: Remedy, at_ms: int = NOW_MS) -> None:
    """Carry ``remedy`` out from its command alone, and check that the run or its copy starts."""
    command = command_of(state, remedy)
    if remedy.instead:
        state = state.overlay()
        give(state, Cancel(name), at_ms)
    decision = decide(state, command, now_ms=at_ms, actor="test")
    assert not decision.refusals, (remedy, decision.refusals)
    starts = command.run.name if isinstance(command, Submit) else name
    assert starts in started(decision.events), remedy


def command_of(state: State, remedy: Remedy) -> Command:
    """Return the command of ``remedy.command``, read through the documents that users write."""
    words = list(remedy.command)
    assert words.pop(0) == "quorate"
    if words[0] == "cancel":
        return Cancel(words[1])
    if words[0] == "admin":
        assert words[:3] == ["admin", "tenant", "update"]
        fields = {"--max-nodes": "nodes_max", "--max-concurrent-allocations": "concurrent_runs_max"}
        flags = zip(words[4::2], words[5::2], strict=True)
        return UpdateOwner(words[3], quota=tuple((fields[flag], int(n)) for flag, n in flags))
    sets = [words[at + 1] for at, word in enumerate(words) if word == "--set"]
    if words[0] == "submit":
        assert words[1:4:2] == ["--like", "--name"]
        tree: Any = render(state.runs[words[2]].spec)
        tree["metadata"]["name"] = words[4]
    else:
        assert words[:2] == ["patch", "budget"]
        tree = render(state.budgets[words[2]])
    for assignment in sets:
        assign(tree, *assignment.split("=", 1))
    parsed = parse_tree(None, tree)
    assert isinstance(parsed, Documents), parsed
    spec = parsed.items[0].spec
    if isinstance(spec, Run):
        return Submit(spec)
    assert isinstance(spec, Budget)
    return Apply((spec,))


def assign(tree: Any, path: str, text: str) -> None:
    steps = re.findall(r"[^.\[\]]+", path)
    for step in steps[:-1]:
        if isinstance(tree, list):
            tree = next(item for item in tree if item["name"] == step)
        else:
            tree = tree.setdefault(step, {})
    words = {"null": None, "true": True, "false": False}
    value = words[text] if text in words else int(text) if text.isdecimal() else text
    if value is None:
        del tree[steps[-1]]
    else:
        tree[steps[-1]] = value


def waiting(spec: Run, **parts: Any) -> State:
    """Return a world in which ``spec`` was submitted and could not start."""
    state = world(**parts)
    give(state, Submit(spec))
    assert state.runs[spec.name].phase is Phase.PENDING
    return state


def only(state: State, name: str, kind: RemedyKind) -> dict[str, object]:
    """Return the changes of the only remedy of ``kind``, after proving every listed remedy."""
    explanation = explained(state, name)
    for remedy in explanation.remedies:
        assert_proven(state, name, remedy)
    found = changes(explanation, kind)
    assert len(found) == 1, explanation.remedies
    return found[0]


RICH = budget("rich", "team", envelope("e", 1_000))
SMALL = fleet({"A": 16, "B": 8})


def test_unknown_run_is_refused() -> None:
    found = explain(world(), "ghost", NOW_MS)
    assert isinstance(found, Refusal)
    assert (found.code, found.subject) == (RefusalCode.UNKNOWN_NAME, "there is no run 'ghost'")


def test_running_run_has_its_phase_and_no_remedies() -> None:
    state = world(nodes=SMALL, budgets=[RICH])
    give(state, Submit(run("r", 8)))
    found = explained(state, "r", NOW_MS + 5)
    assert found == Explanation(
        run="r", phase=Phase.RUNNING, recorded_phase=Phase.RUNNING, since_ms=NOW_MS
    )


def test_ended_run_says_how_and_since_when() -> None:
    state = world(nodes=SMALL, budgets=[RICH])
    give(state, Submit(run("r", 8)))
    give(state, Complete("r"), NOW_MS + 10)
    found = explained(state, "r", NOW_MS + 20)
    assert (found.phase, found.since_ms, found.remedies) == (Phase.COMPLETED, NOW_MS + 10, ())


def test_failed_run_says_why() -> None:
    state = world(nodes=SMALL, budgets=[RICH])
    give(state, Submit(run("r", 8)))
    give(state, Fail("r", "rank 0 on n1 exited with code 3: no", has_gone=True), NOW_MS + 10)
    found = explained(state, "r", NOW_MS + 20)
    assert (found.phase, found.note) == (Phase.FAILED, "rank 0 on n1 exited with code 3: no")
    assert explanation_lines(found, NOW_MS + 20, [], Wait(total_ms=0, parts_ms={}))[1:] == [
        f"  because: {found.note}"
    ]


def test_waiting_run_has_its_place_and_the_refusal_of_this_instant() -> None:
    state = waiting(run("first", 32), nodes=SMALL, budgets=[RICH])
    give(state, Submit(run("second", 24)))
    give(state, Submit(run("third", 25)), NOW_MS + 1)
    found = explained(state, "third", NOW_MS + 2)
    assert (found.queue_position, found.queue_length) == (2, 2)
    assert found.since_ms == NOW_MS + 1
    assert found.refusal is not None
    # Recorded when 24 GPUs were in use; the numbers are the present ones.
    give(state, Complete("second"), NOW_MS + 3)
    later = explained(state, "third", NOW_MS + 4).refusal
    assert later is not None
    assert (found.refusal.short, later.short) == (25, 1)
    assert found.refused_since_ms == NOW_MS + 1


def test_refusal_says_what_else_is_short() -> None:
    budgets = [budget("p", "poor", envelope("e", 4)), RICH]
    state = world(nodes=fleet({"A": 32}), budgets=budgets)
    give(state, Submit(run("busy", 24)))
    give(state, Submit(run("r", 32, "poor")))
    found = explained(state, "r").refusal
    assert found is not None
    assert found.also is not None
    assert (found.code, found.short) == (RefusalCode.INSUFFICIENT_FUNDS, 28)
    assert (found.also.code, found.also.short) == (RefusalCode.INSUFFICIENT_CAPACITY, 24)


def test_what_time_has_made_due_counts() -> None:
    short_lived = envelope("e", 16, end_ms=NOW_MS + HOUR_MS)
    state = world(nodes=fleet({"A": 16}), budgets=[budget("b", "team", short_lived), RICH])
    give(state, Submit(run("old", 16)))
    give(state, Submit(run("new", 16)))
    late = NOW_MS + 2 * HOUR_MS
    assert explained(state, "new").phase is Phase.PENDING
    found = explained(state, "old", late)
    # Its window closed an hour ago; both wait, and the older starts first, with other money.
    assert (found.recorded_phase, found.phase) == (Phase.RUNNING, Phase.RUNNING)
    assert explained(state, "new", late).phase is Phase.PENDING


def test_run_that_the_next_command_will_start_says_so() -> None:
    short_lived = budget("b", "one", envelope("e", 16, end_ms=NOW_MS + HOUR_MS))
    state = world(nodes=fleet({"A": 16}), budgets=[short_lived, RICH])
    give(state, Submit(run("old", 16, "one")))
    give(state, Submit(run("new", 16)))
    found = explained(state, "new", NOW_MS + 2 * HOUR_MS)
    assert (found.recorded_phase, found.phase) == (Phase.PENDING, Phase.RUNNING)
    assert found.remedies == ()
    assert state.runs["new"].phase is Phase.PENDING


def test_widest_smaller_width_is_found() -> None:
    state = waiting(run("r", 32), nodes=SMALL, budgets=[RICH])
    assert only(state, "r", RemedyKind.FEWER_GPUS) == {"spec.resources.totalGPUs": 24}
    command = of_kind(explained(state, "r"), RemedyKind.FEWER_GPUS)[0].command
    assert command == (
        "quorate",
        "submit",
        "--like",
        "r",
        "--name",
        "r-2",
        "--set",
        "spec.resources.totalGPUs=24",
    )


def test_smaller_width_keeps_full_groups_while_one_fits() -> None:
    state = waiting(run("r", 40, group_gpus=8), nodes=SMALL, budgets=[RICH])
    assert only(state, "r", RemedyKind.FEWER_GPUS) == {"spec.resources.totalGPUs": 24}
    state = waiting(run("r", 40, group_gpus=20), nodes=SMALL, budgets=[RICH])
    assert only(state, "r", RemedyKind.FEWER_GPUS) == {"spec.resources.totalGPUs": 16}


def test_malleable_run_is_offered_a_lower_minimum_on_its_grid() -> None:
    grid = Malleable(gpus_min=30, gpus_max=50, gpus_step=10, gpus_desired=50)
    state = waiting(run("r", 40, malleable=grid), nodes=SMALL, budgets=[RICH])
    assert only(state, "r", RemedyKind.FEWER_GPUS) == {"spec.malleable.minTotalGPUs": 20}


def test_whole_nodes_leave_only_their_multiples() -> None:
    pool = Pool(name="default", whole_nodes=True)
    nodes = [node("a", 8), node("b", 4), node("c", 4)]
    state = waiting(run("r", 18), nodes=nodes, budgets=[RICH], pools=[pool])
    assert only(state, "r", RemedyKind.FEWER_GPUS) == {"spec.resources.totalGPUs": 16}


def test_copy_gets_the_first_free_name() -> None:
    state = waiting(run("r", 32), nodes=SMALL, budgets=[RICH])
    give(state, Submit(run("r-2", 32)))
    assert of_kind(explained(state, "r"), RemedyKind.FEWER_GPUS)[0].command[5] == "r-3"


def test_other_flavor_of_the_pool_is_found() -> None:
    both = budget("b", "team", envelope("e", 99), envelope("v", 99, flavor="V100"))
    nodes = [*SMALL, node("old", 32, "C", "V100"), node("alien", 32, "D", "TPU")]
    state = waiting(run("r", 32), nodes=nodes, budgets=[both])
    assert only(state, "r", RemedyKind.OTHER_FLAVOR) == {"spec.resources.gpuType": "V100"}
    several = run("s", 32, flavors=("H100", "TPU"))
    give(state, Submit(several))
    assert only(state, "s", RemedyKind.OTHER_FLAVOR) == {
        "spec.resources.gpuTypes": None,
        "spec.resources.gpuType": "V100",
    }


def test_smaller_groups_and_no_groups_are_found() -> None:
    state = waiting(run("r", 24, group_gpus=12), nodes=SMALL, budgets=[RICH])
    assert only(state, "r", RemedyKind.SMALLER_GROUPS) == {"spec.locality.groupGPUs": 4}
    assert only(state, "r", RemedyKind.NO_GROUPS) == {"spec.locality.groupGPUs": None}


def test_spread_spares_and_selector_are_found() -> None:
    one_domain = run("r", 24, cross_group_spread=False)
    state = waiting(one_domain, nodes=SMALL, budgets=[RICH])
    assert only(state, "r", RemedyKind.SPREAD) == {"spec.locality.allowCrossGroupSpread": True}
    state = waiting(run("r", 24, spares_per_group=1), nodes=SMALL, budgets=[RICH])
    assert only(state, "r", RemedyKind.NO_SPARES) == {"spec.sparesPerGroup": 0}
    picky = run("r", 12, selector=(("fabric.domain", "B"),))
    state = waiting(picky, nodes=SMALL, budgets=[RICH])
    assert only(state, "r", RemedyKind.NO_SELECTOR) == {"spec.locality.selector": None}


@pytest.mark.heavy
def test_least_to_borrow_is_found() -> None:
    mine = budget("mine", "team", envelope("e", 10))
    theirs = budget("theirs", "vision", envelope("e", 20, lending=lending()))
    state = waiting(run("r", 16), nodes=SMALL, budgets=[mine, theirs])
    assert only(state, "r", RemedyKind.BORROW) == {
        "spec.funding.allowBorrow": True,
        "spec.funding.maxBorrowGPUs": 6,
    }
    give(state, Submit(run("s", 16, funding=borrowing(3))))
    assert only(state, "s", RemedyKind.BORROW) == {"spec.funding.maxBorrowGPUs": 6}


def test_not_insisting_on_sponsors_is_found() -> None:
    theirs = budget("theirs", "vision", envelope("e", 20, lending=lending()))
    broke = budget("broke", "broke", envelope("e", 1, lending=lending()))
    picky = run("r", 16, funding=borrowing(None, "broke"))
    state = waiting(picky, nodes=SMALL, budgets=[theirs, broke], owners=[Owner(name="team")])
    assert only(state, "r", RemedyKind.ANY_SPONSOR) == {"spec.funding.sponsors": None}


def test_longest_round_duration_that_can_be_paid_is_found() -> None:
    # 16 GPUs for 4 h and 2 min of grace are just over 64 GPU-hours; for 3 h they are well below.
    tight = budget("b", "team", envelope("e", 16, gpu_ms_max=64 * HOUR_MS))
    state = waiting(run("r", 16, expected_duration_ms=9 * HOUR_MS), nodes=SMALL, budgets=[tight])
    assert only(state, "r", RemedyKind.SHORTER) == {"spec.runtime.expectedDuration": "3h"}
    assert only(state, "r", RemedyKind.RAISE_GPU_HOURS) == {
        "spec.envelopes[e].maxGPUHours": 145,
    }


def test_a_duration_of_whole_days_is_told_in_days() -> None:
    tight = budget("b", "team", envelope("e", 16, gpu_ms_max=16 * 50 * HOUR_MS))
    state = waiting(run("r", 16, expected_duration_ms=99 * HOUR_MS), nodes=SMALL, budgets=[tight])
    assert only(state, "r", RemedyKind.SHORTER) == {"spec.runtime.expectedDuration": "2d"}


def test_no_more_dry_runs_are_made_than_are_left() -> None:
    trials = Trials(world(), NOW_MS, 2)
    assert [trials.spend() for _ in range(3)] == [True, True, False]


def test_a_proof_may_try_every_run_that_waits_however_many_there_are() -> None:
    state = world()
    state.pending.update((f"r{number}", number) for number in range(1_000))
    assert Trials(state, NOW_MS, 1).spend(1 + len(state.pending))


def test_smallest_raise_of_an_envelope_is_found() -> None:
    poor = budget("b", "team", envelope("west", 10), envelope("other", 1))
    state = waiting(run("r", 16), nodes=SMALL, budgets=[poor])
    assert changes(explained(state, "r"), RemedyKind.RAISE_CONCURRENCY) == [
        {"spec.envelopes[other].concurrency": 6},
        {"spec.envelopes[west].concurrency": 15},
    ]
    assert of_kind(explained(state, "r"), RemedyKind.RAISE_CONCURRENCY)[0].command == (
        "quorate",
        "patch",
        "budget",
        "b",
        "--set",
        "spec.envelopes[other].concurrency=6",
    )


def test_raise_reckons_with_those_who_wait_longer() -> None:
    poor = budget("b", "team", envelope("e", 4))
    state = waiting(run("ahead", 8), nodes=fleet({"A": 64}), budgets=[poor])
    give(state, Submit(run("r", 16)))
    assert only(state, "ahead", RemedyKind.RAISE_CONCURRENCY) == {
        "spec.envelopes[e].concurrency": 8
    }
    assert only(state, "r", RemedyKind.RAISE_CONCURRENCY) == {"spec.envelopes[e].concurrency": 24}


def test_cap_is_raised_by_what_is_missing() -> None:
    cap = Cap(name="all", flavor="H100", envelopes=("e",), concurrency_max=10)
    capped = budget("b", "team", envelope("e", 99), caps=[cap])
    state = waiting(run("r", 16), nodes=SMALL, budgets=[capped])
    assert only(state, "r", RemedyKind.RAISE_CAP) == {"spec.aggregateCaps[all].maxConcurrency": 16}


@pytest.mark.heavy
def test_hours_of_a_cap_and_of_lending_are_raised() -> None:
    cap = Cap(
        name="all", flavor="H100", envelopes=("e",), concurrency_max=99, gpu_ms_max=10 * HOUR_MS
    )
    capped = budget("b", "team", envelope("e", 99), caps=[cap])
    state = waiting(run("r", 16), nodes=SMALL, budgets=[capped])
    assert only(state, "r", RemedyKind.RAISE_CAP) == {"spec.aggregateCaps[all].maxGPUHours": 17}
    lender = budget("l", "vision", envelope("e", 99, lending=lending(gpu_ms_max=HOUR_MS)))
    owner = [Owner(name="team")]
    asks = run("r", 16, funding=borrowing())
    state = waiting(asks, nodes=SMALL, budgets=[lender], owners=owner)
    assert only(state, "r", RemedyKind.RAISE_LENDING) == {
        "spec.envelopes[e].lending.maxGPUHours": 17
    }


def test_lending_limit_is_raised_by_what_is_missing() -> None:
    lender = budget("l", "vision", envelope("e", 99, lending=lending(concurrency_max=4)))
    mine = budget("mine", "team", envelope("e", 10))
    asks = run("r", 16, funding=borrowing())
    state = waiting(asks, nodes=SMALL, budgets=[lender, mine])
    assert only(state, "r", RemedyKind.RAISE_LENDING) == {
        "spec.envelopes[e].lending.maxConcurrency": 6
    }


def test_envelope_that_opens_tomorrow_can_be_opened_early() -> None:
    tomorrow = envelope("e", 99, start_ms=NOW_MS + 24 * HOUR_MS)
    state = waiting(run("r", 16), nodes=SMALL, budgets=[budget("b", "team", tomorrow)])
    assert only(state, "r", RemedyKind.OPEN_EARLY) == {
        "spec.envelopes[e].preActivation.allowAdmission": True
    }


def test_at_most_three_runs_to_end_are_listed_smallest_first() -> None:
    state = world(nodes=fleet({"A": 64}), budgets=[RICH])
    for name, gpus in (("a", 16), ("b", 8), ("c", 8), ("d", 4), ("e", 28)):
        give(state, Submit(run(name, gpus)))
    give(state, Submit(run("r", 8)))
    found = of_kind(explained(state, "r"), RemedyKind.END_RUN)
    assert [remedy.command for remedy in found] == [
        ("quorate", "cancel", "c"),
        ("quorate", "cancel", "b"),
        ("quorate", "cancel", "a"),
    ]


def test_runs_of_others_are_not_to_be_ended() -> None:
    both = [RICH, budget("o", "others", envelope("e", 99))]
    state = world(nodes=fleet({"A": 16}), budgets=both)
    give(state, Submit(run("theirs", 16, "others")))
    give(state, Submit(run("r", 16)))
    assert of_kind(explained(state, "r"), RemedyKind.END_RUN) == []


def test_follower_may_stop_following() -> None:
    state = world(nodes=SMALL, budgets=[RICH])
    give(state, Submit(run("up", 8)))
    give(state, Submit(run("r", 8, follow=Follow(after=("up",)))))
    found = explained(state, "r")
    assert found.refusal is not None
    assert found.refusal.code is RefusalCode.WAITING_FOR_UPSTREAM
    assert [dict(remedy.changes) for remedy in found.remedies] == [{"spec.follow": None}]
    assert_proven(state, "r", found.remedies[0])


def test_nothing_is_changed_by_asking() -> None:
    state = waiting(run("r", 32), nodes=SMALL, budgets=[RICH])
    before = (state.seq, dict(state.runs), state.domain_order("default", "H100"))
    explained(state, "r")
    assert before == (state.seq, dict(state.runs), state.domain_order("default", "H100"))


@pytest.mark.slow
def test_asking_is_bounded_however_many_payers_and_runs_there_are() -> None:
    payers, small, big = (sized(30, 200), sized(24, 150), sized(6, 50))
    lines = [envelope(f"e{n:03d}", 1) for n in range(payers)]
    state = world(nodes=fleet({"A": 800}), budgets=[budget("b", "team", *lines)])
    for number in range(small):
        give(state, Submit(run(f"small-{number}", 1)))
    for number in range(big):
        give(state, Submit(run(f"big-{number}", payers // 2)))
    families = (run_remedies, quota_remedies, budget_remedies, end_remedies)
    dry_runs_max = sum(family.DRY_RUNS_MAX for family in families)
    listed = []
    for name in ("big-1", f"big-{big - 1}"):
        with counting(decide) as decided:
            found = explained(state, name)
        assert decided[0] <= dry_runs_max <= 220
        assert len(found.remedies) <= 20
        for remedy in found.remedies:
            assert_proven(state, name, remedy)
        listed.append(len(found.remedies))
    assert listed[0] > 0, "one more GPU of one envelope is enough for the next in the queue"


FLAVORS = ("H100", "V100")


@st.composite
def histories(draw: st.DrawFn) -> State:
    """Draw a small fleet, a family with a sponsor, and runs of which some wait."""
    sizes = draw(st.lists(st.sampled_from((2, 4, 8)), min_size=1, max_size=6))
    nodes: list[Node] = [
        node(f"n{n}", gpus, draw(st.sampled_from("AB")), draw(st.sampled_from(FLAVORS)))
        for n, gpus in enumerate(sizes)
    ]
    hours = st.sampled_from((None, HOUR_MS, 8 * HOUR_MS, 40 * HOUR_MS))
    starts = st.sampled_from((NOW_MS - HOUR_MS, NOW_MS - HOUR_MS, NOW_MS + HOUR_MS))

    def line(name: str) -> Any:
        limit = draw(st.sampled_from((None, 2, 8)))
        return envelope(
            name,
            draw(st.integers(1, 12)),
            flavor=draw(st.sampled_from(FLAVORS)),
            start_ms=draw(starts),
            gpu_ms_max=draw(hours),
            lending=draw(st.sampled_from((None, lending(concurrency_max=limit)))),
        )

    def payer_list(owner: str) -> Budget:
        lines = [line(f"e{n}") for n in range(draw(st.integers(1, 2)))]
        caps = []
        if len({entry.flavor for entry in lines}) == 1 and draw(st.booleans()):
            caps = [
                Cap(
                    name="cap",
                    flavor=lines[0].flavor,
                    envelopes=tuple(entry.name for entry in lines),
                    concurrency_max=draw(st.integers(1, 12)),
                )
            ]
        return budget(f"b-{owner}", owner, *lines, caps=caps)

    limits = st.none() | st.integers(0, 3)
    quotas = st.builds(Quota, nodes_max=limits, concurrent_runs_max=limits)
    owners = [
        Owner(name="org", quota=draw(quotas)),
        Owner(name="team", parents=("org",), quota=draw(quotas)),
        Owner(name="sponsor"),
    ]
    state = world(nodes=nodes, owners=owners, budgets=[payer_list(owner.name) for owner in owners])
    for number in range(draw(st.integers(1, 5))):
        give(state, Submit(draw(runs(f"r{number}"))))
    return state


def runs(name: str) -> st.SearchStrategy[Run]:
    """Return runs of team and org, of all shapes."""
    grid = Malleable(gpus_min=4, gpus_max=12, gpus_step=4, gpus_desired=12)
    return st.builds(
        Run,
        name=st.just(name),
        owner=st.sampled_from(("team", "team", "org")),
        user=st.just("alice"),
        flavors=st.sampled_from((("H100",), ("V100",), FLAVORS)),
        gpus=st.sampled_from((1, 3, 8, 12, 20)),
        group_gpus=st.sampled_from((None, None, 4, 8)),
        cross_group_spread=st.booleans(),
        selector=st.sampled_from(((), (), (("fabric.domain", "A"),))),
        spares_per_group=st.sampled_from((0, 0, 1)),
        on_quota=st.just(OnQuota.WAIT),
        expected_duration_ms=st.sampled_from((None, HOUR_MS // 2, 9 * HOUR_MS)),
        funding=st.sampled_from(
            (borrowing(None, "org"), borrowing(2), borrowing(), run("x", 1).funding)
        ),
    ) | st.just(replace(run(name, 12, malleable=grid), on_quota=OnQuota.WAIT))


@pytest.mark.slow
@given(histories())
def test_every_remedy_listed_starts_the_run_when_it_is_typed(state: State) -> None:
    for name in list(state.pending):
        found = explained(state, name)
        assert found.refusal is not None
        for remedy in found.remedies:
            assert_proven(state, name, remedy)
            assert command_of(state, remedy) == remedy.trial


@pytest.mark.heavy
@given(histories())
def test_run_alone_that_one_more_gpu_of_concurrency_would_start_is_told_so(state: State) -> None:
    for name in list(state.pending)[:1]:
        remedies = explained(state, name).remedies
        raised = {
            (remedy.target_name, path)
            for remedy in remedies
            if remedy.kind is RemedyKind.RAISE_CONCURRENCY
            for path, _ in remedy.changes
        }
        spec = state.runs[name].spec
        for known in state.owner_budgets.get(spec.owner, ()):
            for at, line in enumerate(state.budgets[known].envelopes):
                more = type(line)(
                    **{f: getattr(line, f) for f in line.__struct_fields__}
                    | {"concurrency": line.concurrency + 1}
                )
                lines = list(state.budgets[known].envelopes)
                lines[at] = more
                changed = budget(known, spec.owner, *lines, caps=state.budgets[known].caps)
                decision = decide(state, Apply((changed,)), now_ms=NOW_MS, actor="test")
                if name in started(decision.events):
                    assert (known, f"spec.envelopes[{line.name}].concurrency") in raised


@pytest.mark.parametrize("kind", list(RemedyKind))
def test_kinds_of_remedies_are_kebab_case_for_ever(kind: RemedyKind) -> None:
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", kind.value)
