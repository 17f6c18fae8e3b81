"""A worked example as custom resources: from nodes to pods, with a conflict and its lottery.

A run of 96 GPUs in groups of 64 on domains of 72 GPUs; a run of 128 GPUs, for which 16 GPUs are
missing in one domain; a run that grows; and a run whose spare replaces a failed node, although
another run works on the spare.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from quorate.adapters.kubernetes.node_taints import OUT_OF_SERVICE
from quorate.adapters.kubernetes.resource_objects import KINDS
from tests.bounds import until
from tests.kubernetes.engines import Server
from tests.kubernetes.example_site import POOL, SPACES, Example, budget, work
from tests.kubernetes.printed import by_kubectl, printed
from tests.kubernetes.resources import Resources
from tests.service.program import program

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.usefixtures("only_resources", "only_gpu_nodes"),
]

GOLDEN = Path(__file__).with_name("golden")


@pytest.fixture
def example(cluster: Server) -> Iterator[Example]:
    with Example(cluster) as found:
        yield found


@pytest.mark.soak
def test_the_worked_example_from_resources_to_pods_conflict_growth_and_swap(
    example: Example, tmp_path: Path
) -> None:
    rai, vision = example.of["rai"], example.of["vision"]
    rai.create("Run", "train", work("rai", 96, locality={"groupGPUs": 64}))
    rai.create("Budget", "rai", budget("rai", "west-h100", 128))
    rai.create("Budget", "vision", budget("vision", "vision-h100", 64))
    rai.create("Owner", "vision", {"quota": {"fairShareTarget": 0.1}})
    rai.create("Owner", "rai", {"quota": {"fairShareTarget": 0.9}})
    rai.create("Pool", "west", POOL)
    with program(tmp_path, *example.words) as service:
        service.wait_ready()
        # Groups of 64 and 32, each in one domain.
        rai.until_phase("train", "Running")
        assert rai.status("Run", "train")["domains"] == {"us/west/a": 64, "us/west/b": 32}
        until(lambda: example.pods("rai") == {"a": 8, "b": 4}, "its pods are where it was decided")
        rai.delete("Run", "train")
        rai.until_gone("Run", "train")
        # Two groups of 64 in a domain with 48 free GPUs.
        there = {"selector": {"fabric.domain": "b"}}
        vision.create("Run", "small", work("vision", 8, locality=there))
        vision.create("Run", "large", work("vision", 16, locality=there))
        vision.until_phase("small", "Running")
        vision.until_phase("large", "Running")
        rai.create("Run", "pair", work("rai", 128, locality={"groupGPUs": 64}))
        rai.until_phase("pair", "Running")
        assert rai.status("Run", "pair")["domains"] == {"us/west/a": 64, "us/west/b": 64}
        outcome = until(
            lambda: next((o for o in rai.all("ResolverOutcome") if _is_resolved(o)), None),
            "the conflict and its outcome are an object",
            tell=lambda: rai.all("ResolverOutcome"),
        )
        assert outcome["spec"]["deficit"] == 16
        assert outcome["status"]["seed"]
        # Whichever run was drawn first: the small run alone is not enough, and is not needed.
        cut = [each["run"].rpartition("-")[0] for each in outcome["status"]["cuts"]]
        assert cut == ["large"]
        vision.until_phase("large", "Pending")
        until(lambda: example.pods("rai") == {"a": 8, "b": 8}, "all pods of the pair are bound")
        _compare(example)
        rai.delete("Run", "pair")
        rai.until_gone("Run", "pair")
        vision.until_phase("large", "Running")
        # From 64 GPUs in A to all available GPUs, in steps.
        elastic = {"minTotalGPUs": 64, "maxTotalGPUs": 128, "stepGPUs": 16}
        rai.create("Run", "grows", work("rai", 64, malleable=elastic))
        until(
            lambda: rai.status("Run", "grows").get("width", 0) >= 112,
            "it has grown over both domains",
            tell=lambda: rai.status("Run", "grows"),
        )
        rai.delete("Run", "grows")
        rai.until_gone("Run", "grows")
        _fill_and_swap(example, rai)
        assert service.end() == 0


def _fill_and_swap(example: Example, rai: Resources) -> None:
    """Let another run work on a spare, until a node fails and the spare replaces it."""
    # From here on, no start calls a conflict within the time of this test.
    rai.api.merge(rai.path("Pool", "west"), {"spec": {"reservationNotice": "1h"}})
    until(lambda: _is_observed(rai.get("Pool", "west")), "the pool has its new notice")
    # Another run works on the idle spare, because only 48 of the 72 GPUs are free.
    there = {"selector": {"fabric.domain": "a"}}
    safe = {"locality": {"groupGPUs": 16, **there}, "sparesPerGroup": 8}
    rai.create("Run", "safe", work("rai", 16, **safe))
    until(lambda: _leases(rai).keys() == {"Active", "Spare"}, "it has a spare")
    rai.create("Run", "filler", work("rai", 56, locality=there))
    rai.until_phase("filler", "Running")
    until(lambda: example.pods("rai") == {"a": 9, "b": 0}, "both work, one on the spare")
    until(lambda: _leases(rai).keys() == {"Active"}, "the spare is filled")
    # A node fails: the filler is stopped, and the spare in the same domain replaces the node.
    node = _leases(rai)["Active"]["slots"][0]["node"]
    example.kubelets["rai"].failed_nodes.add(node)
    example.nodes.taint(node, OUT_OF_SERVICE)
    until(
        lambda: "Swap" in {each["startReason"] for each in _all_leases(rai)},
        "the spare works in its place",
        tell=lambda: _all_leases(rai),
    )
    until(
        lambda: node not in {at["node"] for each in _all_leases(rai) for at in each["slots"]},
        "no lease is left on the node that has failed",
    )
    rai.until_phase("safe", "Running")
    rai.until_phase("filler", "Pending")
    until(lambda: example.pods("rai") == {"a": 2, "b": 0}, "its pods work, and no others")


def _all_leases(made: Resources) -> list[dict[str, Any]]:
    """Return the statuses of all leases that have one."""
    return [each["status"] for each in made.all("GPULease") if "status" in each]


def _leases(made: Resources) -> dict[str, dict[str, Any]]:
    """Return one lease of the run ``safe`` for each role."""
    return {each["role"]: each for each in _all_leases(made) if each["run"] == "safe"}


def _is_observed(tree: dict[str, Any] | None) -> bool:
    """Return whether the ledger has the newest generation of a resource."""
    assert tree is not None
    return bool(tree["status"].get("observedGeneration") == tree["metadata"]["generation"])


def _is_resolved(tree: dict[str, Any]) -> bool:
    return bool(tree.get("status", {}).get("outcome", "Declared") != "Declared")


def _compare(example: Example) -> None:
    """Compare the output of ``kubectl get`` with the golden files."""
    for path in sorted(GOLDEN.glob("*.txt")):
        owner, _, rest = path.stem.partition("-")
        plural, _, width = rest.partition(".")
        (kind,) = (each.name for each in KINDS if each.plural == plural)
        wanted, is_wide = path.read_text("utf-8"), width == "wide"
        shown = partial(printed, example.api, kind, SPACES[owner], is_wide=is_wide)
        until(
            lambda shown=shown, wanted=wanted: shown() == wanted,  # type: ignore[misc]
            f"{path.name} is what people see",
            tell=shown,
        )
        if shutil.which("kubectl"):
            config = example.cluster.kubeconfig
            assert by_kubectl(config, kind, SPACES[owner], is_wide=is_wide) == wanted
