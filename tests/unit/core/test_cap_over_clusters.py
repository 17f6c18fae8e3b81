"""A cap over envelopes of two clusters: one commit gives the room of one cluster to the other.

``tests/kubernetes/test_serving_two_clusters.py`` shows the same with two API servers.
"""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from quorate.core.commands import Cancel, Confirm, Submit
from quorate.loop.orders import orders_of
from quorate.model.events import LeaseEnded, LeaseStarted
from quorate.model.refusal import RefusalCode
from quorate.model.specs import Cap, Pool, PoolExecutor
from quorate.model.state.records import Phase
from quorate.ports.executor_port import EndLease, StartLease
from quorate.testing.builders import budget, envelope, node, run
from tests.oracles.lives import Life

CLUSTERS = ("west", "east")


def two_clusters() -> Life:
    """Return a ledger of two clusters with 16 GPUs each, and a cap of 16 over both."""
    lines = [envelope(name, 16, selector=(("cluster", name),)) for name in CLUSTERS]
    both = Cap(name="both", flavor="H100", envelopes=CLUSTERS, concurrency_max=16)
    return Life(
        nodes=[
            replace(node(f"{name}-{number}"), cluster=name)
            for name in CLUSTERS
            for number in (1, 2)
        ],
        budgets=[budget("rai", "rai", *lines, caps=[both])],
        pools=[
            Pool(
                name=name,
                selector=(("cluster", name),),
                executor=PoolExecutor.KUBERNETES,
                cluster=name,
            )
            for name in CLUSTERS
        ],
        has_executor=True,
    )


@pytest.mark.parametrize("first", CLUSTERS)
def test_a_run_of_one_cluster_starts_in_the_commit_that_ends_one_of_the_other(first: str) -> None:
    (second,) = set(CLUSTERS) - {first}
    life = two_clusters()
    for name in ("a", "b"):
        life.do(Submit(run(name, 8, "rai", pool=first)))
    life.do(Submit(run("c", 8, "rai", pool=second)))
    refusal = life.state.runs["c"].refusal
    assert refusal is not None
    assert refusal.code is RefusalCode.INSUFFICIENT_FUNDS
    assert "cap rai/both" in {each.limit for each in refusal.shortages}
    life.do(Cancel("a"))
    assert life.phase("c") is Phase.PENDING
    decision = life.do(Confirm("a/0"))
    kinds = [type(each) for each in decision.events if isinstance(each, LeaseEnded | LeaseStarted)]
    assert kinds == [LeaseEnded, LeaseStarted]
    ended, started = orders_of(life.state, decision.events)
    assert isinstance(ended, EndLease)
    assert isinstance(started, StartLease)
    assert (ended.lease, started.run.name, started.executor) == (
        "a/0",
        "c",
        f"kubernetes/{second}",
    )
    assert sum(each.gpus for each in life.state.leases.values()) == 16
