"""Workloads of every kind: how they are read, and the patches that start and suspend them."""

from __future__ import annotations

from copy import deepcopy
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.adapters.kubernetes.job_kinds import KINDS, Ended, at, workload_of
from quorate.adapters.kubernetes.job_patches import (
    _fits,
    is_pinned_to,
    message_patch,
    misfit,
    start_patch,
    suspend_patch,
)
from quorate.adapters.kubernetes.seen_jobs import NODES_NOTE, PodSet, SeenJob, seen_job

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
    assert 'asks for "1m"' in seen(tree({"template": pod("1m")})).fault
    assert seen(tree({"template": pod(1)})).is_suspended is False
    init = pod(1, initContainers=[{"resources": {"limits": {"nvidia.com/gpu": 4}}}])
    assert seen(tree({"template": init})).gpus == 4
    assert seen(job(1, completions=1)).gpus == 1


def graced(seconds: int) -> dict[str, Any]:
    return job(template=pod(8, terminationGracePeriodSeconds=seconds))


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (job(activeDeadlineSeconds=2**63 - 1), "activeDeadlineSeconds: must be 0 to"),
        (job(activeDeadlineSeconds=2**55), "activeDeadlineSeconds: must be 0 to"),
        (job(activeDeadlineSeconds=10**5000), "a number of over 38 digits"),
        (graced(2**60), "terminationGracePeriodSeconds: must be 0 to"),
        (graced(-5), "terminationGracePeriodSeconds: must be 0 to"),
        (job(parallelism=2**31 - 1), "its pods ask for 17179869176 GPUs, more than 1048576"),
        (job(parallelism=10**5000), "its pods ask for a number of over 38 digits GPUs"),
        (tree({"template": pod("9" * 5000)}), "must be 0 to 1048576"),
        (tree({"template": pod(2**62)}), "must be 0 to 1048576"),
        (tree({"template": pod("\u00b2")}), "must be 0 to 1048576"),
        (job(manualSelector=True), "create the Job without manualSelector"),
    ],
)
def test_what_no_document_could_ask_for_is_a_fault(found: dict[str, Any], said: str) -> None:
    read = seen(found)
    assert said in read.fault
    assert len(read.fault) < 300
    assert read.pod_sets == ()


def test_a_name_that_no_label_holds_is_a_fault_where_pods_are_found_by_it() -> None:
    for kind in KINDS:
        found = tree(SPECS[kind.kind])
        found["metadata"]["name"] = "a" * 64
        is_by_name = kind in (JOB_SET, PYTORCH)
        assert ("metadata.name: has more than 63" in seen(found, kind).fault) is is_by_name


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["", "x", "8"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(
                (
                    *("suspend", "template", "spec", "containers", "resources", "limits"),
                    *("nvidia.com/gpu", "replicas", "replicatedJobs", "pytorchReplicaSpecs"),
                    *("rayClusterSpec", "workerGroupSpecs", "conditions", "type", "status"),
                    *("affinity", "nodeAffinity", "nodeSelector", "jobStatus", "parallelism"),
                )
            ),
            inner,
            max_size=3,
        )
    ),
    max_leaves=12,
)
PLACES: dict[str, list[tuple[str | int, ...]]] = {
    each.kind: [("spec",), ("status",), each.suspend]
    + [
        (*path, *more)
        for path, _ in each.templates(tree(SPECS[each.kind]))
        for more in ((), ("spec",), ("spec", "containers"), ("spec", "affinity"))
    ]
    for each in KINDS
}


@pytest.mark.parametrize("kind", KINDS, ids=lambda each: each.kind)
@given(data=st.data())
def test_whatever_users_write_is_read(kind: Any, data: st.DataObject) -> None:
    found = deepcopy(tree(SPECS[kind.kind])) | {"status": {}}
    *before, last = data.draw(st.sampled_from(PLACES[kind.kind]))
    at(found, tuple(before))[last] = data.draw(JUNK)
    read = seen(found, kind)
    if not read.fault:
        is_pinned_to(read, ("n1",))
        assert is_pinned_to(started(read, kind), ("n1",))


def started(read: SeenJob, kind: Any) -> SeenJob:
    """Return a workload after its start on one node."""
    return seen({**read.tree, "spec": start_patch(read, "train-1234", ("n1",))["spec"]}, kind)


def test_a_template_that_may_have_pods_elsewhere_is_not_pinned() -> None:
    read = started(seen(job(4)), JOB)
    assert is_pinned_to(read, ("n1",))
    assert not is_pinned_to(read, ("n1", "n2"))
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    path = ("spec", "template", "spec", "affinity", "nodeAffinity", required)
    (term,) = at(read.tree, path)["nodeSelectorTerms"]
    field = {"key": "metadata.name", "operator": "NotIn", "values": ["n9"]}
    wilds: list[list[dict[str, Any]]] = [
        [],
        [{}],
        [term, {"matchExpressions": []}],
        [{**term, "matchFields": [field]}],
        [{**term, "matchFields": [{**term["matchFields"][0], "values": ["n1", "n2"]}]}],
    ]
    for terms in wilds:
        wild = deepcopy(read.tree)
        at(wild, path)["nodeSelectorTerms"] = terms
        assert not is_pinned_to(seen(wild), ("n1",)), terms


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
"""Alternatives; an empty one matches no node, and a repeated one has no effect."""


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


@given(
    sizes=st.lists(st.tuples(st.integers(0, 5), st.integers(1, 4)), min_size=1, max_size=3),
    gpus=st.lists(st.integers(0, 9), min_size=1, max_size=4),
)
def test_pods_of_one_size_are_placed_together_as_one_by_one(
    sizes: list[tuple[int, int]], gpus: list[int]
) -> None:
    pod_sets = [PodSet(("spec", "template"), pods, size) for pods, size in sizes]
    nodes = {f"n{number}": found for number, found in enumerate(gpus)}
    assert _fits(pod_sets, nodes) is _one_by_one(pod_sets, nodes)


def _one_by_one(pod_sets: list[PodSet], gpus_of: dict[str, int]) -> bool:
    left = dict(gpus_of)
    sizes = sorted((each.gpus for each in pod_sets for _ in range(each.pods)), reverse=True)
    for size in sizes:
        room = [(gpus, node) for node, gpus in left.items() if gpus >= size]
        if not room:
            return False
        left[min(room)[1]] -= size
    return True


def test_pods_beyond_counting_do_not_fit() -> None:
    assert not _fits([PodSet(("spec", "template"), 2**31 - 1, 8)], {"n1": 8})


def _in_order(sizes: tuple[int, ...], gpus: list[int]) -> bool:
    """Return whether pods fit if they are placed on one node after the other."""
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
