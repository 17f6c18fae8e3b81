"""Runs as custom resources while service, API server, lines, etcd and nodes fail.

``make soak`` drills 500 runs on 200 nodes of 8 GPUs, with 20 kills of the service and 5 of the API
server, and plants bugs; ``make test`` drills a few of each.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kubernetes.drill import Plan, drill
from tests.kubernetes.engines import Server, mortal_server
from tests.kubernetes.planted import PLANTED
from tests.oracles.effort import few_of, sized

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3_600)]

FAULTS = {
    "service killed": sized(1, 20),
    "API server killed": sized(1, 5),
    "watches cut": sized(1, 5),
    "long outage": sized(1, 2),
    "run deleted while it works": sized(1, 20),
    "node deleted": sized(1, 5),
}
SHORT = {name: 1 for name in FAULTS if name != "API server killed"}


@pytest.mark.parametrize("seed", few_of((20, 21), 0))
def test_nothing_is_lost_doubled_or_left_behind_whatever_fails(
    programs: Path, tmp_path: Path, seed: int
) -> None:
    plan = Plan(
        seed=seed,
        nodes=sized(5, 200),
        runs=sized(15, 500),
        faults=FAULTS,
        refusals=sized(5, 200),
        within_s=sized(180, 1_800),
    )
    with mortal_server(programs, tmp_path) as mortal:
        server = mortal.start()
        with drill(plan, server, tmp_path, mortal) as played:
            played.play()
            assert played.problems() == []


@pytest.mark.usefixtures("only_resources", "only_gpu_nodes")
@pytest.mark.parametrize("bug", few_of(PLANTED, 0))
def test_a_planted_bug_is_found(cluster: Server, tmp_path: Path, bug: str) -> None:
    plan = Plan(seed=20, nodes=5, runs=15, faults=SHORT, within_s=20.0, bug=bug)
    with drill(plan, cluster, tmp_path) as played:
        played.play()
        assert played.problems(), f"{bug} is not found"
