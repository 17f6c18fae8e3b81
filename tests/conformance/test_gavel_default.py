"""The published traces in the production engine, compared with recorded runs of published code.

The traces are beside the repository, in ``../shared``, and are not part of it; without them this
module is skipped. Jobs are paid for, placed and recorded as in production, and share by the default
mechanism. By the objective of each policy, the result is no worse than the published one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from quorate.sim.report.metrics import Metrics, metrics_of
from quorate.sim.scenario import Scenario
from quorate.sim.scenario_play import staged

DATA: Final = Path(__file__).parents[3] / "shared" / "data" / "gavel"

pytestmark = pytest.mark.skipif(
    not DATA.is_dir(), reason="the published traces are not beside this repository (../shared)"
)


def _played(policy: str, trace: str) -> Metrics:
    scenario = Scenario(
        cluster="v100=8,p100=16,k80=24",
        discipline="rounds",
        policy=policy,
        trace=trace,
        throughputs="physical_cluster_throughputs.json",
    )
    stage = staged(scenario, lambda name: (DATA / name).read_bytes())
    while stage.go_on():
        pass
    return metrics_of(stage.outcome())


@pytest.mark.slow
def test_max_min_fairness_completes_jobs_no_later_than_was_recorded() -> None:
    found = _played("max_min_fairness_perf", "max_min_fairness.trace")
    assert (found.runs, found.completed) == (96, 96)
    assert found.jct_s is not None
    assert found.jct_s.mean / 3600 <= 3.82


@pytest.mark.slow
def test_the_least_makespan_is_no_longer_than_was_recorded() -> None:
    found = _played("min_total_duration_perf", "minimize_makespan.trace")
    assert (found.runs, found.completed) == (100, 100)
    assert found.makespan_s / 3600 <= 17.40
