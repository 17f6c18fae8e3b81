"""What a cluster says of a node, and what the ledger makes of it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from quorate.adapters.kubernetes.node_health import (
    OUT_OF_SERVICE,
    Finding,
    Health,
    SeenNode,
    SeenNodes,
    seen_node,
)
from quorate.core.commands import Apply, MarkNode
from quorate.model.events import NodeStatus
from quorate.model.specs import Node, Pool, PoolExecutor
from quorate.service.cluster_nodes import NodeRules, node_changes, record_nodes
from quorate.testing.memory_engines import memory_engine

WEST = Pool(
    name="west", selector=(("cluster", "west"),), executor=PoolExecutor.KUBERNETES, cluster="west"
)
NODE = Node(name="g1", flavor="H100", gpus=8, region="us", cluster="west", domain="A")
OTHER = Node(name="own", flavor="H100", gpus=8, region="us", cluster="own", domain="A")
RULES = NodeRules(cluster="west", not_ready_s=60)
READY = SeenNode(is_ready=True, declared=NODE)
CORDONED = SeenNode(is_ready=True, is_cordoned=True, declared=NODE)
BROKEN = SeenNode(is_ready=True, is_out_of_service=True, declared=NODE)


def test_a_node_that_is_not_ready_fails_when_its_time_is_over() -> None:
    seen = SeenNodes(nodes={"g1": SeenNode(is_ready=False)}, unready_s={"g1": 100.0})
    assert seen.finding("g1", 159.9, 60) == Finding(Health.UNSURE, due_s=160.0)
    assert seen.finding("g1", 160.0, 60) == Finding(Health.FAILED, "not ready for 60 s")


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
    declaring = NodeRules(cluster="west", not_ready_s=60, declares=True)
    assert {each.name for each in node_changes(engine.view, declaring, seen, 0).left_out} == {
        "g1",
        "own",
    }
    engine.execute(Apply((WEST,)), actor="ada")
    assert node_changes(engine.view, RULES, seen, 0).commands == ()
    found, _ = record_nodes(engine, declaring, seen, 0)
    assert found.commands == (Apply((NODE,)),)
    assert [each.name for each in found.left_out] == ["own"]
    seq = engine.head.seq
    assert record_nodes(engine, declaring, seen, 0)[1] == seq


def test_nodes_of_other_pools_are_left_alone() -> None:
    engine = memory_engine()
    engine.execute(Apply((WEST, OTHER)), actor="ada")
    assert node_changes(engine.view, RULES, SeenNodes(nodes={}), 0).commands == ()


STEPS = st.lists(
    st.one_of(
        st.sampled_from([("seen", each) for each in (READY, CORDONED, BROKEN, None)]),
        st.sampled_from([("ada", each) for each in NodeStatus]),
    ),
    max_size=12,
)


@given(STEPS)
def test_only_marks_of_the_watch_are_taken_back(steps: list[tuple[str, object]]) -> None:
    """Against two separate books: what ada says, and what the cluster says."""
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
                # Who cordons a node that another has marked failed has cordoned it.
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
            if what is CORDONED:
                cordoned = cordoned or "watch"
            elif cordoned == "watch":
                cordoned = ""
        status = engine.view.node_status.get("g1", NodeStatus.READY)
        expected = NodeStatus.CORDONED if cordoned else NodeStatus.READY
        assert status is (NodeStatus.FAILED if failed else expected)
        seq = engine.head.seq
        assert record_nodes(engine, RULES, seen, 0)[1] == seq, "nothing changed"
