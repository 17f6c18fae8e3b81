"""Checks of cases about hard quotas and the queue, chosen by the fields of the case."""

from __future__ import annotations

from typing import Final

from quorate.adapters.stores.store_memory import MemoryStore
from quorate.core.commands import Apply, Complete, RemoveOwner, Submit, UpdateOwner
from quorate.ledger.fold import fold
from quorate.loop.engine import Engine
from quorate.model.amounts import HOUR_MS
from quorate.model.events import OwnerApplied
from quorate.model.refusal import RefusalCode, sentence
from quorate.model.specs import Owner
from quorate.model.state.records import Phase
from quorate.testing.builders import borrowing, budget, envelope, lending, node, run
from quorate.testing.memory_engines import HandClock
from tests.conformance.quota_world import OTHERS, Case, World, is_due, quota_of

QUOTAS: Final = {
    "max_nodes": RefusalCode.MAX_NODES,
    "max_concurrent_allocations": RefusalCode.MAX_CONCURRENT_RUNS,
}


def _tenant_with(case: Case) -> tuple[World, str]:
    """Return a world in which the tenant of a case has the given use."""
    given = case["given"]
    name = given.get("tenant", "t")
    limits = dict(given)
    if "max_nodes_before" in given:
        limits["max_nodes"] = given["max_nodes_before"]
    in_use = given.get("nodes_in_use", 0)
    world = World(max(in_use, limits.get("max_nodes") or 0) + 8)
    world.tenant(name, quota_of(limits))
    if in_use:
        world.start(name, in_use)
    return world, name


def check_submit(case: Case) -> None:
    """Check whether a submit is accepted, and otherwise the refusing quota and its numbers."""
    world, tenant = _tenant_with(case)
    given, wanted, then = case["given"], case["when"]["submit"], case["then"]
    waiting = [a for a in given.get("allocations", ()) if a["state"] == "pending"]
    waiting += [{"requested": 1}] * (
        given.get("active_allocations", 0) if given.get("active_state") == "pending" else 0
    )
    for each in waiting:
        _submit_to_busy(world, tenant, each["requested"])
    for _ in range(given.get("running", 0)):
        world.start(tenant, 1)
    before, log = world.nodes_in_use(tenant), len(world.events)
    name, decision = world.submit(tenant, wanted["nodes"])
    # Where that system differs (waiting runs count, or no refusals), Quorate's rule applies.
    accepted = then.get("accepted", False) if is_due(case) else bool(waiting)
    assert (decision.refusals == ()) is accepted
    if accepted:
        assert name in world.state.runs
        return
    (refusal,) = decision.refusals
    quota = then.get("quota", "max_nodes")
    assert refusal.code is QUOTAS[quota]
    assert len(world.events) == log
    assert (refusal.subject, refusal.current) == (tenant, before)
    assert (refusal.wanted, refusal.limit) == (wanted["nodes"], given[quota])
    assert sentence(refusal) == (
        f'allocation rejected: tenant "{tenant}" would exceed {quota} quota '
        f"(current: {before}, requested: {wanted['nodes']}, limit: {given[quota]})"
    )


def _submit_to_busy(world: World, tenant: str, nodes: int) -> tuple[str, str]:
    """Return a run that waits because all nodes are busy, and the run that uses them."""
    _, free = world.state.flavor_gpus("H100")
    busy = world.start(OTHERS, free // world.node_gpus, hours=100) if free else ""
    name, decision = world.submit(tenant, nodes, wait=True)
    assert decision.refusals == ()
    assert world.record(name).phase is Phase.PENDING
    return name, busy


def check_assign(case: Case) -> None:
    """Check that an accepted run is tried again when nodes are free for it."""
    given, wanted, then = case["given"], case["when"]["assign"], case["then"]
    world, tenant = _tenant_with(case)
    names = {}
    for each in given["allocations"]:
        if each["assigned"]:
            names[each["id"]] = world.start(tenant, each["assigned"])
    names[wanted["id"]], busy = _submit_to_busy(world, tenant, wanted["nodes"])
    world.do(Complete(busy))
    record = world.record(names[wanted["id"]])
    assert (record.phase is Phase.RUNNING) is then["accepted"]
    assert world.nodes_of(names[wanted["id"]]) == then[f"{wanted['id']}_assigned"]
    if not then["accepted"]:
        assert record.refusal is not None
        assert record.refusal.code is RefusalCode.WAITING_FOR_QUOTA
        assert record.refusal.also is not None
        assert record.refusal.also.code is QUOTAS[then["quota"]]
        assert "waiting for quota headroom" in sentence(record.refusal)


def check_update(case: Case) -> None:
    """Check that a changed limit applies from the next request on, and is in the ledger."""
    world, tenant = _tenant_with(case)
    then, limit = case["then"], case["when"]["update_tenant"]["max_nodes"]
    in_use = world.nodes_in_use(tenant)
    decision = world.do(UpdateOwner(tenant, (("nodes_max", limit),)))
    assert isinstance(decision.events[0], OwnerApplied)
    assert world.nodes_in_use(tenant) == in_use  # no run is stopped
    assert fold(world.events).owners[tenant].quota.nodes_max == limit
    if "effective_max_nodes" in then:
        assert limit == then["effective_max_nodes"]
        for nodes, accepted in ((limit + 1, False), (limit, True)):
            world = World(limit + 8)
            world.tenant(tenant, quota_of(case["given"]))
            world.do(UpdateOwner(tenant, (("nodes_max", limit),)))
            _, decision = world.submit(tenant, nodes)
            assert (decision.refusals == ()) is accepted
    if "then_submit" in case["when"]:
        _, decision = world.submit(tenant, case["when"]["then_submit"]["nodes"])
        assert (decision.refusals == ()) is then["accepted"]
        (refusal,) = decision.refusals
        assert sentence(refusal).splitlines() == then["text_lines"]


def check_order(case: Case) -> None:
    """Check that runs continue under a lower limit, and new ones wait until use has dropped."""
    world, tenant = _tenant_with(case)
    proposal, then = case["given"]["proposal"], case["then"]
    before = next(n for n, r in world.state.runs.items() if r.spec.owner == tenant)
    started = ""
    for step in case["when"]["order"]:
        if step == f"commit {proposal['id']}":
            started = world.start(tenant, proposal["nodes"])
        else:
            limit = int(step.rpartition("=")[2])
            world.do(UpdateOwner(tenant, (("nodes_max", limit),)))
    assert world.record(started).phase.value.lower() == then[proposal["id"]]
    assert world.nodes_in_use(tenant) == then["nodes_in_use"]
    _, decision = world.submit(tenant, 1)
    assert [refusal.code for refusal in decision.refusals] == [RefusalCode.MAX_NODES]
    world.do(Complete(before))
    _, decision = world.submit(tenant, 1)
    assert decision.refusals == ()


def check_pools(case: Case) -> None:
    """Check that a tenant has one quota for all its pools."""
    given, use = case["given"], case["when"]["use"]
    world = World(given["max_nodes"], pools=tuple(given["vclusters"]))
    world.tenant(given["tenant"], quota_of(given))
    for pool, nodes in use.items():
        world.start(given["tenant"], nodes, pool=pool)
    headroom = given["max_nodes"] - world.state.holdings.nodes[given["tenant"]]
    assert headroom == case["then"]["headroom"]
    for pool in use:
        _, decision = world.submit(given["tenant"], headroom + 1, pool=pool)
        (refusal,) = decision.refusals
        assert refusal.code is RefusalCode.MAX_NODES


def check_race(case: Case) -> None:
    """Check that of two schedulers the first wins, and the other sees this and does not submit."""
    winner, loser = case["given"]["node_owner"], case["given"]["loser"]
    store, clock = MemoryStore(), HandClock()
    first = Engine.create(store, clock, ledger_id="race", public_key="", actor="test")
    budgets = [budget(name, name, envelope("all", 8)) for name in (winner, loser)]
    owners = [Owner(name=name) for name in (winner, loser)]
    first.execute(Apply((node("only", 8), *owners, *budgets)), actor="test")
    second = Engine.open(store, clock)
    hour = {"expected_duration_ms": HOUR_MS}
    first.execute(Submit(run("won", 8, winner, **hour)), actor="test")
    head = store.head()
    assert second.head != head  # it has not read the other's block yet
    second.execute(Submit(run("lost", 8, loser, **hour)), actor="test")
    (lease,) = second.view.leases.values()
    observed = second.view.runs[lease.fact.run].spec.owner
    assert observed == case["then"]["observed_owner"]
    record = second.view.runs["lost"]
    assert record.phase is Phase.PENDING
    assert (record.leases_ever > 0) is case["then"]["reproposes_same_node"]


def check_delete(case: Case) -> None:
    world, tenant = _tenant_with(case)
    world.do(RemoveOwner(tenant))
    assert (tenant in world.state.owners) is case["then"]["exists"]


# --- The queue ---


def check_placed(case: Case) -> None:
    """Check that a run starts if there is room, and waits otherwise."""
    given, wanted, then = case["given"], case["when"]["submit"], case["then"]
    world = World(max(given["free"], wanted["nodes"]))
    world.tenant("t")
    busy = wanted["nodes"] - given["free"]
    if busy > 0:
        world.start(OTHERS, busy)
    name, decision = world.submit("t", wanted["nodes"], hours=wanted.get("walltime_h", 1))
    assert decision.refusals == ()
    assert world.record(name).phase.value.lower() == then["state"]
    assert world.nodes_of(name) == then.get("placed", 0)


def check_reserved(case: Case) -> None:
    """Check that the planned start of a run is not delayed by another run."""
    given, wanted = case["given"], case["when"]["submit"]
    hours = given["reservation"]["in_h"]
    world = World(given["free"] + 1)
    world.tenant("t")
    world.tenant("promised")
    world.start(OTHERS, 1, hours=hours)
    # All nodes except those left beside the reservation: it has to wait for the busy node.
    filler = given["free"] - given["reservation"]["nodes"] + 1
    world.start(OTHERS, filler, hours=hours)
    promised, _ = world.submit("promised", given["reservation"]["nodes"], hours=1)
    assert world.record(promised).reservation is not None
    name, _ = world.submit("t", wanted["nodes"], hours=wanted["walltime_h"])
    assert world.record(name).phase.value.lower() == case["then"]["state"]


def check_ageing(case: Case) -> None:
    """Check that of tenants with equal scores the one that has waited longest is first."""
    given = case["given"]
    waits: list[int] = given["waits_h"]
    world = World(given["free"])
    busy = world.start(OTHERS, given["free"], hours=max(waits) + 1)
    names = {}
    began_ms = world.now_ms
    for hours in sorted(waits, reverse=True):
        world.pass_hours(max(waits) - hours - (world.now_ms - began_ms) / HOUR_MS)
        tenant = f"waits{hours}"
        world.tenant(tenant)
        names[f"{hours} h"], _ = world.submit(tenant, given["each_requests"])
    world.do(Complete(busy))
    running = [said for said, name in names.items() if world.record(name).phase is Phase.RUNNING]
    assert running == [case["then"]["first"]]


def check_lending(case: Case) -> None:
    """Check that an envelope lends at most as much as its document allows."""
    given, then = case["given"], case["then"]
    world = World(given["dedicated"], gpus=1)
    world.do(Apply((Owner(name="lender"), Owner(name="borrower"))))
    most = round(given["dedicated"] * given["max_borrow_pct"])
    line = envelope("all", given["dedicated"], lending=lending(concurrency_max=most))
    world.do(Apply((budget("lender", "lender", line),)))
    name, _ = world.submit("borrower", case["when"]["borrow"], funding=borrowing())
    record = world.record(name)
    assert (record.phase is Phase.RUNNING) is then["accepted"]
    assert record.refusal is not None
    assert record.refusal.wanted - record.refusal.short == then["available"]
    world.start("borrower", then["available"], funding=borrowing())
