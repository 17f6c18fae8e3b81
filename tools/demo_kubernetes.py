"""Shows Quorate on a temporary control plane of Kubernetes.

    python -m tools.demo_kubernetes

The command starts etcd, an API server and a controller manager, installs the manifests of deploy/,
and serves a ledger with the permissions of these manifests. Two nodes of 8 GPUs and their kubelets
are simulated. At the end, the command ends all of these programs. If a program is missing, the
command names it and exits with code 3.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from ruamel.yaml import YAML

from quorate.adapters.kubernetes.kube_api import KubeApi
from quorate.adapters.kubernetes.pod_manifest import RUN_LABEL
from tests.bounds import until
from tests.etcd_server import running
from tests.kubernetes.engines import NoProgramsError, Server, api_server, located_programs
from tests.kubernetes.granted import as_account
from tests.kubernetes.kubelet import Kubelet
from tests.kubernetes.played_nodes import PlayedNodes
from tests.service.program import program
from tests.tidy.tree import ROOT

MISSING: Final = 3
"""The exit code if no control plane can be started."""
SPACE: Final = "quorate-vision"
NODES: Final = ("gpu-1", "gpu-2")
MANIFESTS: Final = ("namespace", "rbac", "users", "configmap", "storage", "deployment", "service")
WORLD: Final = """\
apiVersion: quorate.dev/v1
kind: Pool
metadata: {name: here}
spec: {selector: {cluster: here}, executor: kubernetes, cluster: here}
---
apiVersion: quorate.dev/v1
kind: Owner
metadata: {name: vision}
---
apiVersion: quorate.dev/v1
kind: Budget
metadata: {name: vision}
spec:
  owner: vision
  envelopes:
    - {name: here, flavor: H100, selector: {region: us}, concurrency: 16,
       start: 2026-01-01T00:00:00Z, end: 2100-01-01T00:00:00Z}
"""
RUN: Final = """\
apiVersion: quorate.dev/v1
kind: Run
metadata: {{name: {name}}}
spec:
  owner: vision
  pool: here
  resources: {{gpuType: H100, totalGPUs: {gpus}}}
  processes: node
  image: registry.example/vision/train:1.4
  command: [{command}]
  runtime: {{checkpoint: 5s, expectedDuration: 1h}}
"""
_PLACES: Final = {
    "Namespace": "/api/v1/namespaces",
    "ServiceAccount": "/api/v1/namespaces/{0}/serviceaccounts",
    "ConfigMap": "/api/v1/namespaces/{0}/configmaps",
    "PersistentVolumeClaim": "/api/v1/namespaces/{0}/persistentvolumeclaims",
    "Service": "/api/v1/namespaces/{0}/services",
    "Deployment": "/apis/apps/v1/namespaces/{0}/deployments",
    "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/{0}/roles",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/{0}/rolebindings",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
}


def main() -> int:
    """Return the exit code: 0 after the whole demo, ``MISSING`` without a control plane."""
    with TemporaryDirectory(prefix="quorate-demo-") as made:
        folder = Path(made)
        try:
            programs = located_programs(folder / "programs")
        except NoProgramsError as error:
            print(f"nothing to show: {error}")
            return MISSING
        started_s = time.monotonic()
        with ExitStack() as stack:
            _show(stack, programs, folder)
        print(f"\nAll of it has ended, after {time.monotonic() - started_s:.0f} s.")
    return 0


def _show(stack: ExitStack, programs: Path, folder: Path) -> None:
    _say("etcd and the API server are started")
    server = stack.enter_context(api_server(programs, folder))
    api = server.api()
    stack.callback(api.close)
    has_controllers = (programs / "kube-controller-manager").is_file()
    if has_controllers:
        _say("the controller manager is started")
        stack.enter_context(_controllers(programs, folder, server))
    _install(api)
    if has_controllers:
        _show_deployed(api)
    else:
        _say(f"{programs} has no kube-controller-manager: the Deployment stays without a pod")
    _say("two nodes of 8 GPUs, and their kubelets, are played")
    nodes = PlayedNodes(api)
    for name in NODES:
        nodes.add(name, gpus=8, region="us", fabric_domain="a", gpu_flavor="H100")
    kubelet = Kubelet(server.api(), SPACE)
    kubelet.start()
    stack.callback(kubelet.close)
    _say("quorate serve, with the settings and the rights that the manifests give")
    typed = stack.enter_context(_served(server, api, folder))
    _story(api, typed, folder)


def _story(api: KubeApi, typed: _Typed, folder: Path) -> None:
    for name, text in (
        ("fleet", WORLD),
        ("first", RUN.format(name="first", gpus=16, command="stays")),
        ("second", RUN.format(name="second", gpus=8, command="ends, '1500'")),
    ):
        (folder / f"{name}.yaml").write_text(text, "utf-8")
    typed("apply", "-f", "fleet.yaml")
    until(lambda: all(node in typed.quiet("get", "nodes") for node in NODES), "nodes are declared")
    typed("get", "nodes")
    typed("runs", "submit", "--file", "first.yaml")
    _show_pods(api, "first", len(NODES))
    typed("runs", "submit", "--file", "second.yaml")
    typed("runs", "explain", "second")
    typed("runs", "cancel", "first")
    _show_pods(api, "second", 1)
    until(lambda: "Completed" in typed.quiet("get", "run", "second"), "second has completed")
    typed("get", "runs")
    typed("runs", "budgets", "usage")
    typed("ledger", "verify")


def _show_pods(api: KubeApi, run: str, pods: int) -> None:
    """Show the pods of a run when ``pods`` of them work."""

    def at_work() -> list[dict[str, Any]]:
        found, _ = api.list_all(f"/api/v1/namespaces/{SPACE}/pods", f"{RUN_LABEL}={run}")
        return [each for each in found if (each.get("status") or {}).get("phase") == "Running"]

    shown = until(lambda: found if len(found := at_work()) == pods else None, f"{run} works")
    _say(f"{run} works; its pods in the namespace {SPACE}")
    for each in shown:
        print(f"  {each['metadata']['name']:<20} Running   {each['spec']['nodeName']}")


def _install(api: KubeApi) -> None:
    _say("kubectl apply -k deploy/kubernetes, and a namespace for the owner vision")
    for name in MANIFESTS:
        text = (ROOT / "deploy" / "kubernetes" / f"{name}.yaml").read_text("utf-8")
        for tree in YAML(typ="safe", pure=True).load_all(text):
            _make(api, tree)
    _make(api, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}})
    _make(
        api,
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"name": "quorate", "namespace": SPACE},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": "quorate-owner",
            },
            "subjects": [{"kind": "ServiceAccount", "name": "quorate", "namespace": "quorate"}],
        },
    )


def _show_deployed(api: KubeApi) -> None:
    """Show the pod of the service's Deployment; no kubelet exists to start it."""
    path = "/api/v1/namespaces/quorate/pods"
    (pod,) = until(lambda: api.list_all(path)[0], "the Deployment has its pod")
    name = pod["metadata"]["name"]
    _say(f"the Deployment has made the pod {name}; no kubelet starts it, so it is played here")


def _make(api: KubeApi, tree: dict[str, Any]) -> None:
    metadata = tree["metadata"]
    api.create(_PLACES[tree["kind"]].format(metadata.get("namespace")), tree)
    print(f"  {tree['kind'].lower()}/{metadata['name']} created")


@contextmanager
def _controllers(programs: Path, folder: Path, server: Server) -> Iterator[None]:
    """Run the controller manager, without its node controllers, because nodes are simulated."""
    arguments: list[str | Path] = [
        programs / "kube-controller-manager",
        f"--kubeconfig={server.kubeconfig}",
        "--controllers=*,-nodelifecycle",
        "--leader-elect=false",
        "--port=0",
        "--secure-port=0",
    ]
    with running(arguments, folder / "controllers.log"):
        yield


class _Typed:
    """Runs commands of ``quorate`` as if a user typed them."""

    def __init__(self, folder: Path, url: str) -> None:
        self._folder = folder
        token = (folder / "admin.token").read_text("utf-8").strip()
        self._env = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "LC_ALL": "C.UTF-8",
            "QUORATE_SERVER": url,
            "QUORATE_TOKEN": token,
        }

    def __call__(self, *words: str) -> None:
        """Show a command and its output."""
        print(f"\n$ quorate {' '.join(words)}", flush=True)
        print(self.quiet(*words), end="")

    def quiet(self, *words: str) -> str:
        """Return the output of a command; raises ``CalledProcessError`` if it is refused."""
        command: Sequence[str] = [sys.executable, "-m", "quorate", *words]
        done = subprocess.run(  # noqa: S603 - this project's own command
            command, cwd=self._folder, env=self._env, capture_output=True, text=True, check=True
        )
        return done.stdout


@contextmanager
def _served(server: Server, api: KubeApi, folder: Path) -> Iterator[_Typed]:
    settings = api.get("/api/v1/namespaces/quorate/configmaps/quorate-settings")["data"]
    (folder / "settings.toml").write_text(settings["quorate.toml"], "utf-8")
    service = as_account(server, "quorate", folder)
    words = (
        *("--config", "settings.toml", "--init", "--token-file", "admin.token"),
        *("--ledger", "quorate.db", "--kubernetes-clusters", f"here={service.kubeconfig}"),
    )
    with program(folder, *words) as served:
        url = served.wait_ready()
        until((folder / "admin.token").is_file, "the first token is kept")
        yield _Typed(folder, url)
        served.end()


def _say(what: str) -> None:
    print(f"\n== {what}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
