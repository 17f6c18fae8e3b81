"""A worked example from ``kubectl apply`` to borrowed GPUs, cuts without a lottery, and a shrink.

A lender pays for GPUs that an owner cannot pay for; a run that fits in no domain says so; a firm
start takes a spare and a step of a malleable run, without a lottery; a run releases steps; and a
run without a spare waits again when its node fails.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from quorate.adapters.kubernetes.node_taints import OUT_OF_SERVICE
from quorate.model.api_version import API_VERSION
from tests.bounds import until
from tests.kubernetes.engines import Server
from tests.kubernetes.example_site import POOL, SPACES, Example, budget, work
from tests.kubernetes.resources import Resources
from tests.kubernetes.typed import Shell
from tests.service.program import program

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.usefixtures("only_resources", "only_gpu_nodes"),
]

IN_B = {"selector": {"fabric.domain": "b"}}
LENDING = {"lending": {"allow": True, "to": ["rai"], "maxConcurrency": 16}}
BORROWS = {"funding": {"allowBorrow": True, "sponsors": ["vision"], "maxBorrowGPUs": 16}}


@pytest.fixture
def example(cluster: Server) -> Iterator[Example]:
    if shutil.which("kubectl") is None:
        pytest.skip("there is no kubectl on the path")
    with Example(cluster) as found:
        yield found


class Person:
    """Types commands; ``kubectl runs`` accepts the names of resources with ``-n``."""

    def __init__(self, example: Example, folder: Path, url: str) -> None:
        self.example = example
        self.shell = Shell(folder, example.cluster.kubeconfig)
        self.shell.type(
            f"quorate context set here --server {url} --token-file admin.token\n"
            "quorate context use here"
        )

    def apply(self, *resources: tuple[str, str, dict[str, Any]]) -> None:
        """Apply resources, given by kind, name and spec."""
        trees: list[dict[str, Any]] = []
        for kind, name, spec in resources:
            head = {"name": name} | ({"namespace": SPACES[spec["owner"]]} if kind == "Run" else {})
            trees.append({"apiVersion": API_VERSION, "kind": kind, "metadata": head, "spec": spec})
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": trees})
        (self.shell.folder / "applied.json").write_text(text, "utf-8")
        self.shell.type("kubectl apply -f applied.json")

    def runs(self, words: str, name: str, owner: str = "rai") -> str:
        return self.shell.type(f"kubectl runs {words.format(name)} -n {SPACES[owner]}")


@pytest.mark.soak
def test_the_worked_example_from_a_loan_to_cuts_without_lots_and_a_shrink(
    example: Example, tmp_path: Path
) -> None:
    rai, vision = example.of["rai"], example.of["vision"]
    with program(tmp_path, *example.words, "--token-file", "admin.token") as service:
        person = Person(example, tmp_path, service.wait_ready())
        lender = budget("vision", "vision-h100", 96)
        lender["envelopes"][0] |= LENDING
        person.apply(
            ("Pool", "west", POOL | {"reservationNotice": "6s"}),
            ("Owner", "rai", {"quota": {"fairShareTarget": 0.9}}),
            ("Owner", "vision", {"quota": {"fairShareTarget": 0.1}}),
            ("Budget", "rai", budget("rai", "west-h100", 64)),
            ("Budget", "vision", lender),
        )
        _borrow(person, rai)
        _find_no_domain(person, rai)
        _cut(person, rai, vision)
        _shrink(person, vision)
        _wait_again(person, rai)
        _resolve(person, rai)
        assert service.end() == 0


def _borrow(person: Person, rai: Resources) -> None:
    """Let the owner pay for 64 GPUs, and its sponsor for the other 8."""
    person.apply(("Run", "wide", work("rai", 72, **BORROWS)))
    rai.until_phase("wide", "Running")
    funding = rai.status("Run", "wide")["funding"]
    assert (funding["owned"]["gpus"], funding["borrowed"]["gpus"]) == (64, 8)
    assert funding["lenders"] == ["vision"]
    until(
        lambda: (
            {each["status"]["payer"] for each in rai.all("GPULease") if "status" in each}
            == {"rai/west-h100", "vision/vision-h100"}
        ),
        "its leases say who pays",
    )
    assert "vision" in person.runs("sponsors list {}", "wide")
    rai.delete("Run", "wide")
    rai.until_gone("Run", "wide")


def _find_no_domain(person: Person, rai: Resources) -> None:
    """Request 80 GPUs in one domain, although no domain has so many."""
    alone = {"locality": {"allowCrossGroupSpread": False}}
    person.apply(("Run", "whole", work("rai", 80, **BORROWS, **alone)))
    rai.until_condition("Run", "whole", "Admitted", "False", "TopologyPlacementFailed")
    assert "domain" in person.runs("explain {}", "whole")
    rai.delete("Run", "whole")
    rai.until_gone("Run", "whole")


def _cut(person: Person, rai: Resources, vision: Resources) -> None:
    """Take 16 missing GPUs: a spare, and a step of a malleable run."""
    spare = {"locality": {**IN_B, "groupGPUs": 8}, "sparesPerGroup": 8}
    elastic = {"minTotalGPUs": 16, "maxTotalGPUs": 40, "stepGPUs": 8}
    person.apply(
        ("Run", "safe", work("vision", 8, **spare)),
        ("Run", "elastic", work("vision", 40, malleable=elastic, locality=IN_B)),
    )
    until(lambda: _width(vision, "elastic") == 40, "it has all that it can use")
    until(lambda: "Spare" in _roles(vision, "safe"), "the other one has a spare")
    person.apply(("Run", "urgent", work("rai", 32, locality=IN_B)))
    planned = until(
        lambda: next((each for each in rai.all("Reservation") if "status" in each), None),
        "its planned start is an object",
        tell=lambda: rai.get("Run", "urgent"),
    )
    assert planned["spec"]["runRef"]["name"] == "urgent"
    assert planned["status"]["byConflict"]
    rai.until_phase("urgent", "Running")
    outcome = until(
        lambda: next((each for each in rai.all("ResolverOutcome") if _is_cleared(each)), None),
        "the conflict is an object",
        tell=lambda: rai.all("ResolverOutcome"),
    )
    assert outcome["spec"]["deficit"] == 16
    assert outcome["status"].get("draws", []) == []
    cuts = {each["step"]: each["run"].rpartition("-")[0] for each in outcome["status"]["cuts"]}
    assert cuts == {"Spare": "safe", "Shrink": "elastic"}
    until(lambda: _width(vision, "elastic") == 32, "one step has ended")
    until(lambda: _roles(vision, "safe") == {"Active"}, "the spare has ended")


def _shrink(person: Person, vision: Resources) -> None:
    """Let an owner release GPUs: the pods of these steps end."""
    assert "from 32 to 16 GPUs" in person.runs("shrink {} --to 16", "elastic", "vision")
    until(lambda: _width(vision, "elastic") == 16, "it works on what it has left")
    until(lambda: person.example.pods("vision") == {"a": 0, "b": 3}, "its other pods have ended")


def _wait_again(person: Person, rai: Resources) -> None:
    """Let a node fail that no spare can replace: the whole run restarts elsewhere."""
    lease = until(lambda: _only_lease(rai, "urgent"), "its lease is an object with its status")
    uid, node = lease["metadata"]["uid"], lease["status"]["slots"][0]["node"]
    person.example.kubelets["rai"].failed_nodes.add(node)
    person.example.nodes.taint(node, OUT_OF_SERVICE)
    until(
        lambda: uid not in {each["metadata"]["uid"] for each in rai.all("GPULease")},
        "its lease has ended",
    )
    rai.until_phase("urgent", "Running")
    until(lambda: person.example.pods("rai") == {"a": 0, "b": 4}, "its pods are bound again")
    again = until(lambda: _only_lease(rai, "urgent"), "its new lease is an object")
    assert node not in {each["node"] for each in again["status"]["slots"]}


def _resolve(person: Person, rai: Resources) -> None:
    """Let an operator free GPUs after the notice: a run above its owner's target ends first."""
    command = "kubectl runs resolve --scope pool=west,flavor=H100,domain=b --deficit 8"
    assert "safe" in person.shell.type(f"{command} --dry-run")
    person.shell.type(command)
    outcome = until(
        lambda: next((each for each in rai.all("ResolverOutcome") if _is_by_hand(each)), None),
        "the GPUs are free",
        tell=lambda: rai.all("ResolverOutcome"),
    )
    (cut,) = outcome["status"]["cuts"]
    assert (cut["step"], cut["run"].rpartition("-")[0], cut["gpus"]) == ("Burst", "safe", 8)


def _width(made: Resources, name: str) -> int:
    return int(made.status("Run", name).get("width", 0))


def _only_lease(made: Resources, run: str) -> dict[str, Any] | None:
    """Return the only lease of a run, if it has a status; None for no lease or several."""
    leases = [each for each in made.all("GPULease") if "status" in each]
    found = [each for each in leases if each["status"]["run"] == run]
    return found[0] if len(found) == 1 else None


def _roles(made: Resources, run: str) -> set[str]:
    """Return the roles of the leases of a run."""
    statuses = [each["status"] for each in made.all("GPULease") if "status" in each]
    return {each["role"] for each in statuses if each["run"] == run}


def _is_cleared(tree: dict[str, Any]) -> bool:
    return bool(tree.get("status", {}).get("outcome") == "Cleared")


def _is_by_hand(tree: dict[str, Any]) -> bool:
    return _is_cleared(tree) and tree["spec"]["cause"] == "ByHand"
