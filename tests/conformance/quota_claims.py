"""Checks of cases about sensitive claims, chosen by the fields of the case."""

from __future__ import annotations

from quorate.core.commands import Complete, Decision, Release, Submit, Wiped
from quorate.loop.orders import orders_of
from quorate.model.amounts import HOUR_MS
from quorate.model.events import LeaseStarted, NodesClaimed, NodeWiped, Role
from quorate.model.state.records import Phase
from quorate.ports.executor_port import StartLease
from quorate.testing.builders import borrowing, run
from tests.conformance.quota_world import GPUS_PER_NODE, OTHERS, Case, World

CLAIM = "claimed"


def _claim(world: World, tenant: str, user: str, nodes: int) -> Decision:
    asked = run(
        CLAIM,
        nodes * GPUS_PER_NODE,
        tenant,
        user=user,
        sensitive=True,
        expected_duration_ms=HOUR_MS,
    )
    return world.do(Submit(asked))


def check_claim(case: Case) -> None:
    """Check that a claim is recorded with its user before anything is started for it."""
    given, then = case["given"], case["then"]
    if "node" in given:
        _check_overwriting(case)
        return
    world, tenant = World(8), given.get("tenant", "t")
    world.tenant(tenant)
    asked = case["when"]["claim"]
    user = asked["user"] if isinstance(asked, dict) else given["user"]
    decision = _claim(world, tenant, user, given.get("nodes", 1))
    kinds = [type(event) for event in decision.events]
    assert kinds.index(NodesClaimed) < kinds.index(LeaseStarted)
    audit = next(event for event in decision.events if isinstance(event, NodesClaimed))
    assert audit.user == user
    assert {world.state.unwiped[node].user for node in audit.nodes} == {user}
    if "owner" in then:
        assert (then["owner"], then["audit_action"]) == (user, "NodeClaim")
    else:
        # Orders to the executor are made from events that are already in the ledger.
        assert then["order"][0] == "audit committed"
        orders = orders_of(world.state, decision.events)
        assert len(orders) == given["nodes"]
        assert all(isinstance(order, StartLease) for order in orders)
        assert audit in world.events


def _check_overwriting(case: Case) -> None:
    """Check that no other user gets a claimed node by any request."""
    world = World(1)
    world.tenant("t")
    world.tenant("other")
    _claim(world, "t", case["given"]["node"]["claimed_by"], 1)
    assert case["then"]["expected"] == "refused"
    name, _ = world.submit("other", 1)
    assert world.record(name).phase is Phase.PENDING
    again = run("again", GPUS_PER_NODE, "other", sensitive=True, expected_duration_ms=HOUR_MS)
    assert world.try_(Submit(again)).refusals


def check_epilogue(case: Case) -> None:
    """Check that a node needs no wipe after ordinary work."""
    assert case["given"]["sensitive"] is case["then"]["wiped"] is False
    world = World(1)
    world.do(Complete(world.start(OTHERS, 1)))
    assert world.state.unwiped == {}
    assert world.start(OTHERS, 1)


def check_borrow(case: Case) -> None:
    """Check that idle nodes of a claim are lent to no other run."""
    claimed = case["given"]["claimed_idle"]
    world = World(claimed)
    world.tenant("t")
    _claim(world, "t", "dr-x", claimed)
    wanted = run("borrower", 1, OTHERS, funding=borrowing())
    world.do(Submit(wanted))
    assert (world.record("borrower").phase is Phase.RUNNING) is case["then"]["accepted"]


def check_release(case: Case) -> None:
    """Check that a node that cannot be wiped gets no work, and that this is recorded."""
    then = case["then"]
    world = World(1)
    world.tenant("t")
    _claim(world, "t", "dr-x", 1)
    world.do(Release(CLAIM))
    (node,) = world.state.unwiped
    told = world.do(Wiped(node, is_clean=case["given"]["wipe"] != "fails", note="it failed"))
    (event,) = told.events
    assert isinstance(event, NodeWiped)
    assert (event.is_clean, event.note) == (False, "it failed")
    assert world.state.unwiped[node].is_quarantined is (then["node"] == "quarantined")
    name, _ = world.submit(OTHERS, 1)
    assert world.record(name).phase is Phase.PENDING
    assert then["until"] == "operator"
    world.do(Wiped(node, is_clean=True))
    assert world.record(name).phase is Phase.RUNNING
    assert {world.state.leases[lease].fact.role for lease in world.record(name).leases} == {
        Role.ACTIVE
    }
