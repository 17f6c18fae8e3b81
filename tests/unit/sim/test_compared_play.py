from __future__ import annotations

import json

import pytest

from quorate.cli.simulate_comparison import seeds_of
from quorate.sim.compared_play import compared_tasks, play_task
from quorate.sim.report.compare import compare
from quorate.sim.scenario import Scenario, ScenarioError

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


@pytest.mark.parametrize(
    ("changed", "names", "seeds", "said"),
    [
        ({"generate": None, "trace": "t"}, ["bind", "srtf"], range(5), "one sample"),
        ({"generate": "lam=1,seed=3"}, ["bind", "srtf"], range(5), "has a seed"),
        ({"record": "x.db"}, ["bind", "srtf"], range(5), "many ledgers"),
        ({}, ["bind"], range(5), "two or more"),
        ({}, ["bind", "srtf"], range(4), "use 5 or more"),
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
    with pytest.raises(ScenarioError, match="knows one flavor"):
        play_task(task, FILES)


def test_seeds_are_numbers_and_ranges() -> None:
    assert seeds_of("0-2, 7") == [0, 1, 2, 7]
    with pytest.raises(ScenarioError, match="write numbers and ranges"):
        seeds_of("3-1")
