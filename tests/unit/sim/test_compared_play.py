from __future__ import annotations

import json
import pickle

import pytest
from msgspec.structs import replace as replace_fields

from quorate.cli.simulation.simulate_comparison import seeds_of
from quorate.sim.compared_play import compared_tasks, play_task
from quorate.sim.outcome import Outcome
from quorate.sim.report.compare import compare
from quorate.sim.round_simulation import NeverRunError
from quorate.sim.scenario import Scenario, ScenarioError
from quorate.sim.traces.trace_job import TraceError

pytestmark = pytest.mark.heavy


RATES = json.dumps({"v100": {"('lm', 1)": {"null": 10.0}, "('net', 1)": {"null": 4.0}}}).encode()
ASKED = Scenario(
    cluster="v100=2", policy="fifo", generate="lam=400,jobs=6", throughputs="rates.json"
)
FILES = {"rates.json": RATES}


def test_every_policy_is_played_on_the_same_jobs_of_each_seed() -> None:
    tasks = compared_tasks(ASKED, ["bind", "srtf"], range(5))
    assert [(task.name, task.scenario.seed) for task in tasks[:3]] == [
        ("bind", 0),
        ("srtf", 0),
        ("bind", 1),
    ]
    outcomes = [play_task(task, FILES) for task in tasks]
    found = compare(outcomes)
    assert (found.names, found.seeds) == (("bind", "srtf"), (0, 1, 2, 3, 4))
    assert len({tuple(run.ideal_ms for run in each.runs) for each in outcomes}) > 1
    again = play_task(tasks[1], FILES)
    assert again == outcomes[1]


def test_every_policy_measures_the_same_jobs() -> None:
    names = ["bind", "fifo", "fifo-easy", "srtf"]
    tasks = compared_tasks(replace_fields(ASKED, measure="2:5"), names, range(5))
    outcomes = [play_task(task, FILES) for task in tasks]
    found = compare(outcomes, warm_up=0.0)
    assert {each.measured for each in outcomes} == {frozenset("234")}
    assert {metrics.runs for metrics in found.metrics.values()} == {3}


def test_a_stop_costs_a_baseline_what_it_costs_the_engine() -> None:
    asked = replace_fields(ASKED, generate="lam=9000,jobs=12", cluster="v100=1")
    costly = replace_fields(asked, saves_at_stop=False, checkpoint_s=7_200.0, stop_s=600.0)
    names, lost = ["bind", "srtf"], []
    for each in (asked, costly):
        outcomes = [play_task(task, FILES) for task in compared_tasks(each, names, range(5))]
        lost.append(sum(run.lost_gpu_ms for outcome in outcomes for run in outcome.runs))
        for run in (run for outcome in outcomes for run in outcome.runs):
            had_ms = sum(each.end_ms - each.start_ms for each in run.intervals)
            stops_ms = round(each.stop_s * 1_000) * run.preemptions
            assert run.gpus * (had_ms - stops_ms) == run.gpus * run.ideal_ms + run.lost_gpu_ms
    assert lost[0] == 0 < lost[1]


@pytest.mark.parametrize(
    ("changed", "names", "seeds", "said"),
    [
        ({"generate": None, "trace": "t"}, ["bind", "srtf"], range(5), "same sample"),
        ({"generate": "lam=1,seed=3"}, ["bind", "srtf"], range(5), "has a seed"),
        ({"record": "x.db"}, ["bind", "srtf"], range(5), "many ledgers"),
        ({}, ["bind"], range(5), "two or more"),
        ({}, ["bind", "srtf"], range(4), "seeds: 4 are too few; give at least 5"),
        ({}, ["bind", "nope"], range(5), "has 'nope'"),
    ],
)
def test_what_cannot_be_compared_is_refused(
    changed: dict[str, str | None], names: list[str], seeds: range, said: str
) -> None:
    fields = {name: getattr(ASKED, name) for name in Scenario.__struct_fields__} | changed
    with pytest.raises(ScenarioError, match=said):
        compared_tasks(Scenario(**fields), names, seeds)


def test_a_baseline_on_several_flavors_is_refused() -> None:
    fields = {name: getattr(ASKED, name) for name in Scenario.__struct_fields__}
    both = Scenario(**{**fields, "cluster": "v100=2,k80=2"})
    (task, *_) = compared_tasks(both, ["srtf", "bind"], range(5))
    with pytest.raises(ScenarioError, match="supports only one flavor"):
        play_task(task, FILES)


@pytest.mark.parametrize(
    ("name", "cluster"),
    [("bind", "k80=2"), ("fifo", "k80=2"), ("srtf", "k80=2"), ("bind", "v100=2,k80=2")],
)
def test_generated_jobs_need_rates_on_each_flavor_of_the_cluster(name: str, cluster: str) -> None:
    asked = Scenario(cluster=cluster, generate="lam=400,jobs=6", throughputs="rates.json")
    tasks = compared_tasks(asked, ["bind", "fifo", "srtf"], range(5))
    (task, *_) = (each for each in tasks if each.name == name)
    with pytest.raises(ScenarioError, match="throughputs: has no rates on k80; add these rates"):
        play_task(task, FILES)


def test_a_flavor_without_gpus_needs_no_rates() -> None:
    asked = Scenario(cluster="2:0:0", generate="lam=400,jobs=1", throughputs="rates.json")
    (task, *_) = compared_tasks(asked, ["bind", "fifo"], range(5))
    assert play_task(task, FILES).runs


def test_seeds_are_numbers_and_ranges() -> None:
    assert seeds_of("0-2, 7") == [0, 1, 2, 7]
    with pytest.raises(ScenarioError, match="write numbers and ranges"):
        seeds_of("3-1")


def _played(names: tuple[str, ...], **more: object) -> dict[str, Outcome]:
    rates = json.dumps({f: {"('lm', 1)": {"null": rate}} for f, rate in SPEEDS}).encode()
    asked = Scenario(
        generate="lam=900,jobs=1",
        cluster="k80=2",
        throughputs="rates",
        **more,  # type: ignore[arg-type]
    )
    tasks = compared_tasks(asked, names, range(5))
    return {task.name: play_task(task, {"rates": rates}) for task in tasks[: len(names)]}


SPEEDS = (("v100", 10.0), ("k80", 2.0))


def test_a_baseline_is_as_fast_as_the_flavor_of_the_cluster() -> None:
    found = _played(("bind", "fifo-easy", "priority"))
    runs = [outcome.runs[0] for outcome in found.values()]
    took_ms = {run.ended_ms - run.submitted_ms for run in runs if run.ended_ms is not None}
    assert len(took_ms) == 1, found


def test_a_named_policy_shares_in_rounds_whatever_the_discipline_was() -> None:
    asked = Scenario(
        generate="lam=900,jobs=3", cluster="k80=2", throughputs="rates", discipline="bind"
    )
    tasks = compared_tasks(asked, ("bind", "fifo_perf"), range(5))
    assert [task.scenario.discipline for task in tasks[:2]] == ["bind", "rounds"]


def test_the_published_mechanism_is_not_compared_with_what_it_does_not_know() -> None:
    asked = Scenario(generate="lam=900,jobs=3", cluster="k80=2", throughputs="rates", strict=True)
    with pytest.raises(ScenarioError, match="published mechanism does not support"):
        compared_tasks(asked, ("bind", "fifo_perf"), range(5))


@pytest.mark.parametrize(
    "error",
    [
        ScenarioError("seed", "is odd", "use 2"),
        TraceError(3, "gpus", "is odd", "use 2"),
        NeverRunError(("first", "other")),
    ],
)
def test_an_error_crosses_processes(error: Exception) -> None:
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    assert (type(again), str(again)) == (type(error), str(error))
