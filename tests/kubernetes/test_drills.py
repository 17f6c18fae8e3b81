"""Runs as custom resources while the service, the API server, connections, etcd and nodes fail.

``make soak`` drills 500 runs on 200 nodes of 8 GPUs, with 20 kills of the service and 5 of the API
server, and plants bugs. ``make test`` drills a few runs, with one fault of each kind except kills
of the API server, because restarting it takes more time than everything else.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bounds import WAIT_S
from tests.kubernetes.drill import Plan, drill
from tests.kubernetes.engines import Server, mortal_server
from tests.kubernetes.planted import PLANTED

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

FAULTS = {
    "service killed": 20,
    "API server killed": 5,
    "watches cut": 5,
    "long outage": 2,
    "run deleted while it works": 20,
    "node deleted": 5,
}
SHORT = {name: 1 for name in FAULTS if name != "API server killed"}
NARROW = (1, 2, 4, 8)
"""The widths of runs in a drill on few nodes, so that each run finds room while others stay."""
FOUND_BY = {
    "pods_twice": "without a lease",
    "no_finalizer": "was deleted and is Running in the ledger",
    "never_let_go": "'dropped': ['anchor-0', 'anchor-1'",
    "loss_is_deletion": "is Cancelled in the ledger",
    "kills_strangers": "a pod of others, is gone",
    "old_generation": "the budget in the ledger is not that of its resource",
    "wrong_node": "works on drill-0",
}
"""What a drill reports for each planted bug; a slow machine alone causes none of these reports."""


@pytest.mark.usefixtures("only_resources", "only_gpu_nodes")
def test_nothing_is_lost_doubled_or_left_behind_when_each_fails_once(
    cluster: Server, tmp_path: Path
) -> None:
    plan = Plan(seed=20, nodes=5, runs=12, faults=SHORT, refusals=5, within_s=180.0, widths=NARROW)
    with drill(plan, cluster, tmp_path) as played:
        played.play()
        assert played.problems() == []


@pytest.mark.soak
@pytest.mark.parametrize("seed", [20, 21])
def test_nothing_is_lost_doubled_or_left_behind_whatever_fails(
    programs: Path, tmp_path: Path, seed: int
) -> None:
    plan = Plan(seed=seed, nodes=200, runs=500, faults=FAULTS, refusals=200, within_s=1_800.0)
    with mortal_server(programs, tmp_path) as mortal:
        server = mortal.start()
        with drill(plan, server, tmp_path, mortal) as played:
            played.play()
            assert played.problems() == []


@pytest.mark.soak
@pytest.mark.usefixtures("only_resources", "only_gpu_nodes")
@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_is_found(cluster: Server, tmp_path: Path, bug: str) -> None:
    plan = Plan(seed=20, nodes=5, runs=15, faults=SHORT, within_s=WAIT_S, bug=bug, widths=NARROW)
    with drill(plan, cluster, tmp_path) as played:
        played.play()
        found = played.problems()
    assert any(FOUND_BY[bug] in each for each in found), found
