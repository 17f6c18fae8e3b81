"""Traces in the production engine: the same result each time, paused or not, and all work done."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.adapters.stores.store_memory import MemoryStore
from quorate.adapters.stores.store_sqlite import SqliteStore
from quorate.ledger.chain import open_blocks
from quorate.model.amounts import HOUR_MS, MINUTE_MS
from quorate.model.events import Event, LeaseEnded, LeaseStarted, RunEnded
from quorate.model.specs import Discipline, Pool
from quorate.policy.files.cluster_file import Cluster
from quorate.policy.files.file_faults import Faulty
from quorate.policy.files.throughputs_file import (
    ThroughputTable,
    read_throughputs,
    write_throughputs,
)
from quorate.sim.fleet_simulation import (
    Costs,
    Fleet,
    FleetPlay,
    Layout,
    budgets_by_use,
    plain_fleet,
)
from quorate.sim.outcome import Outcome, WaitCause
from quorate.sim.report.metrics import metrics_of
from quorate.sim.report.outcome_of_ledger import outcome_of_ledger
from quorate.sim.round_simulation import RoundsStuckError
from quorate.sim.saved_room import SavedPlay
from quorate.sim.scenario import Scenario, ScenarioError
from quorate.sim.scenario_play import FleetStage, StrictStage, staged
from quorate.sim.simulation import LOTTERY_SECRET
from quorate.sim.traces.mapped_trace import write_own
from quorate.sim.traces.trace_job import Trace, TraceError, TraceJob, by_arrival
from quorate.sim.whatif.fork import fork
from quorate.views.reports.html_report import html_report
from quorate.views.reports.report_forms import metrics_lines
from tests.cli.shell import EXAMPLES
from tests.oracles.effort import examples

GPUS = Cluster(flavors=("gpu",), gpus=(8,))
BIND = Pool(name="pool")
ROUNDS = Pool(
    name="pool",
    discipline=Discipline.ROUNDS,
    policy="max_min_fairness_perf",
    round_ms=10 * MINUTE_MS,
    grace_max_ms=0,
)


def job(name: str, arrives_s: float, gpus: int, duration_s: float, owner: str = "a") -> TraceJob:
    return TraceJob(name=name, arrives_s=arrives_s, gpus=gpus, duration_s=duration_s, owner=owner)


def rates() -> ThroughputTable:
    found = read_throughputs((EXAMPLES / "rates.json").read_bytes())
    assert not isinstance(found, Faulty)
    return found


def finished(play: FleetPlay, part_ms: int = 1_000 * HOUR_MS) -> Outcome:
    while play.go_on(part_ms):
        pass
    return play.outcome("here")


def fleet(jobs: list[TraceJob], pool: Pool = BIND) -> Fleet:
    return plain_fleet(GPUS, dict.fromkeys({each.owner for each in jobs}, 8), pool)


def played_events(play: FleetPlay) -> list[Event]:
    finished(play)
    return [event for _, block in open_blocks(play.store.blocks()) for event in block]


def test_a_job_runs_for_as_long_as_it_took() -> None:
    jobs = [job("one", 5.0, 4, 100.0)]
    (run,) = finished(FleetPlay(fleet(jobs), jobs)).runs
    assert run.started_ms is not None
    assert run.ended_ms is not None
    assert (run.started_ms - run.submitted_ms, run.ended_ms - run.started_ms) == (0, 100_000)


def test_a_job_waits_for_room_and_for_money_and_says_which() -> None:
    jobs = [job("one", 0.0, 8, 100.0), job("two", 1.0, 8, 100.0, owner="b")]
    _, second = finished(FleetPlay(fleet(jobs), jobs)).runs
    assert second.waits_ms == {WaitCause.ROOM: 99_000}
    jobs = [job("one", 0.0, 4, 100.0), job("two", 1.0, 4, 100.0)]
    poor = plain_fleet(GPUS, {"a": 4}, BIND)
    _, second = finished(FleetPlay(poor, jobs)).runs
    assert second.waits_ms == {WaitCause.FUNDING: 99_000}


def test_budgets_follow_use_and_hold_the_widest_job() -> None:
    jobs = [job("one", 0.0, 1, 900.0), job("two", 0.0, 8, 12.5, owner="b")]
    assert budgets_by_use(jobs, 10) == {"a": 9, "b": 8}
    assert budgets_by_use(jobs, 10, 2.0) == {"a": 18, "b": 8}


def test_steps_of_a_type_run_at_the_rate_of_the_flavor() -> None:
    table = rates()
    cluster = Cluster(flavors=("l40s",), gpus=(2,))
    jobs = [TraceJob(name="one", arrives_s=0.0, gpus=1, steps=4_200.0, job_type="vision-train")]
    here = replace(plain_fleet(cluster, {"trace": 2}, ROUNDS), table=table)
    (run,) = finished(FleetPlay(here, jobs)).runs
    rate = table.together.alone[0, table.flavors.index("l40s")]
    assert run.ideal_ms == pytest.approx(4_200.0 / rate * 1_000, abs=1)
    assert (run.steps_asked, run.steps_done) == (4_200.0, 4_200.0)


def table_of(tree: dict[str, dict[str, dict[str, object]]]) -> ThroughputTable:
    found = read_throughputs(json.dumps(tree).encode())
    assert not isinstance(found, Faulty), found
    return found


def test_jobs_that_share_a_gpu_have_the_rates_of_their_pair() -> None:
    """Alone they take 960 and 900 s; together 1,200 s each, so sharing is better."""
    quick, slow = "('quick', 1)", "('slow', 1)"
    table = table_of(
        {
            "gpu": {
                quick: {"null": 10.0, slow: [8.0, 3.0]},
                slow: {"null": 4.0, quick: [3.0, 8.0]},
            }
        }
    )
    asked = Scenario(
        discipline="rounds",
        policy="max_min_fairness_packed",
        cluster="gpu=1",
        trace="jobs.csv",
        throughputs="rates.json",
    )
    jobs = [
        TraceJob(name="one", arrives_s=0.0, gpus=1, steps=9_600.0, job_type="quick"),
        TraceJob(name="two", arrives_s=0.0, gpus=1, steps=3_600.0, job_type="slow"),
    ]
    trace = write_own(Trace(jobs=tuple(jobs)))
    files = {"jobs.csv": trace.encode(), "rates.json": write_throughputs(table)}
    stage = staged(asked, files.__getitem__)
    while stage.go_on():
        pass
    one, two = stage.outcome().runs
    assert (one.ideal_ms, two.ideal_ms) == (960_000, 900_000)
    for run in (one, two):
        assert run.ended_ms is not None
        assert run.ended_ms - run.submitted_ms == 1_200_000
        assert run.steps_done == run.steps_asked


@pytest.mark.parametrize("pool", [BIND, ROUNDS])
def test_a_job_on_several_nodes_has_the_rate_of_several_nodes(pool: Pool) -> None:
    wide, narrow = "('wide', 4)", "('wide', 2)"
    table = table_of(
        {
            "gpu": {wide: {"null": 10.0}, narrow: {"null": 10.0}},
            "gpu_unconsolidated": {wide: {"null": 5.0}, narrow: {"null": 5.0}},
        }
    )
    cluster, layout = Cluster(flavors=("gpu",), gpus=(6,)), Layout(gpus_per_node=2)
    jobs = [
        TraceJob(name="two", arrives_s=0.0, gpus=2, steps=6_000.0, job_type="wide"),
        TraceJob(name="four", arrives_s=0.0, gpus=4, steps=6_000.0, job_type="wide"),
    ]
    here = replace(plain_fleet(cluster, {"trace": 6}, pool, layout), table=table)
    two, four = finished(FleetPlay(here, jobs)).runs
    assert (two.ended_ms, four.ended_ms) == (
        two.submitted_ms + 600_000,
        four.submitted_ms + 1_200_000,
    )


WIDE = "('wide', 4)"
WIDE_JOB = TraceJob(name="w", arrives_s=0.0, gpus=4, steps=6_000.0, job_type="wide", line=2)


def on_nodes_of_two(
    pool: Pool, gpus: dict[str, int], tree: dict[str, dict[str, dict[str, object]]]
) -> Fleet:
    cluster = Cluster(flavors=tuple(gpus), gpus=tuple(gpus.values()))
    here = plain_fleet(cluster, {"trace": 8}, pool, Layout(gpus_per_node=2))
    return replace(here, table=table_of(tree))


@pytest.mark.parametrize("pool", [BIND, ROUNDS])
def test_a_job_that_needs_several_nodes_and_stands_still_there_is_an_error(pool: Pool) -> None:
    tree: dict[str, dict[str, dict[str, object]]] = {
        "gpu": {WIDE: {"null": 10.0}},
        "gpu_unconsolidated": {WIDE: {"null": 0}},
        "few": {WIDE: {"null": 10.0}},
    }
    here = on_nodes_of_two(pool, {"gpu": 4, "few": 2}, tree)
    with pytest.raises(TraceError) as told:
        finished(FleetPlay(here, [WIDE_JOB]))
    assert str(told.value) == (
        "line 2, column job_type: of job w is ('wide', 4), which makes no progress on several "
        "nodes, says the table of rates; nodes have at most 2 GPUs; give nodes 4 GPUs "
        "(gpus_per_node), correct the rates of gpu_unconsolidated, or leave the job out"
    )
    large = plain_fleet(Cluster(flavors=("gpu",), gpus=(4,)), {"trace": 4}, pool)
    (run,) = finished(FleetPlay(replace(large, table=here.table), [WIDE_JOB])).runs
    assert run.ended_ms == run.submitted_ms + 600_000


@pytest.mark.parametrize("pool", [BIND, ROUNDS])
def test_a_job_does_not_use_a_flavor_on_whose_nodes_it_stands_still(pool: Pool) -> None:
    tree: dict[str, dict[str, dict[str, object]]] = {
        "fast": {WIDE: {"null": 20.0}},
        "fast_unconsolidated": {WIDE: {"null": 0}},
        "slow": {WIDE: {"null": 10.0}},
    }
    here = on_nodes_of_two(pool, {"fast": 4, "slow": 4}, tree)
    (run,) = finished(FleetPlay(here, [WIDE_JOB])).runs
    assert run.ended_ms == run.submitted_ms + 600_000
    assert {each.flavor for each in run.intervals} == {"slow"}


def test_jobs_that_arrive_at_once_share_the_first_round_and_a_fork_repeats_that() -> None:
    jobs = [job(f"j{number}", 60.0, 2, 1_000.0) for number in range(4)]
    play = FleetPlay(plain_fleet(GPUS, {"a": 8}, ROUNDS), jobs)
    outcome = finished(play)
    assert {run.started_ms for run in outcome.runs} == {play.start_ms + 60_000}
    blocks = [events for _, events in open_blocks(play.store.blocks())]
    forked = fork(blocks, play.start_ms + 1, lottery_secret=LOTTERY_SECRET)
    assert list(forked.events) == [event for events in blocks for event in events]


def test_a_fork_repeats_runs_that_end_together_when_a_round_ends() -> None:
    """A round begins at their end; a fork must not begin it between the first and the second."""
    round_s = ROUNDS.round_ms / 1_000
    jobs = [job("one", 0.0, 2, round_s), job("two", 0.0, 4, round_s), job("late", 60.0, 8, 900.0)]
    play = FleetPlay(plain_fleet(GPUS, {"a": 8}, ROUNDS), jobs)
    finished(play)
    blocks = [events for _, events in open_blocks(play.store.blocks())]
    ended = [{each.run for each in block if isinstance(each, RunEnded)} for block in blocks]
    assert {"one", "two"} in ended
    forked = fork(blocks, play.start_ms + 60_001, lottery_secret=LOTTERY_SECRET)
    assert list(forked.events) == [event for events in blocks for event in events]


def test_a_job_of_no_known_type_is_named() -> None:
    jobs = [TraceJob(name="one", arrives_s=0.0, gpus=1, steps=10.0, job_type="nothing")]
    here = replace(plain_fleet(GPUS, {"trace": 8}, ROUNDS), table=rates())
    with pytest.raises(TraceError, match="of job one is"):
        finished(FleetPlay(here, jobs))


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (
            "gpus,arrives_s,steps,job_type\n1,0,9,vision-train\n1,0,9,nothing\n",
            ", column job_type: of job",
        ),
        ("gpus,arrives_s,duration_s,flavors\n1,0,9,l40s\n1,0,9,tpu\n", ", column flavors: of job"),
        (
            "gpus,arrives_s,steps\n1,0,9\n",
            ": job job-000000 has no duration_s; add it, or add job_type and steps",
        ),
    ],
)
def test_a_job_that_cannot_be_played_is_refused_with_its_line_before_a_ledger_is_made(
    text: str, fault: str
) -> None:
    asked = Scenario(
        discipline="bind", trace="jobs.csv", cluster="l40s=2", throughputs="rates.json"
    )

    def read(name: str) -> bytes:
        return text.encode() if name == "jobs.csv" else (EXAMPLES / "rates.json").read_bytes()

    def opened() -> MemoryStore:
        raise AssertionError("a ledger is made")

    last = text.count("\n")
    with pytest.raises(TraceError, match=f"^line {last}{fault}"):
        staged(asked, read, opened)


TYPED = "name,arrives_s,gpus,steps,job_type\none,0,1,9600,quick\ntwo,0,1,3600,slow\n"
UNTYPED = "name,arrives_s,gpus,duration_s\none,0,1,960\n"
QUICK, SLOW = "('quick', 1)", "('slow', 1)"
PAIRED = {QUICK: {"null": 10.0, SLOW: [8.0, 3.0]}, SLOW: {"null": 4.0}}
UNPAIRED = {QUICK: {"null": 10.0}, SLOW: {"null": 4.0}}
NEVER_PAIRED = {QUICK: {"null": 10.0, SLOW: [0, 0]}, SLOW: {"null": 4.0}}


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("policy", ["max_min_fairness_packed", "gandiva"])
@pytest.mark.parametrize("gpu", [UNPAIRED, NEVER_PAIRED])
def test_a_packed_policy_is_refused_with_a_table_by_which_no_jobs_share_gpus(
    policy: str, gpu: dict[str, dict[str, object]], *, strict: bool
) -> None:
    asked = Scenario(
        strict=strict, policy=policy, cluster="gpu=1,old=0", trace="jobs.csv", throughputs="t.json"
    )
    tree = {"gpu": gpu, "old": PAIRED}
    files = {"jobs.csv": TYPED.encode(), "t.json": json.dumps(tree).encode()}
    with pytest.raises(ScenarioError) as told:
        staged(asked, files.__getitem__)
    assert str(told.value) == (
        "throughputs: has no pair of job types that makes progress on gpu, and "
        f"{policy} lets two jobs share GPUs; add the rates of pairs, or use a policy that is not "
        "packed"
    )
    there = files | {"t.json": json.dumps({"gpu": PAIRED, "old": gpu}).encode()}
    staged(asked, there.__getitem__)
    with_table = msgspec.structs.replace(asked, policy="max_min_fairness_perf")
    staged(with_table, files.__getitem__)


def test_a_packed_policy_is_refused_without_a_table_or_without_types() -> None:
    asked = Scenario(policy="fifo_packed", cluster="gpu=1", trace="jobs.csv")
    files = {"jobs.csv": UNTYPED.encode(), "t.json": json.dumps({"gpu": PAIRED}).encode()}
    with pytest.raises(ScenarioError, match="throughputs: is missing, and fifo_packed lets two"):
        staged(asked, files.__getitem__)
    with pytest.raises(ScenarioError, match=r"trace: has no job with a type and steps.*job_type"):
        staged(msgspec.structs.replace(asked, throughputs="t.json"), files.__getitem__)


@pytest.mark.heavy
def test_a_stop_without_a_checkpoint_loses_work() -> None:
    """Two jobs that take turns in rounds take longer if each stop loses the round's work."""
    jobs = [job("one", 0.0, 8, 7_200.0), job("two", 0.0, 8, 7_200.0)]
    saves = finished(FleetPlay(fleet(jobs, ROUNDS), jobs))
    loses = replace(
        fleet(jobs, ROUNDS), costs=Costs(checkpoint_every_ms=7 * MINUTE_MS, saves_at_stop=False)
    )
    lost = finished(FleetPlay(loses, jobs))
    assert saves.ended_ms < lost.ended_ms


@pytest.mark.parametrize("stop_ms", [0, MINUTE_MS])
def test_the_end_of_a_round_is_a_stop_only_for_a_run_that_loses_its_gpus(stop_ms: int) -> None:
    jobs = [job("one", 0.0, 8, 9_000.0), job("two", 0.0, 8, 9_000.0)]
    here = replace(fleet(jobs, ROUNDS), costs=Costs(stop_ms=stop_ms))
    events = played_events(FleetPlay(here, jobs))
    (one, two) = outcome_of_ledger(events, name="ledger").runs
    assert (one.preemptions, two.preemptions) == (len(one.intervals) - 1, len(two.intervals) - 1)
    assert one.preemptions + two.preemptions > 3
    # A part of the ledger that ends while a run is stopped has this stop, too.
    first = next(n for n, each in enumerate(events) if isinstance(each, LeaseEnded))
    part = outcome_of_ledger(events[: first + 1], name="part")
    assert sum(run.preemptions for run in part.runs) == 1
    jobs = [job("one", 0.0, 4, 3_000.0), job("two", 0.0, 4, 3_000.0)]
    found = finished(FleetPlay(fleet(jobs, ROUNDS), jobs))
    assert [run.preemptions for run in found.runs] == [0, 0]


AT_ONCE = Pool(name="simulated", grace_max_ms=0)


@pytest.mark.slow
def test_rounds_in_which_every_stop_loses_all_work_end_with_the_remedy() -> None:
    """Such a simulation would never end."""
    jobs = [job(name, 5_000.0, 8, 7_200.0) for name in ("one", "two")]
    jobs = [job("done", 0.0, 8, 4_000.0), *jobs]
    here = replace(fleet(jobs, ROUNDS), costs=Costs(saves_at_stop=False))
    with pytest.raises(RoundsStuckError, match=r"no progress: .* checkpoint_s .* rounds of 600 s"):
        finished(FleetPlay(here, jobs), HOUR_MS)


# A wide job whose owner has nothing running takes the GPUs of the first job by a conflict.
PUT_BACK = [
    job("a", 0.0, 4, 3_600.0, owner="x"),
    job("b", 10.0, 4, 7_200.0, owner="y"),
    job("c", 20.0, 8, 1_800.0, owner="x"),
    job("d", 30.0, 2, 3_000.0, owner="z"),
    job("e", 4_000.0, 6, 5_000.0, owner="y"),
]


@pytest.mark.parametrize(
    ("saves_at_stop", "lost_gpu_s"),
    [(True, 0), (False, 2_360)],
)
def test_a_simulation_reports_the_work_that_was_done_and_lost(
    *, saves_at_stop: bool, lost_gpu_s: int
) -> None:
    """The last attempt of a requeued run is only a part of its work."""
    costs = Costs(checkpoint_every_ms=10 * MINUTE_MS, saves_at_stop=saves_at_stop)
    play = FleetPlay(replace(fleet(PUT_BACK, AT_ONCE), costs=costs), PUT_BACK)
    found = finished(play)
    assert {run.name: run.ideal_ms for run in found.runs} == {
        each.name: each.duration_s * 1_000 for each in PUT_BACK if each.duration_s
    }
    metrics = metrics_of(found)
    assert metrics.preemptions == 1
    assert metrics.completed == len(PUT_BACK)
    assert metrics.finish_time_fairness is not None
    assert 1.0 <= metrics.finish_time_fairness.most < 2.5
    assert metrics.lost_gpu_hours == pytest.approx(lost_gpu_s / 3_600)
    assert metrics.estimated == ()


@pytest.mark.heavy
def test_a_ledger_alone_allows_an_estimate_of_lost_work() -> None:
    """At most an hour is lost, and all attempts count, without the lost work."""
    events = played_events(FleetPlay(fleet(PUT_BACK, AT_ONCE), PUT_BACK))
    found = outcome_of_ledger(events, name="ledger")
    (back,) = (run for run in found.runs if run.preemptions)
    had_ms = sum(each.gpus * (each.end_ms - each.start_ms) for each in back.intervals) // back.gpus
    assert back.lost_gpu_ms == back.gpus * HOUR_MS
    assert back.ideal_ms == back.steps_done == had_ms - HOUR_MS
    assert metrics_of(found).estimated == ("finish_time_fairness", "lost_gpu_hours")
    assert "4.00 GPU-hours lost (estimated)" in "\n".join(metrics_lines(metrics_of(found)))
    assert "4.00 (estimated)" in html_report([found], title="ledger")


def test_the_ledger_may_be_a_file(tmp_path: Path) -> None:
    jobs = [job("one", 0.0, 4, 100.0), job("two", 3.0, 8, 50.0)]
    memory, file = MemoryStore(), SqliteStore.create(tmp_path / "ledger.db")
    one = finished(FleetPlay(fleet(jobs), jobs, store=memory))
    other = finished(FleetPlay(fleet(jobs), jobs, store=file))
    assert memory.head() == file.head()
    assert one.runs == other.runs
    file.close()


_JOBS = st.lists(
    st.builds(
        TraceJob,
        name=st.uuids().map(lambda value: f"j{value.hex[:8]}"),
        arrives_s=st.integers(0, 4_000).map(float),
        gpus=st.integers(1, 8),
        owner=st.sampled_from(["a", "b", "c"]),
        duration_s=st.integers(1, 3_000).map(float),
    ),
    min_size=1,
    max_size=8,
    unique_by=lambda each: each.name,
)


@pytest.mark.heavy
@examples(0.1)
@given(_JOBS, st.sampled_from([BIND, ROUNDS]), st.integers(1, 60))
def test_paused_or_not_all_work_is_done_and_every_wait_has_its_causes(
    drawn: list[TraceJob], pool: Pool, minutes: int
) -> None:
    jobs = list(by_arrival(drawn))
    here = plain_fleet(GPUS, dict.fromkeys(("a", "b", "c"), 8), pool)
    whole, parts = MemoryStore(), MemoryStore()
    found = finished(FleetPlay(here, jobs, store=whole))
    finished(FleetPlay(here, jobs, store=parts), minutes * MINUTE_MS)
    assert whole.head() == parts.head()
    assert metrics_of(found).utilisation <= 1.0
    assert len(found.runs) == len(jobs)
    for run in found.runs:
        assert run.ended_ms is not None
        assert run.steps_done == run.steps_asked
        had_ms = sum(each.end_ms - each.start_ms for each in run.intervals)
        assert sum(run.waits_ms.values()) == run.ended_ms - run.submitted_ms - had_ms


TIGHT = Pool(name="pool", notice_ms=2 * MINUTE_MS, runtime_min_ms=MINUTE_MS)
"""A pool in which generated jobs call conflicts."""
LOSES = Costs(checkpoint_every_ms=4 * MINUTE_MS, saves_at_stop=False, stop_ms=MINUTE_MS)


@pytest.mark.heavy
@examples(0.1)
@given(
    _JOBS,
    st.sampled_from([TIGHT, BIND, ROUNDS]),
    st.sampled_from([Costs(), LOSES]),
    st.lists(st.integers(1, 5_000), min_size=1, max_size=4),
)
def test_a_play_that_is_saved_and_gone_on_with_has_the_same_ledger(
    drawn: list[TraceJob], pool: Pool, costs: Costs, pauses_s: list[int]
) -> None:
    jobs = list(by_arrival(drawn))
    here = replace(plain_fleet(GPUS, dict.fromkeys(("a", "b", "c"), 8), pool), costs=costs)
    whole, store = MemoryStore(), MemoryStore()
    found = finished(FleetPlay(here, jobs, store=whole))
    play = FleetPlay(here, jobs, store=store)
    for pause_s in pauses_s:
        play.go_on(pause_s * 1_000)
        kept = msgspec.msgpack.decode(msgspec.msgpack.encode(play.saved()), type=SavedPlay)
        store = MemoryStore(store.blocks())
        play = FleetPlay(here, jobs, store=store, saved=kept)
        assert play.saved() == kept
    again = finished(play)
    assert store.head() == whole.head()
    assert replace(again, cpu_s=0.0) == replace(found, cpu_s=0.0)
    assert play.lost_gpu_ms == sum(work.lost_gpu_ms for work in play.saved().room.works)
    assert play.lost_gpu_ms == sum(run.lost_gpu_ms for run in again.runs)


RATES_OF_TWO: dict[str, dict[str, dict[str, object]]] = {
    "g": {"('t', 1)": {"null": 10.0}},
    "h": {"('t', 1)": {"null": 0.0}},
}


def stage_of(
    jobs: list[TraceJob], cluster: str, throughputs: str | None = None, *, strict: bool = False
) -> FleetStage | StrictStage:
    asked = Scenario(
        policy="max_min_fairness_perf",
        cluster=cluster,
        trace="jobs.csv",
        throughputs=throughputs,
        strict=strict,
    )
    table = write_throughputs(table_of(RATES_OF_TWO))
    files = {"jobs.csv": write_own(Trace(jobs=tuple(jobs))).encode(), "rates.json": table}
    return staged(asked, files.__getitem__)


def test_flavors_that_the_table_lacks_are_left_out_or_named() -> None:
    jobs = [TraceJob(name="one", arrives_s=0.0, gpus=1, steps=600.0, job_type="t")]
    stage = stage_of(jobs, "g=1,other=1", throughputs="rates.json")
    while stage.go_on():
        pass
    (run,) = stage.outcome().runs
    assert run.ended_ms == run.submitted_ms + 60_000
    with pytest.raises(ScenarioError, match=r"throughputs: has no rates on other"):
        stage_of(jobs, "g=1,other=1", throughputs="rates.json", strict=True)


def test_a_job_that_no_flavor_can_hold_or_run_is_named() -> None:
    wide = TraceJob(name="wide", arrives_s=0.0, gpus=8, duration_s=60.0, flavors=("g",))
    with pytest.raises(
        ScenarioError, match=r"cluster: has at most 4 GPUs of a flavor that job wide may use"
    ):
        stage_of([wide], "g=4,h=8")
    typed = TraceJob(name="typed", arrives_s=0.0, gpus=1, steps=600.0, job_type="t")
    with pytest.raises(TraceError, match="job_type: of job typed runs on none of h"):
        stage_of([typed], "h=8", throughputs="rates.json")


@pytest.mark.slow
def test_runs_that_no_policy_gives_gpus_end_the_simulation_with_an_error() -> None:
    poor = plain_fleet(GPUS, {"a": 2}, ROUNDS)
    play = FleetPlay(poor, [job("one", 0.0, 4, 60.0)])
    with pytest.raises(RoundsStuckError, match="get no GPUs"):
        finished(play, part_ms=10 * HOUR_MS)


def test_left_over_gpus_of_a_flavor_without_shares_go_to_runs_that_wait() -> None:
    """The owner pays for two GPUs of each flavor; the policy wants ``fast`` for all its runs."""
    table = table_of({"fast": {"('t', 1)": {"null": 10.0}}, "slow": {"('t', 1)": {"null": 8.0}}})
    cluster = Cluster(flavors=("fast", "slow"), gpus=(4, 4))
    jobs = [
        TraceJob(name=name, arrives_s=0.0, gpus=1, steps=6_000.0, job_type="t") for name in "abc"
    ]
    here = replace(plain_fleet(cluster, {"trace": 2}, ROUNDS), table=table)
    runs = finished(FleetPlay(here, jobs)).runs
    assert [run.started_ms for run in runs] == [run.submitted_ms for run in runs]


@pytest.mark.heavy
def test_a_scattered_run_is_not_restarted_for_nodes_that_a_wider_run_takes() -> None:
    """``narrow`` is on two nodes; the third node is free between two rounds, and taken again."""
    jobs = [
        job("left", 0.0, 3, 30_000.0),
        job("right", 0.0, 3, 30_000.0),
        job("first", 0.0, 4, 540.0),
        job("narrow", 0.0, 2, 20_000.0),
        *(job(f"wide{number}", 300.0 + 600.0 * number, 4, 540.0) for number in range(20)),
    ]
    cluster, layout = Cluster(flavors=("gpu",), gpus=(12,)), Layout(gpus_per_node=4)
    pool = msgspec.structs.replace(ROUNDS, policy="fifo_perf")
    play = FleetPlay(plain_fleet(cluster, {"a": 12}, pool, layout), jobs)
    finished(play)
    starts = [
        event
        for _, block in open_blocks(play.store.blocks())
        for event in block
        if isinstance(event, LeaseStarted) and event.run == "narrow"
    ]
    assert len(starts[0].slots) == 2
    assert len(starts) == len({each.slots for each in starts})
