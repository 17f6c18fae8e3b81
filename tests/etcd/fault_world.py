"""The world of a fault test, used by all programs: a fleet in four pools, and few runs at a time.

Quotas of owners cover all pools and are soon used up, so that programs which submit to different
pools compete for them. The owner, the size and the pool of a run follow from its name.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from random import Random
from typing import Any, Final

from quorate.model.amounts import HOUR_MS
from quorate.model.specs import OnQuota, Owner, Quota, Run
from quorate.testing.builders import run
from quorate.testing.client_history import Cancel, Read, Request, Submit
from tests.service.worlds import run_tree

ERA_S: Final = 2.0
"""How long all programs use the same runs."""
RECORDED_S: Final = 600
"""The time in which programs have to record something, even on a busy machine."""
RUNS: Final = 8
POOLS: Final = 4
NODES_OF_POOL: Final = 3
OWNERS: Final = (
    Owner(name="science", quota=Quota(nodes_max=5)),
    Owner(name="physics", parents=("science",), quota=Quota(concurrent_runs_max=2)),
    Owner(name="chem", parents=("science",), quota=Quota(nodes_max=2)),
)


def pick(chance: Random, nonce: str, pool: int | None = None) -> tuple[str, Request]:
    """Return the next request and its run, usually a run of this era.

    With ``pool``, only runs of that pool are submitted.
    """
    era = int(time.monotonic() / ERA_S) - (chance.random() < 0.2)
    kind = chance.random()
    requests: tuple[tuple[float, Request], ...] = (
        (0.35, Submit(nonce)),
        (0.65, Cancel()),
        (0.9, Read()),
        (1.0, Read(may_lag=True)),
    )
    request = next(each for most, each in requests if kind < most)
    numbers = range(RUNS)
    if pool is not None and isinstance(request, Submit):
        numbers = range(pool, RUNS, POOLS)
    return f"e{era}-{chance.choice(numbers)}", request


def spec_of(name: str, nonce: str) -> Run:
    """Return the run ``name`` as the client with ``nonce`` submits it."""
    chance = Random(name)
    return run(
        name,
        chance.choice((1, 2, 4, 8, 16)),
        chance.choice(("physics", "chem")),
        pool=_pool(int(name.rpartition("-")[2]) % POOLS),
        nonce=nonce,
        on_quota=chance.choice(list(OnQuota)),
        expected_duration_ms=HOUR_MS,
    )


def tree_of(name: str, nonce: str) -> dict[str, Any]:
    """Return the document of the run ``name`` as the client with ``nonce`` submits it."""
    spec = spec_of(name, nonce)
    return run_tree(
        name, spec.owner, spec.gpus, nonce=nonce, onQuota=spec.on_quota.value, pool=spec.pool
    )


def documents() -> list[dict[str, object]]:
    """Return the fleet, its pools, and the owners with their budgets."""
    found: list[dict[str, object]] = []
    for pool in range(POOLS):
        cluster = f"c{pool}"
        labels = {"region": "r", "cluster": cluster, "fabric.domain": f"d{pool}"}
        found.append(_document("Pool", _pool(pool), {"selector": {"cluster": cluster}}))
        found += [
            _document("Node", f"n{pool}-{number}", {"flavor": "H100", "gpus": 8}, labels)
            for number in range(NODES_OF_POOL)
        ]
    for owner in OWNERS:
        nodes, runs = owner.quota.nodes_max, owner.quota.concurrent_runs_max
        quota = {"maxNodes": nodes} if runs is None else {"maxConcurrentRuns": runs}
        spec = {"parents": list(owner.parents), "quota": quota}
        found.append(_document("Owner", owner.name, spec))
        envelope = {
            "name": "all",
            "flavor": "H100",
            "selector": {"region": "*"},
            "concurrency": 500,
            "start": "2020-01-01T00:00:00Z",
            "end": "2040-01-01T00:00:00Z",
        }
        budget = {"owner": owner.name, "envelopes": [envelope]}
        found.append(_document("Budget", owner.name, budget))
    return found


def _pool(number: int) -> str:
    return f"p{number}"


def _document(
    kind: str, name: str, spec: Mapping[str, object], labels: dict[str, str] | None = None
) -> dict[str, object]:
    metadata = {"name": name} | ({"labels": labels} if labels else {})
    return {"apiVersion": "quorate.dev/v1", "kind": kind, "metadata": metadata, "spec": spec}
