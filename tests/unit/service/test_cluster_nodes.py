"""The reports of a cluster about a node, and the resulting marks in the ledger."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from quorate.adapters.kubernetes.node_health import (
    Finding,
    Health,
    SeenNode,
    SeenNodes,
    Tolerance,
    seen_node,
)
from quorate.adapters.kubernetes.node_taints import OUT_OF_SERVICE, Taint, stays_beside, taints_of
from quorate.core.commands import Apply, Drain, MarkNode, Submit
from quorate.model.events import NodeStatus
from quorate.model.pod_template import PodTemplate, TaintEffect, Toleration, TolerationOperator
from quorate.model.specs import Node, Owner, Pool, PoolExecutor
from quorate.service.cluster_nodes import NodeRules, node_changes, record_nodes
from quorate.testing import builders
from quorate.testing.memory_engines import memory_engine

WEST = Pool(
    name="west", selector=(("cluster", "west"),), executor=PoolExecutor.KUBERNETES, cluster="west"
)
NODE = Node(name="g1", flavor="H100", gpus=8, region="us", cluster="west", domain="A")
OTHER = Node(name="own", flavor="H100", gpus=8, region="us", cluster="own", domain="A")
HERE = (("cluster", "west"),)
MINUTE = Tolerance(not_ready_s=60, taints=("nvidia.com/gpu",))
RULES = NodeRules(cluster="west", tolerance=MINUTE)
DECLARING = NodeRules(cluster="west", tolerance=MINUTE, declares=True)
READY = SeenNode(is_ready=True, gpus=8, declared=NODE)
CORDONED = SeenNode(is_ready=True, is_cordoned=True, gpus=8, declared=NODE)
BROKEN = SeenNode(is_ready=True, is_out_of_service=True, gpus=8, declared=NODE)
TAINTED = SeenNode(
    is_ready=True, taints=(Taint("t", TaintEffect.NO_EXECUTE),), gpus=8, declared=NODE
)


def test_a_node_that_is_not_ready_fails_when_its_time_is_over() -> None:
    seen = SeenNodes(nodes={"g1": SeenNode(is_ready=False)}, unready_s={"g1": 100.0})
    assert seen.finding("g1", 159.9, MINUTE) == Finding(Health.UNSURE, due_s=160.0)
    assert seen.finding("g1", 160.0, MINUTE) == Finding(Health.FAILED, "not ready for 60 s")


def test_the_object_of_a_node_says_whether_it_is_ready_cordoned_or_out_of_service() -> None:
    tree = {
        "metadata": {"name": "g1"},
        "spec": {"unschedulable": True, "taints": [{"key": OUT_OF_SERVICE, "effect": "NoExecute"}]},
        "status": {"conditions": [{"type": "Ready", "status": "Unknown"}]},
    }
    assert seen_node(tree, "west") == SeenNode(
        is_ready=False, is_cordoned=True, is_out_of_service=True
    )
    assert not seen_node({"metadata": {"name": "g1"}}, "west").is_ready


def test_a_new_node_is_declared_where_the_rules_say_so_and_a_pool_selects_it() -> None:
    engine = memory_engine()
    seen = SeenNodes(nodes={"g1": READY, "own": SeenNode(is_ready=True, declared=OTHER)})
    assert {each.name for each in node_changes(engine.view, DECLARING, seen, 0).left_out} == {
        "g1",
        "own",
    }
    engine.execute(Apply((WEST,)), actor="ada")
    assert node_changes(engine.view, RULES, seen, 0).commands == ()
    found, _ = record_nodes(engine, DECLARING, seen, 0)
    assert found.commands == (Apply((NODE,)),)
    assert [each.name for each in found.left_out] == ["own"]
    seq = engine.head.seq
    assert record_nodes(engine, DECLARING, seen, 0)[1] == seq


def test_a_node_whose_labels_say_something_else_is_named_and_stays_as_it_was_declared() -> None:
    engine = memory_engine()
    engine.execute(Apply((WEST, NODE)), actor="ada")
    elsewhere = replace(NODE, domain="C", rack="r7")
    seen = SeenNodes(nodes={"g1": SeenNode(is_ready=True, gpus=8, declared=elsewhere)})
    found = node_changes(engine.view, DECLARING, seen, 0)
    assert found.commands == ()
    (told,) = found.moved
    assert told == (
        "node g1 is H100 in us/west/A in the ledger, but its labels say H100 in us/west/C in rack "
        "r7; if the labels are right, declare the node again: quorate node discover"
    )
    assert node_changes(engine.view, RULES, seen, 0).moved == ()
    assert node_changes(engine.view, DECLARING, SeenNodes(nodes={"g1": READY}), 0).moved == ()


def test_nodes_of_other_pools_are_left_alone() -> None:
    engine = memory_engine()
    engine.execute(Apply((WEST, OTHER)), actor="ada")
    assert node_changes(engine.view, RULES, SeenNodes(nodes={}), 0).commands == ()


NO_SCHEDULE = Taint("maintenance", TaintEffect.NO_SCHEDULE, "true")
NO_EXECUTE = Taint("broken", TaintEffect.NO_EXECUTE)


def test_taints_that_keep_pods_away_are_read_and_those_that_are_read_elsewhere_are_not() -> None:
    taints = [
        {"key": "maintenance", "value": "true", "effect": "NoSchedule"},
        {"key": "broken", "effect": "NoExecute"},
        {"key": "slow", "effect": "PreferNoSchedule"},
        {"key": OUT_OF_SERVICE, "effect": "NoExecute"},
        {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"},
        {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"},
        {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"},
    ]
    assert taints_of({"spec": {"taints": taints}}) == (NO_EXECUTE, NO_SCHEDULE)
    assert [str(each) for each in (NO_EXECUTE, NO_SCHEDULE)] == [
        "broken:NoExecute",
        "maintenance=true:NoSchedule",
    ]
    assert taints_of({}) == ()


def test_a_node_with_a_taint_or_too_few_gpus_takes_no_new_work() -> None:
    def found(gpus: int = 8, *taints: Taint) -> Finding:
        node = SeenNode(is_ready=True, taints=taints, gpus=gpus, declared=NODE)
        return SeenNodes(nodes={"g1": node}).finding("g1", 0, MINUTE, 8)

    assert found().health is Health.READY
    assert found(8, Taint("nvidia.com/gpu", TaintEffect.NO_SCHEDULE)).health is Health.READY
    assert found(16).health is Health.READY
    assert found(8, NO_SCHEDULE) == Finding(
        Health.CORDONED,
        "it has the taint maintenance=true:NoSchedule; kubectl taint node g1 maintenance-, or "
        "add its key to kubernetes.tolerated_taints",
    )
    assert found(8, NO_EXECUTE, NO_SCHEDULE).taint == NO_EXECUTE
    assert found(7) == Finding(Health.CORDONED, "it offers 7 GPUs, but was declared with 8")


@given(
    key=st.sampled_from(["broken", "other"]),
    operator=st.sampled_from(TolerationOperator),
    value=st.sampled_from(["", "x"]),
    effect=st.sampled_from([None, *TaintEffect]),
    taint=st.builds(
        Taint,
        st.just("broken"),
        st.sampled_from([TaintEffect.NO_SCHEDULE, TaintEffect.NO_EXECUTE]),
        st.sampled_from(["", "x"]),
    ),
)
def test_pods_stay_beside_the_taints_that_kubernetes_has_them_stay_beside(
    key: str,
    operator: TolerationOperator,
    value: str,
    effect: TaintEffect | None,
    taint: Taint,
) -> None:
    each = Toleration(key=key, operator=operator, value=value, effect=effect)
    wanted = key == taint.key and (effect is None or effect == taint.effect)
    wanted = wanted and (operator == "Exists" or value == taint.value)
    assert stays_beside(PodTemplate(tolerations=(each,)), taint) is wanted
    assert not stays_beside(None, taint)


def test_a_node_that_takes_no_work_is_declared_when_it_does() -> None:
    engine = memory_engine()
    engine.execute(Apply((WEST,)), actor="ada")
    tainted = SeenNode(is_ready=True, taints=(NO_SCHEDULE,), gpus=8, declared=NODE)
    for node in (tainted, CORDONED):
        found, _ = record_nodes(engine, DECLARING, SeenNodes(nodes={"g1": node}), 0)
        assert found.commands == ()
        (left_out,) = found.left_out
        assert left_out.why
    assert record_nodes(engine, DECLARING, SeenNodes(nodes={"g1": READY}), 0)[0].commands


@pytest.mark.parametrize("tolerates", [False, True])
def test_a_taint_that_ends_pods_drains_the_node_of_those_that_do_not_tolerate_it(
    *,
    tolerates: bool,
) -> None:
    engine = memory_engine()
    money = builders.budget("team", "team", builders.envelope("e", 16, selector=HERE))
    engine.execute(Apply((WEST, NODE, Owner(name="team"), money)), actor="ada")
    beside = Toleration(key="broken", operator=TolerationOperator.EXISTS)
    template = PodTemplate(tolerations=(beside,)) if tolerates else None
    run = builders.run("r", 8, pool="west", image="played", pod_template=template)
    engine.execute(Submit(run), actor="ada")
    assert engine.view.node_leases["g1"]
    seen = SeenNodes(
        nodes={"g1": SeenNode(is_ready=True, taints=(NO_EXECUTE,), gpus=8, declared=NODE)}
    )
    found, seq = record_nodes(engine, RULES, seen, 0)
    assert [type(each) for each in found.commands] == [MarkNode if tolerates else Drain]
    assert engine.view.node_status["g1"] is NodeStatus.CORDONED
    assert bool(engine.view.node_leases["g1"]) is tolerates
    assert record_nodes(engine, RULES, seen, 0)[1] == seq, "nothing changed"
    record_nodes(engine, RULES, SeenNodes(nodes={"g1": READY}), 0)
    assert engine.view.node_leases["g1"], "it runs there, still or again"


STEPS = st.lists(
    st.one_of(
        st.sampled_from([("seen", each) for each in (READY, CORDONED, TAINTED, BROKEN, None)]),
        st.sampled_from([("ada", each) for each in NodeStatus]),
    ),
    max_size=12,
)


@given(STEPS)
def test_only_marks_of_the_watch_are_taken_back(steps: list[tuple[str, object]]) -> None:
    """Compared with two separate records: the marks of ada, and the reports of the cluster."""
    engine = memory_engine()
    engine.execute(Apply((WEST, NODE)), actor="ada")
    cordoned, failed = "", ""
    for who, what in steps:
        if who == "ada":
            assert isinstance(what, NodeStatus)
            before = engine.view.node_status.get("g1", NodeStatus.READY)
            engine.execute(MarkNode("g1", what), actor="ada")
            if what is NodeStatus.READY:
                cordoned = failed = ""
            elif what is NodeStatus.FAILED:
                failed = failed or "ada"
            elif before is not NodeStatus.CORDONED:
                # A cordon by one actor remains if another actor has marked the node failed.
                cordoned = cordoned if failed == "ada" and cordoned else "ada"
                failed = ""
            continue
        nodes = {} if what is None else {"g1": what}
        seen = SeenNodes(nodes=nodes)  # type: ignore[arg-type]
        record_nodes(engine, RULES, seen, 0)
        if what in (None, BROKEN):
            failed = failed or "watch"
        elif failed != "ada":
            failed = ""
            if what in (CORDONED, TAINTED):
                cordoned = cordoned or "watch"
            elif cordoned == "watch":
                cordoned = ""
        status = engine.view.node_status.get("g1", NodeStatus.READY)
        expected = NodeStatus.CORDONED if cordoned else NodeStatus.READY
        assert status is (NodeStatus.FAILED if failed else expected)
        seq = engine.head.seq
        assert record_nodes(engine, RULES, seen, 0)[1] == seq, "nothing changed"
