"""A round leaves out no run with room, money and quota, and gives no GPU to two runs.

The idle GPUs in the middle of a round are compared with brute force: it counts free slots node by
node from the leases, and tries every way to place a run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.core.admission.layout import cut
from quorate.core.commands import Applied, Cancel, MarkNode
from quorate.model.events import LeaseStarted, NodeStatus, RoundCode, RunRefused
from quorate.model.selector import DOMAIN
from quorate.model.specs import Node, OnQuota, Owner, Run
from quorate.model.state.records import RunRecord
from quorate.model.state.state_view import StateView
from tests.oracles.effort import examples
from tests.oracles.rounds import POOL, ROUND_MS, Room, money, pool, run_of, team, work

FLAVORS = ("a100", "k80")
SETTLED_MS = 60_000
"""When all stopped runs have ended and all grants have started."""


@st.composite
def worlds(draw: st.DrawFn) -> tuple[list[Applied], list[Run]]:
    """Draw a pool of two flavors, three owners, some with quotas, and up to ten runs."""
    nodes = [
        Node(
            name=f"n{number}",
            flavor=draw(st.sampled_from(FLAVORS)),
            gpus=draw(st.integers(1, 3)),
            region="r",
            cluster="c",
            domain=draw(st.sampled_from("xy")),
        )
        for number in range(draw(st.integers(1, 6)))
    ]
    limit = st.none() | st.integers(1, 3)
    lab = team("lab", **_limits(draw(limit), None))
    owners = [
        lab,
        Owner(name="ant", parents=("lab",), quota=team("", **_limits(draw(limit), None)).quota),
        team("bee", **_limits(draw(limit), draw(st.none() | st.integers(1, 2)))),
        team("cow"),
    ]
    budgets = [money(owner.name, draw(st.sampled_from([1_000, 1, 3]))) for owner in owners]
    runs = [_run(draw, number) for number in range(draw(st.integers(1, 10)))]
    return [pool(), *nodes, *owners, *budgets], runs


def _limits(runs: int | None, nodes: int | None) -> dict[str, int]:
    found = {"concurrent_runs_max": runs, "nodes_max": nodes}
    return {name: limit for name, limit in found.items() if limit is not None}


def _run(draw: st.DrawFn, number: int) -> Run:
    flavors = draw(st.sampled_from([FLAVORS, FLAVORS[:1], FLAVORS[1:]]))
    rates = work(dict.fromkeys(flavors, 10.0), weight=draw(st.sampled_from([1.0, 3.0])))
    gpus = draw(st.integers(1, 5))
    fields = {
        "gpus": gpus,
        "flavors": flavors,
        "rounds": rates,
        "on_quota": OnQuota.WAIT,
        "cross_group_spread": draw(st.booleans()),
        "group_gpus": draw(st.none() | st.integers(1, gpus)),
        "selector": draw(st.sampled_from([(), (), ((DOMAIN, "x"),)])),
    }
    return run_of(f"r{number}", draw(st.sampled_from(["ant", "bee", "cow"])), fields)


@pytest.mark.heavy
@examples(0.6)
@given(world=worlds(), data=st.data())
def test_nobody_is_left_out_of_a_round_who_could_have_what_is_idle(
    world: tuple[list[Applied], list[Run]], data: st.DataObject
) -> None:
    specs, runs = world
    room = Room(specs)
    room.submit_together(*runs)
    for _ in range(4):
        room.pass_ms(SETTLED_MS)
        round_ = room.view.rounds[POOL]
        assert not round_.leaving
        assert RoundCode.FAILED not in {cause.code for cause in round_.shared.causes}
        if not round_.shared.causes:  # Otherwise no run can run at all.
            assert not round_.waiting
            refused = [event for event in room.events() if isinstance(event, RunRefused)]
            assert [event for event in refused if event.at_ms >= round_.shared.at_ms] == []
            assert list(_left_out(room.view)) == []
        there = sorted(room.view.in_rounds)
        gone = data.draw(st.none() | st.sampled_from(there)) if there else None
        if gone is not None:
            room.did(Cancel(gone))
        node = data.draw(st.none() | st.sampled_from(sorted(room.view.nodes)))
        if node is not None:
            is_out = node in room.view.node_status
            room.did(MarkNode(node, NodeStatus.READY if is_out else NodeStatus.CORDONED))
        room.pass_ms(ROUND_MS - SETTLED_MS)
    assert not any(_given_twice(room))


def _left_out(view: StateView) -> Iterator[tuple[str, str]]:
    """Yield (run, flavor) of runs without GPUs that had a share of the flavor and could have it."""
    shared = view.rounds[POOL].shared
    for share in shared.shares:
        record = view.runs[share.run]
        if share.run not in view.in_rounds or record.leases:
            continue
        for flavor, ppm in zip(shared.flavors, share.shares_ppm, strict=True):
            if not ppm or not _may_run(view, record) or not _is_paid(view, record.spec, flavor):
                continue
            if _fits(view, record.spec, flavor):
                yield share.run, flavor


def _above(view: StateView, owner: str) -> list[str]:
    return [owner, *(name for above in view.owners[owner].parents for name in _above(view, above))]


def _may_run(view: StateView, record: RunRecord) -> bool:
    """Return whether one more run may run under the limits of its owner and all ancestors."""
    if record.started_ms is not None:
        return True
    for tenant in _above(view, record.spec.owner):
        limit = view.owners[tenant].quota.concurrent_runs_max
        begun = [r for r in view.runs.values() if r.started_ms is not None and r.ended_ms is None]
        running = [r for r in begun if tenant in _above(view, r.spec.owner)]
        if limit is not None and len(running) >= limit:
            return False
    return True


def _is_paid(view: StateView, run: Run, flavor: str) -> bool:
    """Return whether its owner and the owner's ancestors can pay for that many more GPUs."""
    above = _above(view, run.owner)
    accounts = [a for a in view.envelopes.values() if a.spec.flavor == flavor and a.owner in above]
    return sum(a.spec.concurrency - a.gpus_active for a in accounts) >= run.gpus


def _fits(view: StateView, run: Run, flavor: str) -> bool:
    """Return whether some set of nodes holds ``run``, within its owner's limit."""
    used = Counter(
        node
        for lease in view.leases.values()
        for node, mask in lease.fact.slots
        for _ in range(mask.bit_count())
    )
    idle = {
        name: (record.spec.domain, record.spec.gpus - used[name])
        for name, record in view.nodes.items()
        if record.spec.flavor == flavor
        and record.spec.gpus > used[name]
        and (not run.selector or record.spec.domain == "x")
        and name not in view.node_status
    }
    limit = view.owners[run.owner].quota.nodes_max
    mine = {
        node
        for lease in view.leases.values()
        if view.runs[lease.fact.run].spec.owner == run.owner
        for node, _ in lease.fact.slots
    }
    for count in range(1, len(idle) + 1):
        for names in combinations(idle, count):
            if limit is not None and len(mine | set(names)) > limit:
                continue
            free = Counter[str]()
            for name in names:
                domain, gpus = idle[name]
                free[domain] += gpus
            if _holds(run, free):
                return True
    return False


def _holds(run: Run, free: Counter[str]) -> bool:
    if not run.cross_group_spread:
        return max(free.values()) >= run.gpus
    if run.group_gpus is None:
        return free.total() >= run.gpus
    return _groups_fit(cut(run.gpus, run.group_gpus), free)


def _groups_fit(groups: tuple[int, ...], free: Counter[str]) -> bool:
    if not groups:
        return True
    return any(
        _groups_fit(groups[1:], free - Counter({domain: groups[0]}))
        for domain, gpus in free.items()
        if gpus >= groups[0]
    )


def _given_twice(room: Room) -> Iterator[bool]:
    """Yield, for every start, whether the nodes in the grant have fewer GPUs than it takes."""
    for event in room.events():
        if isinstance(event, LeaseStarted):
            nodes = room.view.nodes
            yield any(mask >> nodes[node].spec.gpus for node, mask in event.slots)
