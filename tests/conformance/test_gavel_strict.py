"""Strict simulations of the published traces, compared with recorded runs of published code.

The traces are beside the repository, in ``../shared``, and are not part of it; without them this
module is skipped. Policies without a solver must give the recorded figures to the last recorded
digit. Linear programs have several optimal answers, and solvers choose differently: those policies
must be within 5 %.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from quorate.policy.files.cluster_file import Cluster
from quorate.policy.files.file_faults import Faulty
from quorate.policy.files.throughputs_file import ThroughputTable, read_throughputs
from quorate.sim.strict_play import Experiment, StrictPlay
from quorate.sim.traces.trace_formats import read_trace

SHARED: Final = Path(__file__).parents[3] / "shared"
DATA: Final = SHARED / "data" / "gavel"
RECORDED: Final = SHARED / "conformance" / "gavel"
CLUSTER: Final = Cluster(flavors=("v100", "p100", "k80"), gpus=(8, 16, 24))
ARRIVING, AT_ONCE = "max_min_fairness.trace", "minimize_makespan.trace"

pytestmark = pytest.mark.skipif(
    not DATA.is_dir(), reason="the published traces are not beside this repository (../shared)"
)


def table(name: str) -> ThroughputTable:
    found = read_throughputs((DATA / name).read_bytes())
    assert not isinstance(found, Faulty)
    return found


def played(policy: str, trace: str, cluster: Cluster, rates: str) -> StrictPlay:
    jobs = read_trace((DATA / trace).read_text(encoding="utf-8")).jobs
    play = StrictPlay(Experiment(policy=policy, cluster=cluster, table=table(rates)), jobs)
    while play.go_on(100):
        pass
    return play


def figures(policy: str, trace: str) -> dict[str, Any]:
    return played(policy, trace, CLUSTER, "physical_cluster_throughputs.json").figures()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("policy", "trace", "recorded"),
    [
        ("isolated", ARRIVING, (5.26, 20.21, 0.758, 247.87)),
        ("fifo", ARRIVING, (9.85, 53.33, 0.356, 279.16)),
        pytest.param("fifo", AT_ONCE, (47.25, 70.38, 0.164, 410.22), marks=pytest.mark.soak),
        ("fifo_perf", ARRIVING, (5.18, 18.98, 0.728, 237.65)),
        ("fifo_perf", AT_ONCE, (10.71, 24.31, 0.779, 312.17)),
        ("gandiva", ARRIVING, (4.76, 17.83, 0.777, 275.21)),
        pytest.param("gandiva", AT_ONCE, (9.77, 20.93, 0.922, 420.06), marks=pytest.mark.soak),
    ],
)
def test_policies_without_a_solver_have_the_recorded_figures(
    policy: str, trace: str, recorded: tuple[float, float, float, float]
) -> None:
    found = figures(policy, trace)
    assert (
        round(found["jct_mean_s"] / 3600, 2),
        round(found["makespan_s"] / 3600, 2),
        round(found["utilisation"], 3),
        round(found["cost"], 2),
    ) == recorded


@pytest.mark.slow
@pytest.mark.parametrize(
    ("policy", "trace", "jct_h", "makespan_h"),
    [
        ("max_min_fairness_perf", ARRIVING, 3.82, 17.11),
        ("max_min_fairness_perf", AT_ONCE, 9.26, 18.64),
        ("max_min_fairness_packed", ARRIVING, 3.74, 16.96),
        pytest.param("max_min_fairness_packed", AT_ONCE, 8.48, 17.69, marks=pytest.mark.soak),
        ("finish_time_fairness_perf", ARRIVING, 3.94, 17.18),
        pytest.param("finish_time_fairness_perf", AT_ONCE, 9.37, 19.09, marks=pytest.mark.soak),
        ("max_min_fairness", ARRIVING, 5.20, 19.70),
        pytest.param("max_min_fairness", AT_ONCE, 9.22, 22.43, marks=pytest.mark.soak),
        ("finish_time_fairness", ARRIVING, 5.14, 20.21),
        pytest.param("finish_time_fairness", AT_ONCE, 9.67, 21.34, marks=pytest.mark.soak),
        ("min_total_duration", ARRIVING, 5.52, 19.58),
        pytest.param("min_total_duration", AT_ONCE, 19.21, 20.71, marks=pytest.mark.soak),
        ("min_total_duration_perf", ARRIVING, 5.94, 16.25),
        pytest.param("min_total_duration_perf", AT_ONCE, 17.05, 17.40, marks=pytest.mark.soak),
        ("max_sum_throughput_perf", ARRIVING, 4.35, 17.62),
    ],
)
def test_policies_with_a_solver_are_within_five_percent(
    policy: str, trace: str, jct_h: float, makespan_h: float
) -> None:
    found = figures(policy, trace)
    assert found["jct_mean_s"] / 3600 == pytest.approx(jct_h, rel=0.05)
    assert found["makespan_s"] / 3600 == pytest.approx(makespan_h, rel=0.05)


@pytest.mark.parametrize("name", ["rounds_small_isolated", "rounds_small_fifo_perf"])
def test_recorded_rounds_come_from_the_trace_alone(name: str) -> None:
    recorded = json.loads((RECORDED / f"{name}.json").read_text(encoding="utf-8"))
    gpus = recorded["cluster_spec"]
    play = played(
        recorded["policy"],
        Path(recorded["trace"]).name,
        Cluster(flavors=tuple(gpus), gpus=tuple(gpus.values())),
        recorded["throughputs_file"],
    )
    assert play.tally.completion_s == recorded["jct"]
    assert play.tally.ended_s == recorded["makespan"]
    assert [play.tally.extensions, play.tally.extension_chances] == recorded["lease_extensions"]
    assert play.tally.rounds == len(recorded["rounds"])
