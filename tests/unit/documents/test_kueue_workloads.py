"""Workloads of Kueue as runs."""

from __future__ import annotations

from typing import Any

import pytest

from quorate.documents.kueue.kueue_owners import Terms
from tests.unit.documents.kueue_said import (
    TERMS,
    container,
    documents,
    local_queue,
    manifest,
    notes,
    pod_set,
    problems,
    queue,
    quota,
    workload,
)

WEST = Terms(start_ms=TERMS.start_ms, end_ms=TERMS.end_ms, cluster="west")
FLEET = (queue(), local_queue())
HALLS = (
    queue(),
    local_queue(),
    manifest("ResourceFlavor", "h100", {"topologyName": "halls"}),
    manifest(
        "Topology",
        "halls",
        {"levels": [{"nodeLabel": each} for each in ("z", "a", "b", "kubernetes.io/hostname")]},
    ),
)


def run_of(*trees: dict[str, Any], terms: Terms = TERMS) -> Any:
    return documents(*FLEET, *trees, terms=terms)["Run/job"]


def test_a_workload_is_a_run_of_the_owner_its_queue_leads_to() -> None:
    assert run_of(workload(pod_set(count=4))) == {
        "owner": "vision",
        "resources": {"gpuType": "h100", "totalGPUs": 4},
        "command": ["x"],
    }


def test_flavors_of_the_queue_are_tried_in_its_order() -> None:
    trees = (queue("vision", quota("b", 1), quota("a", 0)), local_queue(), workload())
    assert documents(*trees)["Run/job"]["resources"]["gpuTypes"] == ["b", "a"]


def test_gpus_of_all_containers_and_sets_of_pods_count() -> None:
    both = pod_set(container(2), container(1, name="side"), count=3)
    tree = workload(both, pod_set(container("4"), count=1, name="other"))
    assert run_of(tree)["resources"]["totalGPUs"] == 13
    said = notes(*FLEET, tree)
    assert "Workload/job spec.podSets[1].template" in said
    assert "Workload/job spec.podSets[0].template.spec.containers[1]" in said


def test_with_a_cluster_a_run_keeps_its_image_and_what_its_pods_need() -> None:
    resources = {"requests": {"cpu": 4, "memory": "8Gi"}, "limits": {"nvidia.com/gpu": 1}}
    pod = {
        "serviceAccountName": "trainer",
        "imagePullSecrets": [{"name": "pull"}],
        "tolerations": [{"key": "k", "operator": "Exists"}, {"operator": "Exists"}],
    }
    env = [{"name": "A", "value": "1"}, {"name": "RANK", "value": "0"}]
    tree = workload(
        pod_set(container(resources=resources, args=["y"], env=env, workingDir="/w"), pod=pod)
    )
    found = run_of(tree, terms=WEST)
    assert (found["pool"], found["image"], found["command"]) == ("west", "a/b:1", ["x", "y"])
    assert (found["env"], found["workingDir"]) == ({"A": "1"}, "/w")
    assert found["podTemplate"] == {
        "tolerations": [{"key": "k", "operator": "Exists"}],
        "serviceAccountName": "trainer",
        "imagePullSecrets": ["pull"],
        "requests": {"cpu": "4", "memory": "8Gi"},
    }
    path = "Workload/job spec.podSets[0].template.spec"
    said = notes(*FLEET, tree, terms=WEST)
    lost = {each for each in said if each.startswith("Workload/")}
    assert lost == {f"{path}.tolerations[1]", f"{path}.containers[0].env[1]"}


def test_without_a_cluster_what_pods_need_is_noted() -> None:
    tree = workload(pod_set(pod={"serviceAccountName": "trainer"}))
    assert "image" not in run_of(tree)
    said = notes(*FLEET, tree)
    assert "serviceAccountName is left out" in said["Workload/job spec.podSets[0].template.spec"]
    assert any(path.endswith("containers[0].image") for path in said)


@pytest.mark.parametrize(
    ("request_", "locality", "said"),
    [
        ({"required": "a"}, {"allowCrossGroupSpread": False}, None),
        ({"required": "b"}, {"allowCrossGroupSpread": False}, "kept in part"),
        ({"required": "kubernetes.io/hostname"}, {"allowCrossGroupSpread": False}, "kept in part"),
        ({"required": "z"}, None, "not taken over"),
        ({"required": "nowhere"}, None, "not taken over"),
        ({"preferred": "a"}, None, "as few domains"),
        ({"unconstrained": True}, None, None),
        ({"podSetSliceRequiredTopology": "a", "podSetSliceSize": 2}, {"groupGPUs": 4}, None),
    ],
)
def test_a_required_level_is_kept_as_far_as_runs_can_say_it(
    request_: dict[str, object], locality: object, said: str | None
) -> None:
    tree = workload(pod_set(container(2), count=4, topologyRequest=request_))
    assert documents(*HALLS, tree)["Run/job"].get("locality") == locality
    found = [text for path, text in notes(*HALLS, tree).items() if ".topologyRequest." in path]
    assert (len(found), said is None or said in found[0]) == (0 if said is None else 1, True)


def test_a_minimal_count_makes_a_run_malleable() -> None:
    found = run_of(workload(pod_set(container(8), count=4, minCount=2)))
    assert found["malleable"] == {"minTotalGPUs": 16, "maxTotalGPUs": 32, "stepGPUs": 8}
    assert found["processes"] == "node"


@pytest.mark.parametrize(
    "sets", [(pod_set(count=500, minCount=1),), (pod_set(count=4, minCount=2), pod_set(name="b"))]
)
def test_widths_that_a_run_cannot_have_are_noted(sets: tuple[dict[str, Any], ...]) -> None:
    assert "malleable" not in run_of(workload(*sets))
    assert "Workload/job spec.podSets[0].minCount" in notes(*FLEET, workload(*sets))


def test_a_time_limit_is_the_expected_duration_and_priorities_are_noted() -> None:
    tree = workload(maximumExecutionTimeSeconds=5400, priority=7, priorityClassName="urgent")
    assert run_of(tree)["runtime"] == {"expectedDuration": "90m"}
    said = notes(*FLEET, tree)
    for path in ("priority", "priorityClassName", "maximumExecutionTimeSeconds"):
        assert f"Workload/job spec.{path}" in said


@pytest.mark.parametrize(
    ("tree", "path"),
    [
        (workload(active=False), "spec.active"),
        (workload(pod_set(container(0))), "spec"),
        (workload(pod_set(count=0)), "spec"),
        (
            {**workload(), "status": {"conditions": [{"type": "Finished", "status": "True"}]}},
            "status",
        ),
    ],
)
def test_a_workload_that_cannot_run_is_left_out(tree: dict[str, Any], path: str) -> None:
    assert "Run/job" not in documents(*FLEET, tree)
    assert "left out" in notes(*FLEET, tree)[f"Workload/job {path}"]


def test_a_workload_that_was_admitted_is_submitted_anew() -> None:
    status = {"conditions": [{"type": "Admitted", "status": "True"}]}
    assert (
        "submitted as new" in notes(*FLEET, {**workload(), "status": status})["Workload/job status"]
    )


def test_workloads_of_one_name_in_two_namespaces_get_both_names() -> None:
    other = (local_queue(namespace="bio"), workload(namespace="bio"))
    assert {"Run/lab:job", "Run/bio:job"} < documents(*FLEET, workload(), *other).keys()


@pytest.mark.parametrize(
    ("trees", "said"),
    [
        ((queue(), workload()), "no LocalQueue of this name in the namespace lab"),
        ((local_queue(), workload()), "leads to ClusterQueue vision, which is not in these files"),
        (
            (manifest("ClusterQueue", "vision"), local_queue(), workload()),
            "which has no GPUs of any flavor",
        ),
        ((*FLEET, workload(pod_set(container("x")))), 'must be a quantity, got "x"'),
        ((*FLEET, workload(pod_set(count=2, minCount=3))), "minCount: must be at most count 2"),
        ((*FLEET, workload(pod_set(count=-1))), "count: must not be negative"),
        ((*FLEET, workload(pod_set(template={}))), "template: is required"),
        ((*FLEET, workload(podSets=3)), "spec.podSets: must be a list"),
        ((*FLEET, workload(queueName=None)), "spec.queueName: is required"),
    ],
)
def test_a_fault_of_a_workload_names_its_field(
    trees: tuple[dict[str, Any], ...], said: str
) -> None:
    assert any(said in each for each in problems(*trees)), problems(*trees)


def test_a_command_for_pods_needs_an_image() -> None:
    tree = workload(pod_set(container(image=None)))
    assert "containers[0].image: is required" in problems(*FLEET, tree, terms=WEST)[0]


def test_a_container_without_a_command_starts_nothing_and_says_so() -> None:
    tree = workload(pod_set(container(command=None, args=["a"])))
    assert "command" not in run_of(tree, terms=WEST)
    said = notes(*FLEET, tree)["Workload/job spec.podSets[0].template.spec.containers[0].args"]
    assert "write spec.command" in said
