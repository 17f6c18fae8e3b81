"""The commands of "Install on your cluster", run against a real API server.

There is no kubelet here, so instead of the service's pod, ``quorate serve`` runs with the settings
and the service account of the manifests.
"""

from __future__ import annotations

import re
import shutil
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path

import pytest

from quorate.adapters.kubernetes.kube_api import KubeApi
from tests.bounds import until
from tests.kubernetes.engines import Server
from tests.kubernetes.granted import as_account
from tests.kubernetes.kubelet import Kubelet
from tests.kubernetes.played_jobs import DEFINITIONS
from tests.kubernetes.played_nodes import PlayedNodes
from tests.kubernetes.typed import Shell
from tests.service.program import program
from tests.tidy.rendered_chart import rendered
from tests.tidy.tree import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

PAGE = (ROOT / "docs" / "kubernetes.md").read_text("utf-8")
SECTION = PAGE.partition("## Install on your cluster\n")[2].partition("\n## ")[0]
FENCED = re.findall(r"```(\w*)\n(.*?)```", SECTION, flags=re.DOTALL)
BLOCKS = [text for kind, text in FENCED if kind == "sh"]
FILES = {text.splitlines()[0].removeprefix("# "): text for kind, text in FENCED if kind == "yaml"}
PLAIN = "".join(text for kind, text in FENCED if not kind)
SPACE = "quorate-vision"


@pytest.fixture
def admin(cluster: Server, only_gpu_nodes: None) -> Iterator[KubeApi]:
    del only_gpu_nodes
    if shutil.which("kubectl") is None:
        pytest.skip("there is no kubectl on the path")
    api = cluster.api()
    nodes = PlayedNodes(api)
    for name in ("gpu-1", "gpu-2"):
        nodes.add(name, gpus=8)
    kubelet = Kubelet(cluster.api(), SPACE)
    kubelet.start()
    yield api
    kubelet.close()
    nodes.remove_all()
    api.close()


@pytest.mark.soak
def test_every_command_that_needs_no_kubelet_works_as_it_stands(
    cluster: Server, admin: KubeApi, tmp_path: Path
) -> None:
    assert [line.split()[:2] for line in PLAIN.splitlines()] == [
        ["podman", "build"],
        ["podman", "push"],
        ["kubectl", "rollout"],
        ["kubectl", "exec"],
        ["kubectl", "port-forward"],
    ]
    shell = Shell(tmp_path, cluster.kubeconfig)
    install, people, label, use = BLOCKS
    assert shell.type(install).splitlines()[-1] == "yes"
    shell.type(people)
    shell.type(label)
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, "utf-8")
    settings = admin.get("/api/v1/namespaces/quorate/configmaps/quorate-settings")["data"]
    service = as_account(cluster, "quorate", tmp_path)
    words = (
        *("--config", "settings.toml", "--init", "--token-file", "admin.token"),
        *("--ledger", "quorate.db", "--kubernetes-clusters", f"here={service.kubeconfig}"),
    )
    (tmp_path / "settings.toml").write_text(settings["quorate.toml"], "utf-8")
    with program(tmp_path, *words) as served:
        url = served.wait_ready()
        setting, using, apply, nodes, *rest = use.replace("http://127.0.0.1:8414", url).splitlines()
        shell.type(f"{setting}\n{using}\n{apply}")
        until(lambda: shell.type(nodes).count("H100") == 2, "both nodes are declared")
        *before, pods, cancel = rest
        assert "run/hello started on 16 H100 GPUs" in shell.type("\n".join(before))
        until(
            lambda: shell.type(pods).count("Running") == 2,
            "both pods work",
            tell=lambda: served.err,
        )
        shell.type(cancel)
        until(lambda: not admin.list_all(f"/api/v1/namespaces/{SPACE}/pods")[0], "no pod is left")
        assert shell.type("quorate get run hello -o jsonpath='{.status.phase}'") == "Cancelled\n"
        served.end()


def test_the_monitoring_manifests_are_taken_where_the_operator_is(
    cluster: Server, admin: KubeApi, tmp_path: Path
) -> None:
    shell = Shell(tmp_path, cluster.kubeconfig)
    name = "servicemonitors.monitoring.coreos.com"
    body = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": name},
        "spec": {
            "group": "monitoring.coreos.com",
            "scope": "Namespaced",
            "names": {"plural": "servicemonitors", "kind": "ServiceMonitor"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {
                        "openAPIV3Schema": {
                            "type": "object",
                            "x-kubernetes-preserve-unknown-fields": True,
                        }
                    },
                }
            ],
        },
    }
    admin.create(DEFINITIONS, body)
    shell.type(f"kubectl wait --for=condition=established crd/{name} --timeout=60s")
    shell.type("kubectl apply -k deploy/kubernetes")
    shell.type("kubectl apply -k deploy/kubernetes/monitoring")
    path = "/apis/monitoring.coreos.com/v1/namespaces/quorate/servicemonitors/quorate"
    assert admin.get(path)["spec"]["endpoints"][0]["path"] == "/metrics"


def test_what_the_chart_installs_is_taken_by_the_api_server(
    cluster: Server, admin: KubeApi, tmp_path: Path
) -> None:
    shell = Shell(tmp_path, cluster.kubeconfig)
    for name in ("chart-home", "quorate-chart"):
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        admin.apply(f"/api/v1/namespaces/{name}", body)
    text = rendered(tmp_path, "chart-home", owners=["chart"], admission=True, caBundle="Y2E=")
    (tmp_path / "chart.yaml").write_text(text, "utf-8")
    said = shell.type("kubectl apply --dry-run=server -f chart.yaml").splitlines()
    assert len(said) == text.count("\nkind: ")
    assert all("(server dry run)" in line for line in said)


@pytest.mark.soak
def test_the_commands_that_install_admission_work_as_they_stand(
    cluster: Server, admin: KubeApi, tmp_path: Path
) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl on the path")
    shell = Shell(tmp_path, cluster.kubeconfig)
    section = PAGE.partition("### Who may write what\n")[2].partition("\n## ")[0]
    (block,) = re.findall(r"```\n(openssl .*?)```", section, flags=re.DOTALL)
    # A copy is used, because the certificate is written into the manifests. It is a server-side dry
    # run: the webhook would call a missing service in other tests, too.
    (tmp_path / "deploy").unlink()
    shutil.copytree(ROOT / "deploy", tmp_path / "deploy")
    typed = block.replace("kubectl apply", "kubectl apply --dry-run=server").replace(
        "kubectl create namespace quorate\n",
        "kubectl create namespace quorate --dry-run=client -o yaml | kubectl apply -f -\n",
    )
    said = shell.type(typed)
    assert "secret/quorate-tls created" in said
    assert "mutatingwebhookconfiguration.admissionregistration.k8s.io/quorate" in said
    hook = (tmp_path / "deploy" / "admission" / "webhook.yaml").read_text("utf-8")
    (bundle,) = re.findall(r"caBundle: (\S+)", hook)
    assert b64decode(bundle) == (tmp_path / "tls.crt").read_bytes()
    admin.delete("/api/v1/namespaces/quorate/secrets/quorate-tls")
