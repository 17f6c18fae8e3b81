"""The runs that a pool accepts depending on its executor, and when the executor may change."""

from __future__ import annotations

from msgspec.structs import replace

from quorate.core.commands import Apply, Decision, Submit
from quorate.core.decide import decide
from quorate.model.refusal import RefusalCode
from quorate.model.specs import Pool, PoolExecutor, Run
from quorate.model.state.apply_event import apply_all
from quorate.model.state.state import State
from quorate.testing.builders import NOW_MS, budget, envelope, fleet, run, world

CLUSTER = Pool(name="default", executor=PoolExecutor.KUBERNETES, cluster="west")
LOCAL = Pool(name="default", executor=PoolExecutor.LOCAL)


def state_with(pool: Pool) -> State:
    state = world(nodes=fleet({"A": 8}), budgets=[budget("b", "team", envelope("e", 8))])
    apply_all(state, decide(state, Apply((pool,)), now_ms=NOW_MS, actor="t").events)
    return state


def submitted(state: State, spec: Run) -> Decision:
    decision = decide(state, Submit(spec), now_ms=NOW_MS, actor="t")
    apply_all(state, decision.events)
    return decision


def test_a_command_in_a_cluster_needs_an_image() -> None:
    state = state_with(CLUSTER)
    (refusal,) = submitted(state, run("r", 1, command=("train",))).refusals
    assert refusal.code is RefusalCode.INVALID
    assert "spec.image: is required" in refusal.subject
    assert not submitted(state, run("r", 1, command=("train",), image="i")).refusals
    assert not submitted(state, run("bare", 1)).refusals


def test_a_run_in_a_cluster_does_not_say_which_gpus_its_pods_see() -> None:
    spec = run("r", 1, image="i", env=(("NVIDIA_VISIBLE_DEVICES", "all"), ("SEED", "7")))
    (refusal,) = submitted(state_with(CLUSTER), spec).refusals
    assert refusal.code is RefusalCode.INVALID
    assert "spec.env.NVIDIA_VISIBLE_DEVICES: the device plugin" in refusal.subject
    other = run("r", 1, env=(("NVIDIA_VISIBLE_DEVICES", "all"),))
    assert not submitted(state_with(LOCAL), other).refusals


def test_an_image_is_refused_where_no_pods_are_run() -> None:
    for pool in (LOCAL, Pool(name="default")):
        (refusal,) = submitted(state_with(pool), run("r", 1, image="i")).refusals
        assert "does not run images" in refusal.subject


def test_a_pool_with_runs_keeps_its_executor_and_its_cluster() -> None:
    state = state_with(CLUSTER)
    submitted(state, run("r", 1, image="i"))
    for other in (LOCAL, Pool(name="default"), replace(CLUSTER, cluster="east")):
        (refusal,) = decide(state, Apply((other,)), now_ms=NOW_MS, actor="t").refusals
        assert refusal.code is RefusalCode.CONFLICT
        assert "spec.executor: cannot change from kubernetes/west to" in refusal.subject
    changed = replace(CLUSTER, reservation_depth=5)
    assert not decide(state, Apply((changed,)), now_ms=NOW_MS, actor="t").refusals


def test_an_empty_pool_may_get_another_executor() -> None:
    assert not decide(state_with(CLUSTER), Apply((LOCAL,)), now_ms=NOW_MS, actor="t").refusals
