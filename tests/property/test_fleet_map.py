"""The map of a fleet, compared with the leases slot by slot."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from quorate.core.commands import Apply, Cancel, MarkNode, Submit
from quorate.loop.engine import Engine
from quorate.model.amounts import HOUR_MS
from quorate.model.events import NodeStatus
from quorate.model.events import Role as LeaseRole
from quorate.model.specs import Owner
from quorate.operations.answering import answer
from quorate.operations.caller import Caller, Role
from quorate.operations.fleet.observe_operations import ShowMap
from quorate.operations.request_context import RequestContext
from quorate.operations.table import OPERATIONS
from quorate.testing.builders import budget, envelope, fleet, run
from quorate.testing.memory_engines import memory_engine
from quorate.views.redaction.redaction import OTHERS
from tests.oracles.effort import examples

OWNERS = ("team", "other")
ADMIN = Caller(actor="root", role=Role.ADMIN, user="root")
MEMBER = Caller(actor="ann", role=Role.USER, user="ann", tenant="team")

Step = tuple[str, str, int]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["submit", "cancel", "fail"]), st.sampled_from(OWNERS), st.integers(1, 12)
    ),
    max_size=12,
)


def played(steps: list[Step]) -> Engine:
    """Return a ledger in which runs began and ended, and nodes were lost."""
    engine = memory_engine()
    owners = tuple(Owner(name=each) for each in OWNERS)
    money = tuple(budget(each, each, envelope("e", 40)) for each in OWNERS)
    engine.execute(Apply((*owners, *fleet({"A": 20, "B": 12}), *money)), actor="test")
    for number, (does, owner, gpus) in enumerate(steps):
        nodes, runs = sorted(engine.view.nodes), sorted(engine.view.runs)
        if does == "submit":
            engine.execute(Submit(run(f"r{number}", gpus, owner)), actor="test")
        elif does == "cancel" and runs:
            engine.execute(Cancel(runs[gpus % len(runs)]), actor="test")
        elif does == "fail":
            name = nodes[gpus % len(nodes)]
            engine.execute(MarkNode(name, NodeStatus.FAILED), actor="test")
    return engine


def mapped(engine: Engine, caller: Caller) -> dict[str, Any]:
    context = RequestContext(engine, caller)
    found: dict[str, Any] = answer(context, OPERATIONS["fleet-map"], ShowMap()).tree()
    return found


def slots_of(found: dict[str, Any]) -> dict[tuple[str, int], str]:
    """Return the lease of each leased GPU, slot by slot."""
    nodes, leases, held = found["nodes"], found["leases"], found["held"]
    slots: dict[tuple[str, int], str] = {}
    for node, first, gpus, lease in zip(
        held["node"], held["first"], held["gpus"], held["lease"], strict=True
    ):
        for ordinal in range(first, first + gpus):
            key = nodes["name"][node], ordinal
            assert key not in slots
            slots[key] = leases["name"][lease]
    return slots


@given(steps=STEPS)
@examples(0.3)
def test_the_map_has_every_slot_of_every_lease_and_no_other(steps: list[Step]) -> None:
    engine = played(steps)
    found = mapped(engine, ADMIN)
    expected = {
        (node, ordinal): name
        for name, lease in engine.view.leases.items()
        for node, mask in lease.fact.slots
        for ordinal in range(64)
        if mask >> ordinal & 1
    }
    assert slots_of(found) == expected
    assert found["sequence"] == engine.view.seq
    nodes = found["nodes"]
    status = dict(zip(nodes["name"], nodes["status"], strict=True))
    ready = NodeStatus.READY
    assert status == {
        name: engine.view.node_status.get(name, ready).value for name in engine.view.nodes
    }


@given(steps=STEPS)
@examples(0.3)
def test_a_member_sees_as_many_slots_and_no_name_of_others(steps: list[Step]) -> None:
    engine = played(steps)
    seen, whole = mapped(engine, MEMBER), mapped(engine, ADMIN)
    assert slots_of(seen).keys() == slots_of(whole).keys()
    for run_, owner in zip(seen["leases"]["run"], seen["leases"]["owner"], strict=True):
        assert owner in {"team", OTHERS}
        assert (run_ == OTHERS) == (owner == OTHERS)


def test_that_others_claim_nodes_is_not_shown() -> None:
    engine = played([])
    claim = run("scans", 8, "other", sensitive=True, expected_duration_ms=HOUR_MS)
    engine.execute(Submit(claim), actor="test")
    (whole,), (seen,) = (mapped(engine, each)["leases"]["role"] for each in (ADMIN, MEMBER))
    assert (whole, seen) == (LeaseRole.CLAIM.value, LeaseRole.ACTIVE.value)
