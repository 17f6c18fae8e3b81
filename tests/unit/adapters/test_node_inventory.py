"""GPU nodes of a cluster as nodes of Quorate."""

from __future__ import annotations

from typing import Any

import pytest

from quorate.adapters.kubernetes.node_inventory import nodes_of
from quorate.model.specs import Node

OWN = {"region": "us", "cluster": "c9", "fabric.domain": "A", "rack": "r1", "gpu.flavor": "H100"}
CLOUD = {
    "topology.kubernetes.io/region": "us-west1",
    "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
    "nvidia.com/gpu.clique": "7b7c.2",
    "kubernetes.io/hostname": "n1",
}


def node(name: str, labels: dict[str, str], gpus: str | None = "8") -> dict[str, Any]:
    status = {} if gpus is None else {"allocatable": {"nvidia.com/gpu": gpus, "cpu": "8"}}
    return {"metadata": {"name": name, "labels": labels}, "status": status}


def test_quorates_own_labels_say_everything() -> None:
    found, left_out = nodes_of([node("n1", OWN | CLOUD)], "west")
    assert found == [
        Node(name="n1", flavor="H100", gpus=8, region="us", cluster="c9", domain="A", rack="r1")
    ]
    assert left_out == []


def test_the_labels_of_providers_are_read_where_there_are_no_others() -> None:
    (found,), _ = nodes_of([node("n1", CLOUD)], "west")
    assert (found.region, found.cluster) == ("us-west1", "west")
    assert (found.flavor, found.domain) == ("NVIDIA-H100-80GB-HBM3", "7b7c.2")


def test_a_node_of_unknown_fabric_is_a_domain_of_its_own() -> None:
    labels = {key: value for key, value in OWN.items() if key != "fabric.domain"}
    found, _ = nodes_of([node("n2", labels), node("n1", labels)], "west")
    assert [each.domain for each in found] == ["n1", "n2"]


def test_nodes_without_gpus_are_not_mentioned() -> None:
    capacity = {"metadata": {"name": "old", "labels": OWN}, "status": {"capacity": {}}}
    assert nodes_of([node("a", OWN, "0"), node("b", OWN, None), capacity], "west") == ([], [])


@pytest.mark.parametrize(
    ("labels", "gpus", "word"),
    [
        ({"region": "us"}, "8", "kubectl label node n1 gpu.flavor=NAME"),
        ({"gpu.flavor": "H100"}, "8", "kubectl label node n1 region=NAME"),
        (OWN | {"region": "a_"}, "8", "has the value 'a_'"),
        (OWN, "65", "at most 64"),
    ],
)
def test_a_node_that_cannot_be_declared_is_left_out_with_the_remedy(
    labels: dict[str, str], gpus: str, word: str
) -> None:
    found, (left_out,) = nodes_of([node("n1", labels, gpus)], "west")
    assert found == []
    assert left_out.name == "n1"
    assert word in left_out.why
