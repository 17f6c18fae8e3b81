"""Queues, cohorts, flavors and topologies of Kueue as owners and budgets."""

from __future__ import annotations

from decimal import Decimal

import pytest

from quorate.documents.kueue.kueue_import import Imported, import_kueue
from quorate.documents.kueue.kueue_owners import Terms
from quorate.documents.kueue.kueue_quantity import quantity
from tests.unit.documents.kueue_said import (
    TERMS,
    WINDOW,
    documents,
    manifest,
    notes,
    problems,
    queue,
    quota,
)

EVERYWHERE = {"selector": {"region": "*"}, **WINDOW}


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (8, "8"),
        ("8", "8"),
        ("4000m", "4"),
        ("2k", "2000"),
        ("1Ki", "1024"),
        ("1e3", "1000"),
        ("1.5", "1.5"),
        (Decimal("0.5"), "0.5"),
        ("-1", "-1"),
    ],
)
def test_a_quantity_is_read_exactly(written: object, meant: str) -> None:
    assert quantity(written) == Decimal(meant)


@pytest.mark.parametrize("written", ["", "8 GPUs", "8g", True, None, [], "1e999", "0x8", "."])
def test_what_is_no_quantity_is_none(written: object) -> None:
    assert quantity(written) is None


def test_a_cluster_queue_is_an_owner_with_a_budget() -> None:
    made = documents(queue("vision", quota("h100", "64")))
    assert made == {
        "Owner/vision": {},
        "Budget/vision": {
            "owner": "vision",
            "envelopes": [{"name": "h100", "flavor": "h100", **EVERYWHERE, "concurrency": 64}],
        },
    }


def test_a_cohort_is_the_parent_of_its_queues_whether_or_not_it_is_declared() -> None:
    newer = manifest("ClusterQueue", "speech", {"cohortName": "science"}, version="v1beta2")
    made = documents(queue("vision", cohort="science"), newer)
    assert made["Owner/science"] == {}
    assert made["Owner/vision"] == made["Owner/speech"] == {"parents": ["science"]}
    parent = manifest("Cohort", "science", {"parentName": "all"})
    assert documents(queue("vision", cohort="science"), parent) == {
        "Owner/science": {"parents": ["all"]},
        "Owner/all": {},
        "Owner/vision": {"parents": ["science"]},
        "Budget/vision": documents(queue("vision"))["Budget/vision"],
    }


def test_a_cohort_of_its_own_quota_has_a_budget_and_keeps_no_part_of_it_back() -> None:
    cohort = manifest("Cohort", "science", {"resourceGroups": [quota("h100", 4, lendingLimit=1)]})
    (envelope,) = documents(cohort)["Budget/science"]["envelopes"]
    assert (envelope["concurrency"], "sharing" in envelope) == (4, False)
    assert any(path.endswith("lendingLimit") for path in notes(cohort))


@pytest.mark.parametrize(
    ("gpus", "limit", "parts"),
    [
        (8, None, [("h100", None, 8)]),
        (8, 8, [("h100", None, 8)]),
        (8, 9, [("h100", None, 8)]),
        (8, 0, [("h100", "none", 8)]),
        (8, 3, [("h100", "none", 5), ("h100:lent", None, 3)]),
        (0, None, []),
        (0, 0, []),
    ],
)
def test_what_a_queue_keeps_and_what_it_lends_are_envelopes_of_their_own(
    gpus: int, limit: int | None, parts: list[tuple[str, str | None, int]]
) -> None:
    limits = {} if limit is None else {"lendingLimit": limit}
    made = documents(queue("vision", quota("h100", gpus, **limits), cohort="science"))
    found = made.get("Budget/vision", {"envelopes": []})["envelopes"]
    assert [(each["name"], each.get("sharing"), each["concurrency"]) for each in found] == parts


def test_a_cohort_that_is_called_like_a_queue_gets_another_name() -> None:
    trees = (queue("vision", cohort="vision"), manifest("Cohort", "vision"))
    assert documents(*trees)["Owner/vision"] == {"parents": ["cohort:vision"]}
    assert "becomes owner cohort:vision" in notes(*trees)["Cohort/vision"]


def test_labels_of_a_flavor_name_its_gpus_and_places() -> None:
    labels = {"nvidia.com/gpu.product": "H100", "topology.kubernetes.io/region": "west"}
    flavor = manifest("ResourceFlavor", "h100", {"nodeLabels": labels})
    (envelope,) = documents(queue(), flavor)["Budget/vision"]["envelopes"]
    assert (envelope["flavor"], envelope["selector"]) == ("H100", {"region": "west"})
    assert notes(queue(), flavor) == {}


@pytest.mark.parametrize("second", ["H100", None])
def test_a_flavor_that_its_product_does_not_tell_apart_keeps_its_own_name(
    second: str | None,
) -> None:
    product = {"nvidia.com/gpu.product": "H100"}
    labels = product if second else {**product, "spot": "yes"}
    flavors = [manifest("ResourceFlavor", "h100", {"nodeLabels": labels})]
    flavors += [manifest("ResourceFlavor", "other", {"nodeLabels": product})] if second else []
    (envelope,) = documents(queue(), *flavors)["Budget/vision"]["envelopes"]
    assert envelope["flavor"] == "h100"
    said = notes(queue(), *flavors)["ResourceFlavor/h100 spec.nodeLabels"]
    assert "write flavor: h100 in the document of each Node" in said


def test_a_named_cluster_gets_a_pool_and_its_envelopes_pay_there() -> None:
    terms = Terms(start_ms=TERMS.start_ms, end_ms=TERMS.end_ms, cluster="west")
    made = documents(queue(), terms=terms)
    place = {"cluster": "west"}
    assert made["Pool/west"] == {"selector": place, "executor": "kubernetes", "cluster": "west"}
    assert made["Budget/vision"]["envelopes"][0]["selector"] == place


@pytest.mark.parametrize(
    ("levels", "roles"),
    [
        (["a", "b", "kubernetes.io/hostname"], {0: "fabric.domain", 1: "rack"}),
        (["a", "kubernetes.io/hostname"], {0: "fabric.domain"}),
        (["z", "a", "b"], {0: "region", 1: "fabric.domain", 2: "rack"}),
        (["topology.kubernetes.io/zone", "a"], {0: "region", 1: "fabric.domain"}),
    ],
)
def test_levels_of_a_topology_are_labels_of_nodes(levels: list[str], roles: dict[int, str]) -> None:
    tree = manifest("Topology", "halls", {"levels": [{"nodeLabel": each} for each in levels]})
    found = notes(tree)
    assert found.keys() == {f"Topology/halls spec.levels[{number}]" for number in roles}
    for number, role in roles.items():
        assert role in found[f"Topology/halls spec.levels[{number}]"]


def test_every_field_without_a_counterpart_is_noted() -> None:
    tree = queue(
        "vision",
        quota("h100", 8, borrowingLimit=4),
        {"flavors": [{"name": "c", "resources": [{"name": "cpu", "nominalQuota": "1k"}]}]},
        cohort="science",
        preemption={"withinClusterQueue": "Never", "borrowWithinCohort": {"policy": "Never"}},
        admissionChecks=["scan"],
        fairSharing={"weight": "2"},
        stopPolicy="Hold",
        queueingStrategy="StrictFIFO",
        flavorFungibility={"whenCanBorrow": "Borrow"},
        namespaceSelector={"matchLabels": {"a": "b"}},
        somethingNew=1,
    )
    first = "spec.resourceGroups[0]"
    assert notes(tree).keys() == {
        f"ClusterQueue/vision {path}"
        for path in (
            "spec.resourceGroups",
            f"{first}.flavors[0].resources[0].borrowingLimit",
            "spec.resourceGroups[1].flavors[0].resources[0]",
            "spec.preemption.withinClusterQueue",
            "spec.preemption.borrowWithinCohort",
            "spec.admissionChecks",
            "spec.fairSharing.weight",
            "spec.stopPolicy",
            "spec.queueingStrategy",
            "spec.flavorFungibility",
            "spec.namespaceSelector",
            "spec.somethingNew",
        )
    }


def test_other_objects_are_left_out_and_said() -> None:
    check = manifest("AdmissionCheck", "scan", {"controllerName": "x"})
    assert "Owner/vision" in documents(queue(), check)
    assert "is left out" in notes(queue(), check)["AdmissionCheck/scan"]


def test_a_note_has_file_line_object_and_field() -> None:
    text = (
        "apiVersion: kueue.x-k8s.io/v1beta1\nkind: ClusterQueue\nmetadata:\n  name: a\nspec:\n"
        "  stopPolicy: Hold\n"
    )
    found = import_kueue([("q.yaml", text)], TERMS)
    assert isinstance(found, Imported)
    (note,) = found.notes
    assert note.text().startswith("q.yaml:6: ClusterQueue/a: spec.stopPolicy: has no counterpart")


@pytest.mark.parametrize(
    ("tree", "said"),
    [
        (queue("v", quota("h100", "many")), 'nominalQuota: must be a quantity, got "many"'),
        (queue("v", quota("h100", "1.5")), "must be a whole number of GPUs"),
        (queue("v", quota("h100", -1)), "must be a whole number of GPUs"),
        (queue("v", quota("h100", "9E")), "must be at most"),
        (queue("v", quota("not a name", 1)), "flavors[0].name: must be 1 to 128"),
        (queue("v", resourceGroups={"a": 1}), "spec.resourceGroups: must be a list"),
        (queue("v", quota("a", 1), quota("a", 2)), "would become a Budget that is refused"),
        (manifest("ClusterQueue", "v", []), ""),
        (manifest("ClusterQueue", "v", ["a"]), "spec: must be a mapping, got a list"),
        (manifest("LocalQueue", "v", {}), "spec.clusterQueue: is required"),
        (manifest("Topology", "v"), "spec.levels: is required"),
        (manifest("ClusterQueue", "v", version="v1alpha1"), "apiVersion: must be"),
        (manifest("Cohort", "v", {"parentName": "v"}), "makes a cohort its own ancestor"),
        (
            manifest("ResourceFlavor", "v", {"nodeLabels": {"region": "a b"}}),
            "nodeLabels.region: must name a place",
        ),
        ({"kind": "ClusterQueue"}, "apiVersion: is required"),
        ({"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "Cohort"}, "metadata.name: is required"),
    ],
)
def test_a_fault_names_its_field(tree: dict[str, object], said: str) -> None:
    if not said:
        assert documents(tree) == {"Owner/v": {}}
        return
    found = problems(tree)
    assert any(said in each for each in found), found
    assert all(each.startswith("k.yaml:") for each in found)


def test_two_objects_of_one_name_are_refused() -> None:
    (found,) = problems(queue("a"), queue("a"))
    assert "is the name of another ClusterQueue, in k.yaml, line 1" in found
