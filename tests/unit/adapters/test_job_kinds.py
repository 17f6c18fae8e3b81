"""Workloads of every kind as they are read, and the patches that start and suspend them."""

from __future__ import annotations

from copy import deepcopy
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.adapters.kubernetes.job_kinds import (
    KINDS,
    NODES_NOTE,
    Ended,
    PodSet,
    SeenJob,
    at,
    seen_job,
    workload_of,
)
from quorate.adapters.kubernetes.job_patches import (
    _fits,
    message_patch,
    misfit,
    start_patch,
    suspend_patch,
)

JOB, JOB_SET, PYTORCH, RAY = KINDS


def pod(gpus: int | str, **more: Any) -> dict[str, Any]:
    limits = {"nvidia.com/gpu": str(gpus)}
    return {"spec": {"containers": [{"name": "work", "resources": {"limits": limits}}], **more}}


def tree(spec: dict[str, Any], **labels: str) -> dict[str, Any]:
    metadata = {
        "namespace": "quorate-rai",
        "name": "train",
        "uid": "1234-5678",
        "resourceVersion": "7",
        "labels": {"quorate.dev/owner": "rai", **labels},
    }
    return {"metadata": metadata, "spec": spec}


def job(gpus: int = 8, **spec: Any) -> dict[str, Any]:
    return tree({"suspend": True, "parallelism": 2, "template": pod(gpus), **spec})


def seen(found: dict[str, Any], kind: Any = JOB) -> SeenJob:
    made = seen_job(found, kind)
    assert made is not None
    return made


SPECS = {
    "job": {"suspend": True, "parallelism": 4, "template": pod(2)},
    "jobset": {
        "suspend": True,
        "replicatedJobs": [
            {"replicas": 2, "template": {"spec": {"parallelism": 2, "template": pod(2)}}},
            {"template": {"spec": {"template": pod(0)}}},
        ],
    },
    "pytorchjob": {
        "runPolicy": {"suspend": True},
        "pytorchReplicaSpecs": {
            "Master": {"replicas": 1, "template": pod(2)},
            "Worker": {"replicas": 3, "template": pod(2)},
        },
    },
    "rayjob": {
        "suspend": True,
        "rayClusterSpec": {
            "headGroupSpec": {"template": pod(0)},
            "workerGroupSpecs": [{"replicas": 4, "template": pod(2)}],
        },
    },
}


@pytest.mark.parametrize("kind", KINDS, ids=lambda each: each.kind)
def test_every_kind_says_how_many_gpus_its_pods_take_and_is_suspended(kind: Any) -> None:
    found = seen(tree(SPECS[kind.kind]), kind)
    assert (found.gpus, found.is_suspended, found.fault) == (8, True, "")
    assert workload_of(str(found.workload)) == found.workload
    patch = start_patch(found, "train-1234", ("n1",))
    started = {**tree(SPECS[kind.kind]), "spec": patch["spec"]}
    assert at(started, kind.suspend) is False
    for each in found.pod_sets:
        spec = at(started, (*each.path, "spec"))
        assert ("affinity" if kind.by_affinity else "nodeSelector") in spec
    stopped = suspend_patch(seen(started, kind), "why")
    assert at(stopped, kind.suspend) is True


@pytest.mark.parametrize(
    ("kind", "status", "ended"),
    [
        (JOB, {"conditions": [{"type": "Complete", "status": "True"}]}, Ended(is_done=True)),
        (JOB, {"conditions": [{"type": "Complete", "status": "False"}]}, None),
        (
            JOB,
            {
                "conditions": [
                    {"type": "Failed", "status": "True", "reason": "Backoff", "message": "3 times"}
                ]
            },
            Ended(is_done=False, note="Backoff: 3 times"),
        ),
        (JOB_SET, {"conditions": [{"type": "Completed", "status": "True"}]}, Ended(is_done=True)),
        (PYTORCH, {"conditions": [{"type": "Succeeded", "status": "True"}]}, Ended(is_done=True)),
        (RAY, {"jobStatus": "FAILED", "message": "oom"}, Ended(is_done=False, note="oom")),
        (RAY, {"jobStatus": "RUNNING"}, None),
    ],
)
def test_the_end_of_a_workload_is_read_from_its_status(
    kind: Any, status: dict[str, Any], ended: Ended | None
) -> None:
    assert seen(tree(SPECS[kind.kind]) | {"status": status}, kind).ended == ended


def test_a_workload_without_an_owner_or_that_is_being_deleted_is_not_seen() -> None:
    found = job()
    del found["metadata"]["labels"]["quorate.dev/owner"]
    assert seen_job(found, JOB) is None
    found["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = "rai"
    assert seen(found).owner == "rai"
    found["metadata"]["deletionTimestamp"] = "2026-11-18T00:00:00Z"
    assert seen_job(found, JOB) is None


def test_faults_name_what_is_missing() -> None:
    assert "ask for no GPUs" in seen(job(0)).fault
    assert "asks for '1m'" in seen(tree({"template": pod("1m")})).fault
    assert seen(tree({"template": pod(1)})).is_suspended is False
    init = pod(1, initContainers=[{"resources": {"limits": {"nvidia.com/gpu": 4}}}])
    assert seen(tree({"template": init})).gpus == 4
    assert seen(job(1, completions=1)).gpus == 1


def test_the_flavor_and_the_grace_of_a_workload_are_those_of_its_pods() -> None:
    template = pod(1, nodeSelector={"gpu.flavor": "H100"}, terminationGracePeriodSeconds=120)
    found = seen(job(template=template, activeDeadlineSeconds=60))
    assert (found.flavor, found.grace_s, found.deadline_s) == ("H100", 120, 60)
    assert seen(tree({"template": pod(1)}, **{"quorate.dev/flavor": "A100"})).flavor == "A100"


def test_pods_of_a_rayjob_are_told_from_those_of_another_with_a_longer_name() -> None:
    workload = seen(tree(SPECS["rayjob"]), RAY).workload
    assert workload.pod_selector == "ray.io/cluster"
    for name, is_own in (
        ("train-raycluster-abc12", True),
        ("train-abc12", True),
        ("train-2-abc12", False),
        ("trains-abc12", False),
    ):
        assert RAY.has_pod(workload, {"ray.io/cluster": name}) is is_own


def requirements(names: st.SearchStrategy[str]) -> st.SearchStrategy[dict[str, Any]]:
    expression = st.fixed_dictionaries({"key": names, "operator": st.just("Exists")})
    field = st.fixed_dictionaries(
        {"key": st.just("metadata.name"), "operator": st.just("In"), "values": st.just(["x"])}
    )
    return st.fixed_dictionaries(
        {},
        optional={
            "matchExpressions": st.lists(expression, min_size=1, max_size=2),
            "matchFields": st.lists(field, min_size=1, max_size=1),
        },
    )


NAMES = st.sampled_from(["a", "b", "c"])
NODES = st.lists(NAMES, min_size=1, max_size=3, unique=True).map(sorted)


TERMS = st.lists(requirements(NAMES).filter(bool), max_size=2, unique_by=repr)
"""Alternatives; an empty one matches no node, and one that is repeated says nothing new."""


@given(terms=TERMS, first=NODES, second=NODES)
def test_a_second_start_names_its_nodes_and_keeps_what_the_user_asked_for(
    terms: list[dict[str, Any]], first: list[str], second: list[str]
) -> None:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    affinity = {"podAffinity": {"x": 1}} | ({"nodeAffinity": required} if terms else {})
    original = job(template=pod(8, affinity=affinity))
    before = deepcopy(original)
    once = start_patch(seen(original), "r", first)
    assert original == before
    started = {**original, "spec": once["spec"]}
    started["metadata"] = {
        **original["metadata"],
        "annotations": {NODES_NOTE: once["metadata"]["annotations"][NODES_NOTE]},
    }
    again = start_patch(seen(started), "r", second)
    assert again["spec"] == start_patch(seen(original), "r", second)["spec"]
    pinned = at(again, ("spec", "template", "spec", "affinity"))
    assert pinned["podAffinity"] == {"x": 1}
    found = pinned["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    kept = terms or [{}]
    assert {each["matchFields"][-1]["values"][0] for each in found["nodeSelectorTerms"]} == set(
        second
    )
    for each in found["nodeSelectorTerms"]:
        fields = each["matchFields"][:-1]
        bare = {k: v for k, v in each.items() if k != "matchFields"}
        assert ({**bare, "matchFields": fields} if fields else bare) in kept


@given(
    sizes=st.lists(st.integers(1, 4), min_size=1, max_size=4),
    gpus=st.lists(st.integers(1, 6), min_size=1, max_size=3),
)
def test_pods_that_are_said_to_fit_do(sizes: list[int], gpus: list[int]) -> None:
    pod_sets = [PodSet(("spec", "template"), 1, size) for size in sizes]
    nodes = {f"n{number}": found for number, found in enumerate(gpus)}
    can = any(_in_order(order, gpus) for order in permutations(sizes))
    if _fits(pod_sets, nodes):
        assert can
    elif len(set(sizes)) == 1:
        assert not can


def _in_order(sizes: tuple[int, ...], gpus: list[int]) -> bool:
    """Return whether pods fit that are put on one node after the other."""
    left = list(gpus)
    for size in sizes:
        while left and left[0] < size:
            left.pop(0)
        if not left:
            return False
        left[0] -= size
    return True


def test_a_misfit_says_why_and_what_to_do() -> None:
    found = seen(job(8))
    assert misfit(found, {"n1": 8, "n2": 8}, is_alone=True) == ""
    assert "wholeNodes: true" in misfit(found, {"n1": 8, "n2": 8}, is_alone=False)
    assert "2 x 8" in misfit(found, {"n1": 8, "n2": 4}, is_alone=True)
    sets = seen(tree(SPECS["jobset"]), JOB_SET)
    assert "pinned to one node" in misfit(sets, {"n1": 4, "n2": 4}, is_alone=True)
    assert misfit(sets, {"n1": 8}, is_alone=False) == ""


def test_a_message_is_written_without_touching_the_spec() -> None:
    patch = message_patch(seen(job()), "waits", "train-1234")
    assert "spec" not in patch
    assert patch["metadata"]["resourceVersion"] == "7"
