"""A pool with rounds in the whole system: engine, ledger, executor."""

from __future__ import annotations

import re
from dataclasses import replace as dataclass_replace

import numpy as np
import pytest
from msgspec.structs import replace

from quorate.core.commands import (
    Applied,
    Apply,
    Cancel,
    Complete,
    Drain,
    MarkNode,
    ShareOut,
    Submit,
)
from quorate.core.decide import decide
from quorate.core.rounds.begin_round import STEPS_MAX, step_counts
from quorate.core.rounds.lease_bounds import LeaseBound
from quorate.core.rounds.round_outlook import between_rounds, share_words
from quorate.ledger.chain import GENESIS, seal
from quorate.loop.orders import standing_orders
from quorate.loop.rounds.kept_answers import KeptAnswers
from quorate.loop.rounds.round_loop import share_out
from quorate.model.amounts import HOUR_MS, MINUTE_MS, PPM
from quorate.model.cause_text import round_text
from quorate.model.events import (
    EndReason,
    HoldExtended,
    LeaseEnded,
    LeaseStarted,
    NodeStatus,
    RoundCause,
    RoundCode,
    RoundGrant,
    RoundShared,
    RunEnded,
    RunRefused,
)
from quorate.model.refusal import Refusal, RefusalCode
from quorate.model.specs import Discipline, Follow, Malleable, OnQuota, Pool, RoundsWork
from quorate.model.state.apply_event import apply
from quorate.model.state.records import Phase
from quorate.policy.allocation import Allocation, Method, Unsolved, UnsolvedCode, alone
from quorate.policy.problem import Problem
from quorate.policy.table import POLICIES as PUBLISHED
from quorate.ports.executor_port import StartLease
from quorate.sim.room_work import Truth
from tests.oracles.rounds import (
    FLAVORS,
    POLICIES,
    POOL,
    ROUND_MS,
    Room,
    Weighing,
    by_weight,
    money,
    nodes,
    pool,
    run,
    team,
    work,
    world,
)


def _room(*owners: str, per_flavor: int = 2, gpus: int = 4) -> Room:
    teams = [team(name) for name in owners or ("ant", "bee")]
    return Room(world(*teams, per_flavor=per_flavor, gpus=gpus))


def test_the_first_run_of_an_empty_pool_starts_at_once_and_stays_where_it_is() -> None:
    room = _room()
    room.did(Submit(run("one", "ant", flavors=("a100",), rounds=work({"a100": 10.0}))))
    lease = next(iter(room.view.leases))
    assert room.view.runs["one"].phase is Phase.RUNNING
    room.rounds(5)
    assert list(room.view.leases) == [lease]
    events = room.events()
    assert sum(isinstance(event, LeaseStarted) for event in events) == 1
    assert sum(isinstance(event, HoldExtended) for event in events) == 5
    rounds = [event for event in events if isinstance(event, RoundShared)]
    assert [event.number for event in rounds] == [1, 2, 3, 4, 5, 6]
    assert [event.grants[0].stays for event in rounds] == [False] + [True] * 5
    room.look_back()


def test_more_runs_than_gpus_take_turns_and_each_counts_as_running() -> None:
    room = _room(per_flavor=1, gpus=1)
    room.submit_together(*(run(f"r{n}", "ant" if n % 2 else "bee") for n in range(6)))
    room.rounds(10)
    assert {r.phase for r in room.view.runs.values()} == {Phase.RUNNING}
    assert len(room.view.leases) == 3
    received = [room.had_ms(f"r{n}") for n in range(6)]
    assert max(received) - min(received) <= 2 * ROUND_MS
    ends = {event.reason for event in room.events() if isinstance(event, LeaseEnded)}
    assert ends == {EndReason.ROUND_END}
    room.look_back()


def test_a_grant_waits_until_what_had_its_slots_has_gone() -> None:
    room = _room(per_flavor=1, gpus=1)
    one = work({"a100": 10.0})
    runs = (run(n, "ant", flavors=("a100",), rounds=one) for n in ("first", "second"))
    room.submit_together(*runs)
    assert (room.flavor("first"), room.flavor("second")) == ("a100", None)
    # A run with GPUs stays until it would be more than a round ahead.
    room.pass_ms(ROUND_MS)
    assert (room.flavor("first"), room.flavor("second")) == ("a100", None)
    room.pass_ms(ROUND_MS)
    round_ = room.view.rounds[POOL]
    assert list(round_.waiting) == ["second"]
    assert room.view.leases["first/0"].ending is not None
    room.pass_ms(20_000)
    assert (room.flavor("first"), room.flavor("second")) == (None, "a100")
    room.look_back()


def test_what_was_measured_takes_the_place_of_what_was_declared() -> None:
    room = _room(per_flavor=1, gpus=1)
    speeds = (("a100", PPM), ("v100", PPM // 2), ("k80", PPM // 10))
    room.truth = Truth(work_ms=HOUR_MS, checkpoint_every_ms=MINUTE_MS, speeds_ppm=speeds)
    boast = work({"a100": 500.0, "k80": 400.0, "v100": 300.0}, steps=36_000)
    room.submit_together(*(run(f"r{n}", "ant", rounds=boast) for n in range(3)))
    room.rounds(9)
    last = room.view.rounds[POOL].shared
    for share in last.shares:
        for place, flavor in enumerate(last.flavors):
            if share.measured >> place & 1:
                true = 10 * dict(speeds)[flavor]
                assert abs(share.rates[place] - true) <= true // 20, (flavor, share)
    assert any(share.measured == 7 for share in last.shares)
    first, second, *_ = (event for event in room.events() if isinstance(event, RoundShared))
    assert {share.measured for share in first.shares} == {0}
    # Rates measured in one round count from the next round on.
    assert {share.measured for share in second.shares} == {1, 2, 4}
    room.look_back()


def test_a_lost_node_ends_the_lease_and_the_next_round_finds_another() -> None:
    room = _room(per_flavor=2)
    room.did(Submit(run("one", "ant")))
    (node, _), *_ = room.view.leases["one/0"].fact.slots
    room.executor.lose_node(node)
    room.did(MarkNode(node, NodeStatus.FAILED))
    assert not room.view.leases
    assert room.view.runs["one"].phase is Phase.RUNNING
    room.rounds()
    assert node not in {place for place, _ in room.view.leases["one/1"].fact.slots}
    room.look_back()


def test_a_drain_moves_it_and_a_cordon_lets_it_end_its_round() -> None:
    room = _room(per_flavor=2)
    room.did(Submit(run("one", "ant")))
    (node, _), *_ = room.view.leases["one/0"].fact.slots
    room.did(MarkNode(node, NodeStatus.CORDONED))
    room.pass_ms(ROUND_MS - 1)
    assert room.view.leases["one/0"].ending is None
    room.pass_ms(MINUTE_MS)
    (other, _), *_ = room.view.leases["one/1"].fact.slots
    assert other != node
    room.did(Drain(other))
    room.rounds(1)
    room.pass_ms(MINUTE_MS)
    (lease,) = room.view.leases.values()
    assert {place for place, _ in lease.fact.slots}.isdisjoint({node, other})
    room.look_back()


@pytest.mark.parametrize("has_gpus", [True, False])
def test_cancelled_or_completed_with_gpus_or_without_it_holds_nothing(has_gpus: bool) -> None:  # noqa: FBT001 - two cases
    room = _room(per_flavor=1, gpus=1)
    room.submit_together(*(run(f"r{n}", "ant") for n in range(6)))
    room.rounds(6)
    room.pass_ms(MINUTE_MS)
    with_gpus = [n for n in room.view.in_rounds if bool(room.view.runs[n].leases) is has_gpus]
    room.did(Cancel(with_gpus[0]), Complete(with_gpus[1]))
    room.pass_ms(MINUTE_MS)
    assert room.view.runs[with_gpus[0]].phase is Phase.CANCELLED
    assert room.view.runs[with_gpus[1]].phase is Phase.COMPLETED
    assert not {lease.fact.run for lease in room.view.leases.values()} & set(with_gpus[:2])
    room.look_back()


@pytest.mark.heavy
def test_its_turns_outlive_the_program() -> None:
    room = _room(per_flavor=1, gpus=1)
    room.submit_together(*(run(f"r{n}", "ant") for n in range(6)))
    for _ in range(8):
        room.rounds()
        room.simulation.crash()
        room.pass_ms_down(90_000)
    received = [room.had_ms(f"r{n}") for n in range(6)]
    assert max(received) - min(received) <= 3 * ROUND_MS
    room.look_back()


def test_rounds_stand_still_while_the_program_is_down_and_what_runs_is_paid_for() -> None:
    room = _room()
    room.did(Submit(run("one", "ant")))
    room.simulation.crash()
    room.pass_ms_down(2 * HOUR_MS)
    assert list(room.view.runs["one"].leases) == ["one/0"]
    lease = room.view.leases["one/0"]
    assert lease.hold_ends_ms > room.timeline.now_ms
    room.look_back()


def test_an_owner_without_money_is_passed_over_and_told_so() -> None:
    owners = (team("ant"), team("bee"))
    poor = replace(money("bee", hours=0), name="b-bee")
    room = Room((pool(), *nodes(1, 1), *owners, money("ant"), poor))
    room.submit_together(run("rich", "ant"), run("poor", "bee"))
    room.rounds(2)
    assert room.flavor("poor") is None
    assert room.view.runs["poor"].phase is Phase.PENDING
    assert room.had_ms("rich") >= 2 * ROUND_MS - MINUTE_MS
    room.look_back()


def test_money_that_runs_dry_ends_the_lease_and_not_the_run() -> None:
    budget = money("ant")
    line = replace(budget.envelopes[0], gpu_ms_max=3 * ROUND_MS)
    short = replace(budget, envelopes=(line,))
    room = Room((pool(), *nodes(1, 1), team("ant"), short))
    only = work({"a100": 10.0})
    room.did(Submit(run("one", "ant", flavors=("a100",), rounds=only)))
    room.rounds(6)
    assert room.view.runs["one"].phase is Phase.RUNNING
    assert not room.view.leases
    account = room.view.envelopes[next(iter(room.view.envelopes))]
    assert account.committed_gpu_ms <= 3 * ROUND_MS
    room.look_back()


def test_a_hard_limit_on_runs_counts_from_the_first_round_on() -> None:
    room = Room(world(team("ant", concurrent_runs_max=2), per_flavor=1, gpus=4))
    waits = (run(f"r{n}", "ant", on_quota=OnQuota.WAIT) for n in range(4))
    room.submit_together(*waits)
    room.rounds(3)
    phases = [record.phase for record in room.view.runs.values()]
    assert phases.count(Phase.RUNNING) == 2
    waiting = next(r for r in room.view.runs.values() if r.phase is Phase.PENDING)
    # The run is left out and gets no refusal; `explain` shows the reason.
    assert waiting.refusal is None
    told = between_rounds(room.view, waiting, room.timeline.now_ms)
    assert told is not None
    assert told.also is not None
    assert told.also.code is RefusalCode.WAITING_FOR_QUOTA
    assert (told.also.current, told.also.limit) == (2, 2)
    (refusal,) = room.ask(Submit(run("late", "ant"))).refusals
    assert refusal.code is RefusalCode.MAX_CONCURRENT_RUNS
    running = next(n for n, r in room.view.runs.items() if r.phase is Phase.RUNNING)
    room.did(Cancel(running))
    room.rounds(2)
    assert sum(r.phase is Phase.RUNNING for r in room.view.runs.values()) == 2
    room.look_back()


def test_a_follower_gets_no_round_before_its_upstream_is_done() -> None:
    room = _room()
    room.did(Submit(run("up", "ant")), Submit(run("down", "ant", follow=Follow(after=("up",)))))
    room.rounds(2)
    assert room.phase("down") == "Pending"
    room.did(Complete("up"))
    room.rounds(1)
    assert room.phase("down") == "Running"
    room.look_back()


def test_what_cannot_be_in_rounds_is_refused_by_name() -> None:
    room = _room()
    width = Malleable(gpus_min=1, gpus_max=2, gpus_step=1, gpus_desired=2)
    wrong = run(
        "one",
        "ant",
        malleable=width,
        spares_per_group=1,
        sensitive=True,
        user="u",
        expected_duration_ms=HOUR_MS,
        rounds=work({"a100": 0.0, "tpu": 3.0}),
    )
    subjects = " ".join(refusal.subject for refusal in room.ask(Submit(wrong)).refusals)
    for field in ("spec.malleable", "spec.sparesPerGroup", "spec.sensitive"):
        assert f"{field}: pool 'shared' shares its GPUs in rounds" in subjects
    assert "has no rate for k80" in subjects
    assert "has a rate for tpu" in subjects
    (plain,) = room.ask(Submit(run("two", "ant", rounds=None))).refusals
    assert "the run needs a rate on each flavor" in plain.subject


def test_a_deadline_is_taken_only_where_its_owners_share_keeps_it() -> None:
    room = Room(world(team("ant", PPM // 4), team("bee", 3 * PPM // 4), per_flavor=1, gpus=4))
    # A quarter of each flavor is one GPU, with 10 steps a second on each: an hour is 36,000 steps.
    fits = work(steps=30_000, slo_ms=HOUR_MS)
    room.did(Submit(run("fits", "ant", rounds=fits)))
    room.did(Submit(run("beside", "ant", rounds=fits)), Submit(run("third", "ant", rounds=fits)))
    (refusal,) = room.ask(Submit(run("fourth", "ant", rounds=fits))).refusals
    assert refusal.code is RefusalCode.SLO_INFEASIBLE
    assert "'ant' has 25 % of every flavor of 'shared'" in refusal.subject
    hasty = work(steps=40_000, slo_ms=HOUR_MS)
    (alone,) = room.ask(Submit(run("hasty", "bee", rounds=hasty))).refusals
    assert alone.code is RefusalCode.SLO_INFEASIBLE
    room.did(Submit(run("wide", "bee", gpus=3, rounds=work(steps=35_000, slo_ms=HOUR_MS))))
    (vague,) = room.ask(Submit(run("vague", "bee", rounds=work(steps=None, slo_ms=9)))).refusals
    assert "add totalSteps" in vague.remedy


def test_a_pool_keeps_its_discipline_while_runs_are_in_it() -> None:
    room = _room()
    room.did(Submit(run("one", "ant")))
    bound = Pool(name=POOL, selector=pool().selector, discipline=Discipline.BIND)
    (refusal,) = room.ask(Apply((bound,))).refusals
    assert "cannot change from rounds to bind: the pool has 1 run, the first is 'one'" in (
        refusal.subject
    )
    room.did(Cancel("one"))
    room.pass_ms(MINUTE_MS)
    room.did(Apply((bound,)))


def test_by_a_policy_that_nobody_knows_all_share_by_weight() -> None:
    room = _room(per_flavor=1, gpus=1)
    room.did(Apply((pool(policy="by_height"),)))
    room.submit_together(*(run(f"r{n}", "ant" if n % 2 else "bee") for n in range(6)))
    room.rounds(10)
    received = [room.had_ms(f"r{n}") for n in range(6)]
    assert max(received) - min(received) <= 2 * ROUND_MS
    shared = room.view.rounds[POOL].shared
    assert shared.causes == (RoundCause(RoundCode.NO_POLICY, "by_height"),)
    assert round_text(shared) == "all share by weight: there is no policy 'by_height'"
    assert shared.policy == "by_weight"
    room.look_back()


def test_a_round_that_is_not_next_or_grants_what_is_not_there_is_refused() -> None:
    room = _room()
    room.did(Submit(run("one", "ant")), Submit(run("other", "bee")))
    early = room.ask(ShareOut(pool=POOL, number=2, policy="by_weight")).refusals
    assert [refusal.code for refusal in early] == [RefusalCode.CONFLICT]
    assert room.ask(ShareOut(pool="default", number=1, policy="by_weight")).refusals
    assert room.ask(ShareOut(pool="nowhere", number=1, policy="by_weight")).refusals
    engine = room.simulation.engine
    assert engine is not None
    room.timeline.clock.true_ms += ROUND_MS
    for grants in (
        (RoundGrant("nobody", "a100"),),
        (RoundGrant("one", "tpu"),),
        (RoundGrant("one", "a100"), RoundGrant("one", "k80")),
        (RoundGrant("one", "a100", partner="other"),),
    ):
        command = ShareOut(pool=POOL, number=2, policy="by_weight", grants=grants)
        (refusal,) = engine.try_out(command, actor="test").refusals
        assert refusal.code is RefusalCode.INVALID, grants


def _falls_over(problem: Problem) -> Allocation | Unsolved:
    raise OverflowError(f"{len(problem.jobs)} jobs were too much")


def _gives_all_twice(problem: Problem) -> Allocation | Unsolved:
    return alone(np.ones(problem.shape), objective=1.0, bound=1.0, method=Method.RULE)


def _names_one_after_another(problem: Problem) -> Allocation | Unsolved:
    return Unsolved(
        code=UnsolvedCode.NOT_APPLICABLE,
        subject=problem.jobs[0],
        message=f"job {problem.jobs[0]} is not liked",
        remedy="leave it out",
        jobs=problem.jobs[:1],
    )


def test_a_policy_is_asked_for_fewer_runs_where_there_are_more_flavors() -> None:
    there = nodes(1, 1, (*FLAVORS, "l4", "l40", "t4"))
    specs: tuple[Applied, ...] = (pool(policy="odd"), *there, team("ant"), money("ant"))
    room = Room(specs, policies={"odd": Weighing("odd", jobs_max=6)})
    room.submit_together(*(run(f"r{n}", "ant") for n in range(4)))
    room.rounds(1)
    shared = room.view.rounds[POOL].shared
    assert shared.causes == (RoundCause(RoundCode.TOO_MANY_RUNS, "odd", 4, limit=3),)
    assert "odd takes too long for 4 runs: its maximum is 3" in round_text(shared)


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("policy", "why"),
    [
        (Weighing("odd", solve=_falls_over), "the policy failed; choose another policy"),
        (Weighing("odd", solve=_gives_all_twice), "the policy failed; choose another policy"),
        (Weighing("odd", solve=_names_one_after_another), "1 run left out (a run is not liked;"),
        (Weighing("odd", jobs_max=5), "odd takes too long for 6 runs: its maximum is 5"),
        (
            Weighing("odd", jobs_per_gpu_max=1),
            "odd takes too long for 6 runs on 3 GPUs: its maximum is 1 per GPU",
        ),
    ],
)
def test_where_a_policy_has_no_answer_all_share_by_weight_and_are_told(
    policy: Weighing, why: str
) -> None:
    teams = (team("ant", PPM // 4), team("bee", 3 * PPM // 4))
    specs = (pool(policy="odd"), *world(*teams, per_flavor=1, gpus=1)[1:])
    room = Room(specs, policies={"odd": policy}, stop_ms=0)
    room.submit_together(*(run(f"r{n}", "ant" if n < 4 else "bee") for n in range(6)))
    room.rounds(40)
    ant, bee = room.had_ms("r0", "r1", "r2", "r3"), room.had_ms("r4", "r5")
    # Two runs can use only a third of the GPUs: owners get their parts as far as they have work.
    assert bee == pytest.approx(2 * 40 * ROUND_MS, rel=0.1)
    assert ant == pytest.approx(40 * ROUND_MS, rel=0.1)
    shared = room.view.rounds[POOL].shared
    assert round_text(shared).startswith(f"all share by weight: {why}"), shared.causes
    assert why in share_words(room.view, room.view.runs["r0"])
    room.look_back()


def test_a_run_that_a_policy_cannot_plan_is_left_out_and_told_and_the_others_share() -> None:
    specs = (pool(policy="allox"), *world(team("ant"), team("bee"), per_flavor=1, gpus=2)[1:])
    room = Room(specs, policies=PUBLISHED)
    wide = [run(f"w{n}", "ant", gpus=2) for n in range(3)]
    narrow = [run(f"n{n}", "bee", rounds=work(steps=10**5 * (n + 1))) for n in range(3)]
    room.submit_together(*wide, *narrow)
    room.rounds(3)
    assert all(room.had_ms(each.name) >= 1.5 * ROUND_MS for each in narrow)
    assert room.had_ms(*(each.name for each in wide)) == 0
    shared = room.view.rounds[POOL].shared
    assert shared.policy == "allox"
    told = share_words(room.view, room.view.runs["w1"])
    assert told.startswith("its share is 0: 3 runs left out (a run takes 2 GPUs at a time;")
    assert "leave the job out, or choose another policy" in told
    # An owner may see its own runs only, and the causes name no other runs.
    names = {each.name for each in (*wide, *narrow)} | {"ant", "bee"}
    for name, record in room.view.runs.items():
        assert not names & set(re.findall(r"\w+", share_words(room.view, record))), name
    room.look_back()


@pytest.mark.heavy
def test_weights_of_old_ledgers_stop_nobody() -> None:
    policy = "max_min_fairness_water_filling_perf"
    specs = (pool(policy=policy), *world(team("ant"), team("bee"), per_flavor=1, gpus=1)[1:])
    room = Room(specs, policies=PUBLISHED, stop_ms=0)
    weights = (1e-60, 1e12, 1.0, 1.0)
    mine = [run(f"a{n}", "ant", rounds=work(weight=weight)) for n, weight in enumerate(weights)]
    room.submit_together(*mine, *(run(f"b{n}", "bee") for n in range(4)))
    room.rounds(20)
    assert room.view.rounds[POOL].shared.causes == ()
    ant, bee = (room.had_ms(*(f"{owner}{n}" for n in range(4))) for owner in "ab")
    assert ant == pytest.approx(bee, rel=0.1)
    room.look_back()


@pytest.mark.parametrize("steps", [1, 10**12])
@pytest.mark.parametrize("policy", ["max_min_fairness_water_filling_perf", "min_total_duration"])
def test_whatever_steps_a_run_reports_the_pool_is_shared_by_its_policy(
    policy: str, steps: int
) -> None:
    specs = (pool(policy=policy), *world(team("ant"), team("bee"), per_flavor=1, gpus=1)[1:])
    room = Room(specs, policies=PUBLISHED)
    room.submit_together(*(run(f"r{n}", "ant" if n % 2 else "bee") for n in range(6)))
    view, now_ms = room.view, room.view.at_ms + ROUND_MS
    reported = {name: steps if record.leases else 0 for name, record in view.runs.items()}
    command = share_out(view, POOL, now_ms, reported, KeptAnswers(PUBLISHED))
    assert (command.policy, command.causes) == (policy, ())
    assert command.grants


@pytest.mark.parametrize("steps", [10**17, 10**400])
def test_steps_that_nobody_can_have_done_end_nothing(steps: int) -> None:
    room = _room()
    room.did(Submit(run("one", "ant")))
    view, now_ms = room.view, room.view.at_ms + ROUND_MS
    (count,) = step_counts(view, POOL, [("one", steps)], now_ms)
    assert count.steps == STEPS_MAX
    command = share_out(view, POOL, now_ms, {"one": steps}, KeptAnswers(POLICIES))
    decided = decide(view, command, now_ms=now_ms, actor="test", has_executor=True)
    assert not decided.refusals
    seal(GENESIS, list(decided.events))


def test_runs_that_crowd_a_flavor_are_counted_by_its_gpus() -> None:
    policy = Weighing("odd", jobs_per_gpu_max=3)
    specs = (pool(policy="odd"), *world(team("ant"), per_flavor=1, gpus=1)[1:])
    room = Room(specs, policies={"odd": policy})
    few = work({"a100": 10.0, "k80": 0.0, "v100": 10.0})
    room.submit_together(*(run(f"r{n}", "ant", rounds=few) for n in range(6)))
    assert room.view.rounds[POOL].shared.causes == ()
    only = work({"a100": 10.0, "k80": 0.0, "v100": 0.0})
    room.submit_together(run("more", "ant", rounds=only))
    room.rounds(1)
    shared = room.view.rounds[POOL].shared
    assert shared.causes == (RoundCause(RoundCode.TOO_CROWDED, "odd", 7, 2, 3),)
    text = round_text(shared)
    assert "odd takes too long for 7 runs on 2 GPUs: its maximum is 3 per GPU" in text
    assert shared.policy == "by_weight"


def test_an_executor_is_told_for_how_many_steps_and_how_long_a_lease_is() -> None:
    room = Room(world(team("ant")))
    room.submit_together(
        run("r", "ant", rounds=work(steps=100_000)), run("short", "ant", rounds=work(steps=7))
    )
    orders = [each for each in standing_orders(room.view) if isinstance(each, StartLease)]
    until_ms = room.view.rounds[POOL].shared.until_ms
    assert {each.run.name: each.bounds for each in orders} == {
        "r": (LeaseBound(10 * ROUND_MS // 1_000, ROUND_MS, until_ms),),
        "short": (LeaseBound(7, ROUND_MS, until_ms),),
    }


BY_COST = "max_sum_throughput_normalized_by_cost_perf"
COSTS = (("a100", 4 * PPM), ("k80", PPM // 2), ("v100", 2 * PPM))


def _priced(policy: str, costs: tuple[tuple[str, int], ...] = COSTS) -> Room:
    """Return a pool of one GPU of each flavor whose policy considers the costs."""
    specs: tuple[Applied, ...] = (
        pool(policy=policy, costs_micros=costs),
        *nodes(1, 1),
        team("ant"),
        money("ant"),
    )
    truth = Truth(
        work_ms=HOUR_MS,
        checkpoint_every_ms=MINUTE_MS,
        speeds_ppm=(("v100", 3 * PPM // 4), ("k80", PPM // 2)),
    )
    return Room(specs, policies=PUBLISHED, truth=truth, stop_ms=0)


def _hour(slo_ms: int | None = None) -> RoundsWork:
    """Return an hour's work on the fastest flavor, two hours on the slowest."""
    rates = {"a100": 20.0, "v100": 15.0, "k80": 10.0}
    return work(rates, steps=20 * 3_600, slo_ms=slo_ms)


def test_a_policy_that_weighs_costs_gives_the_flavor_with_the_most_steps_for_the_money() -> None:
    room = _priced(BY_COST)
    room.submit_together(run("r", "ant", rounds=_hour()))
    room.rounds(2)
    assert room.flavor("r") == "k80", "20 steps for the money, beside 5 and 7.5, though slowest"
    assert room.view.rounds[POOL].shared.causes == ()
    room.look_back()


@pytest.mark.heavy
def test_a_deadline_that_needs_a_dear_flavor_has_it() -> None:
    room = _priced(f"{BY_COST}_SLOs")
    slo_ms = 90 * MINUTE_MS
    due, free = _hour(slo_ms), _hour()
    room.submit_together(run("due", "ant", rounds=due), run("free", "ant", rounds=free))
    room.rounds(1)
    assert room.flavor("due") in ("a100", "v100")
    assert room.flavor("free") == "k80"
    assert room.view.rounds[POOL].shared.causes == ()
    room.rounds(20)
    assert room.phase("due") == "Completed"
    ended_ms = next(e.at_ms for e in room.events() if isinstance(e, RunEnded) and e.run == "due")
    assert ended_ms <= room.view.runs["due"].submitted_ms + slo_ms


def test_a_round_says_how_many_deadlines_cannot_be_kept() -> None:
    room = _priced(f"{BY_COST}_SLOs")
    due = work(steps=10 * 3_600, slo_ms=70 * MINUTE_MS)
    room.submit_together(run("r", "ant", rounds=due))
    room.did(MarkNode("a100-0", NodeStatus.FAILED), MarkNode("k80-0", NodeStatus.FAILED))
    room.did(MarkNode("v100-0", NodeStatus.FAILED))
    room.rounds(4)
    room.did(MarkNode("a100-0", NodeStatus.READY))
    room.rounds(2)
    shared = room.view.rounds[POOL].shared
    assert shared.causes == (RoundCause(RoundCode.DEADLINES_MISSED, f"{BY_COST}_SLOs", 1),)
    assert "cannot keep the deadlines of 1 run" in round_text(shared)
    assert room.flavor("r") == "a100", "it is late, and goes on"


def test_where_a_flavor_has_no_cost_all_share_by_weight_and_are_told() -> None:
    room = _priced(BY_COST, COSTS[:2])
    room.submit_together(run("r", "ant"))
    shared = room.view.rounds[POOL].shared
    assert shared.policy == "by_weight"
    assert ("flavor v100 has no cost above 0; give the cost of an hour of one v100") in round_text(
        shared
    )


def test_a_round_says_of_how_many_its_policy_could_not_say_all() -> None:
    def early(problem: Problem) -> Allocation:
        found = by_weight(problem)
        assert isinstance(found, Allocation)
        return dataclass_replace(found, unfinished=(0, 2))

    room = Room(world(team("ant")), policies={"by_weight": Weighing(solve=early)})
    room.submit_together(*(run(f"r{n}", "ant") for n in range(3)))
    shared = room.view.rounds[POOL].shared
    assert shared.causes == (RoundCause(RoundCode.UNFINISHED, "by_weight", 2),)
    text = "2 runs might get more: by_weight takes too long to compute how much"
    assert round_text(shared).startswith(text)


@pytest.mark.heavy
def test_who_worked_through_a_long_outage_is_ahead_by_no_more_than_a_round() -> None:
    room = Room((pool(), *nodes(1, 1, ("a100",)), team("ant"), money("ant")), stop_ms=0)
    one = work({"a100": 10.0})
    room.submit_together(*(run(n, "ant", flavors=("a100",), rounds=one) for n in ("a", "b")))
    room.rounds(2)
    room.simulation.crash()
    room.pass_ms_down(80 * ROUND_MS)
    before = {name: room.had_ms(name) for name in ("a", "b")}
    room.rounds(60)
    had = {name: (room.had_ms(name) - before[name]) / ROUND_MS for name in ("a", "b")}
    # The waiting run was due 40 rounds and makes up for 20 of them; after that they take turns.
    assert min(had.values()) >= 18, had
    room.look_back()


def test_what_was_refused_in_a_round_is_not_told_of_the_next() -> None:
    room = Room((pool(), *nodes(1, 1, ("a100",)), team("ant"), money("ant")), stop_ms=0)
    one = work({"a100": 10.0})
    room.submit_together(*(run(n, "ant", flavors=("a100",), rounds=one) for n in ("a", "b")))
    waits = next(name for name in ("a", "b") if not room.view.runs[name].leases)
    state = room.view.overlay()
    refusal = Refusal(code=RefusalCode.INSUFFICIENT_FUNDS, subject="ant", wanted=1, short=1)
    apply(state, RunRefused(at_ms=state.at_ms, actor="", run=waits, refusal=refusal))
    told = between_rounds(state, state.runs[waits], state.at_ms)
    assert told is not None
    assert told.also == refusal
    shared = room.view.rounds[POOL].shared
    apply(state, replace(shared, at_ms=shared.until_ms, number=shared.number + 1))
    told = between_rounds(state, state.runs[waits], state.at_ms)
    assert told is not None
    assert told.also is None
