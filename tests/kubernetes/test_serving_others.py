"""Manifests for other schedulers, as custom resources of a real control plane.

The example of Kueue is imported and applied with ``kubectl``. Jobtree's cases, which are beside the
checkout, are created unchanged, and are accepted or refused with a reason.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from quorate.model.api_version import API_VERSION
from quorate.ports.errors import ClusterRefusedError
from tests.bounds import until
from tests.cli.shell import EXAMPLES, Shell
from tests.etcd_server import locked
from tests.kubernetes.engines import Server
from tests.kubernetes.kubelet import Kubelet
from tests.kubernetes.played_nodes import PlayedNodes
from tests.kubernetes.resources import Resources, installed
from tests.service.program import program
from tests.tidy.tree import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

CASES = ROOT.parent / "shared" / "conformance" / "jobtree" / "head-validate.json"
HOME = "other-home"
TEMPLATE = "other-{owner}"
OWNERS = ("vision", "speech")
PLACE = {"region": "us", "fabric_domain": "block-1", "gpu_flavor": "H100"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A cluster of 5 nodes of 8 GPUs, and a service that follows its resources."""

    kubeconfig: Path
    of: dict[str, Resources]

    def kubectl(self, *words: str, text: str) -> subprocess.CompletedProcess[str]:
        """Return the result of ``kubectl`` with ``text`` on its standard input."""
        return subprocess.run(
            ["kubectl", "--kubeconfig", self.kubeconfig, *words],
            input=text,
            capture_output=True,
            text=True,
            check=False,
        )

    def pods(self, owner: str) -> list[dict[str, Any]]:
        path = f"/api/v1/namespaces/other-{owner}/pods"
        return self.of[owner].api.list_all(path)[0]


@pytest.fixture(scope="module")
def site(cluster: Server, shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    if shutil.which("kubectl") is None:
        pytest.skip("there is no kubectl on the path")
    with ExitStack() as stack:
        for name in ("resources", "gpu-nodes"):
            (shared / name).mkdir(exist_ok=True)
            stack.enter_context(locked(shared / name))
        api = installed(cluster)
        stack.callback(api.close)
        of = {owner: Resources(api, f"other-{owner}") for owner in OWNERS}
        for name in (HOME, *(each.namespace for each in of.values())):
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            api.apply(f"/api/v1/namespaces/{name}", body)
        nodes = PlayedNodes(api)
        stack.callback(nodes.remove_all)
        for number in range(5):
            nodes.add(f"other-{number}", gpus=8, **PLACE)
        stack.callback(of["vision"].clear)
        for each in of.values():
            kubelet = Kubelet(cluster.api(), each.namespace)
            stack.callback(kubelet.close)
            kubelet.start()
        words = (
            *("--kubernetes-clusters", f"west={cluster.kubeconfig}"),
            *("--kubernetes-namespace", TEMPLATE, "--kubernetes-home", HOME),
            *("--kubernetes-resources", "west", "--kubernetes-declare-nodes", "west"),
        )
        service = stack.enter_context(program(tmp_path_factory.mktemp("service"), *words))
        service.wait_ready()
        yield Site(kubeconfig=cluster.kubeconfig, of=of)


@pytest.mark.soak
def test_manifests_of_kueue_become_resources_that_run_as_pods(
    site: Site, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = Shell(tmp_path, capsys)(
        *("import", "kueue", EXAMPLES / "kueue" / "kueue.yaml"),
        *("--cluster", "west", "--namespace", TEMPLATE),
        *("--start", "2026-01-01T00:00:00Z", "--end", "2100-01-01T00:00:00Z"),
    )
    assert said.code == 0, said
    done = site.kubectl("apply", "-f", "-", text=said.out)
    assert done.returncode == 0, done.stderr
    vision, speech = site.of["vision"], site.of["speech"]
    vision.until_phase("pretrain", "Running")
    speech.until_phase("sweep", "Running")
    assert vision.status("Run", "pretrain")["width"] == 32
    until(lambda: len(site.pods("vision")) == 4, "a pod of each node works on it")
    until(lambda: len(site.pods("speech")) == 8, "a pod of each GPU works on it")
    (pod,) = site.pods("vision")[:1]
    container = pod["spec"]["containers"][0]
    assert container["image"] == "registry.example/vision/train:1.4"
    assert container["resources"]["requests"]["memory"] == "256Gi"
    # Kueue's Workload without GPUs becomes no run, and the import says so.
    assert "Workload/tokenize: spec: asks for no GPUs" in said.err
    assert speech.get("Run", "tokenize") is None


FIELDS = {
    "budget/aggregate-cap-missing-flavor": "aggregateCaps.flavor",
    "budget/aggregate-cap-references-unknown-envelope": "aggregateCaps.maxConcurrency",
    "budget/aggregate-cap-with-no-envelope-references": "aggregateCaps.envelopes",
    "budget/duplicate-aggregate-cap-names": "aggregateCaps.maxConcurrency",
    "budget/envelope-invalid-sharing-mode": "envelopes.sharing",
    "budget/envelope-missing-selector": "envelopes.selector",
    "budget/envelope-non-positive-concurrency": "envelopes.concurrency",
    "budget/envelope-window-inverted": "envelopes[0].end",
    "budget/half-windowed-envelope-end-with-no-start": "envelopes.start",
    "budget/lending-non-positive-maxconcurrency": "lending.maxConcurrency",
    "budget/no-envelopes": "spec.envelopes",
    "run/desired-outside-malleable-bounds": "malleable.desiredTotalGPUs",
    "run/follow-bad-policy": "follow.onUpstreamFailure",
    "run/follow-dup": "follow.after",
    "run/follow-empty": "follow.after",
    "run/follow-self": "follow.after",
    "run/malleable-min-above-max": "malleable.minTotalGPUs",
    "run/malleable-non-positive-step": "malleable.stepGPUs",
    "run/missing-gputype": "resources.gpuType",
    "run/non-positive-groupgpus": "locality.groupGPUs",
    "run/non-positive-maxborrowgpus": "funding.maxBorrowGPUs",
    "run/role-width-mismatch": "roles",
    "run/total-below-malleable-min": "resources.totalGPUs",
}
"""For each case that Jobtree refuses: the field for which Quorate refuses it."""


@pytest.mark.skipif(not CASES.is_file(), reason="the peer's cases are not beside this checkout")
def test_the_peers_manifests_are_taken_or_refused_with_a_reason(site: Site) -> None:
    made = site.of["vision"]
    for owner in OWNERS:
        if made.get("Owner", owner) is None:
            made.create("Owner", owner, {})
    # Owners are named after namespaces here.
    text = CASES.read_text("utf-8").replace("org:ai:rai", "vision").replace("org:ai:mm", "speech")
    refused: dict[str, str] = {}
    for case in json.loads(text):
        kind, manifest = case["input"]["kind"], case["input"]["manifest"]
        if kind == "Reservation":
            continue  # Only Quorate writes these kinds: test_least_rights.py.
        name = manifest.get("metadata", {}).get("name", "a")
        why = _refusal(site, kind, name, {"owner": "vision"} | manifest["spec"])
        if why:
            refused[case["id"].removeprefix("validate/")] = why
        assert bool(why) is not case["expect"]["ok"], (case["id"], why)
    assert refused.keys() == FIELDS.keys()
    assert {name: why for name, why in refused.items() if FIELDS[name] not in why} == {}


def _refusal(site: Site, kind: str, name: str, spec: dict[str, Any]) -> str:
    """Return why the API server or the service refuses a manifest; empty if it is accepted.

    Afterwards the declared resource is removed.
    """
    made = site.of["vision"]
    if "roles" in spec:  # kubectl reports an unknown field.
        body = {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": name}, "spec": spec}
        done = site.kubectl("apply", "-n", made.namespace, "-f", "-", text=json.dumps(body))
        return done.stderr
    try:
        made.create(kind, name, spec)
    except ClusterRefusedError as error:
        return str(error)

    def judged() -> dict[str, Any] | None:
        for each in made.status(kind, name).get("conditions") or ():
            if each["type"] == "Accepted" and each["reason"] != "Pending":
                return dict(each)
        return None

    found = until(judged, f"{kind} {name} is judged", tell=lambda: made.get(kind, name))
    made.delete(kind, name)
    made.until_gone(kind, name)
    assert (found["status"] == "False") is bool(found.get("message")), found
    message = str(found.get("message", ""))
    assert not message or message.startswith("spec."), message
    return message
