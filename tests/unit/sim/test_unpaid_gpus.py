from __future__ import annotations

import pytest

from quorate.core.commands import Applied
from quorate.ledger.chain import open_blocks
from quorate.ledger.fold import fold
from quorate.model.specs import Budget, Node, Pool
from quorate.policy.files.cluster_file import Cluster
from quorate.sim.fleet_simulation import START_MS, WINDOW_MS, FleetPlay, plain_fleet
from quorate.sim.traces.trace_job import TraceJob
from quorate.sim.whatif.unpaid_gpus import Unpaid, unpaid_gpus

FLEET = plain_fleet(
    Cluster(flavors=("gpu", "old"), gpus=(8, 4)), {"x": 8, "y": 8}, Pool(name="simulated")
)
JOBS = (TraceJob(name="a", arrives_s=0.0, gpus=1, owner="x", duration_s=1.0),)
(FIRST, *_) = (each for each in FLEET.specs if isinstance(each, Budget))


def node(gpus: int, flavor: str = "gpu", region: str = "sim") -> Node:
    return Node(name=f"n-{flavor}-{region}", flavor=flavor, gpus=gpus, region=region,
                cluster="c", domain="d")  # fmt: skip


def unpaid(*changes: Applied, at_ms: int = START_MS) -> list[Unpaid]:
    store = FleetPlay(FLEET, JOBS).store
    view = fold(event for _, block in open_blocks(store.blocks()) for event in block)
    return list(unpaid_gpus(view, changes, at_ms))


def test_gpus_up_to_the_sum_of_the_envelopes_are_paid() -> None:
    assert unpaid(node(8)) == []
    assert unpaid(FIRST) == []


@pytest.mark.parametrize(
    ("added", "gpus", "lever"),
    [
        (node(16), 8, "--set budget.x.envelopes.gpu.concurrency=16"),
        (node(5, "old"), 1, "--set budget.x.envelopes.old.concurrency=5"),
        (node(4, "gpu", "elsewhere"), 4, None),
        (node(4, "new"), 4, None),
    ],
)
def test_added_gpus_that_no_envelope_pays_for_are_counted(
    added: Node, gpus: int, lever: str | None
) -> None:
    expected = Unpaid(flavor=added.flavor, added=added.gpus, gpus=gpus, lever=lever)
    assert unpaid(added) == [expected]


def test_only_open_windows_and_the_new_budgets_count() -> None:
    assert [each.gpus for each in unpaid(node(4), at_ms=START_MS + WINDOW_MS)] == [4]
    none = Budget(name="x", owner="x", envelopes=())
    assert [each.gpus for each in unpaid(node(4), none)] == [4]
