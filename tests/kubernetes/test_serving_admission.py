"""A service that answers a real API server's admission reviews of custom resources."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from quorate.adapters.kubernetes.cluster_access import ClusterAccess
from quorate.adapters.kubernetes.kube_api import KubeApi
from quorate.documents.text_source import read_source
from quorate.ports.errors import ClusterError, ClusterRefusedError
from tests.bounds import until
from tests.kubernetes.engines import Server
from tests.kubernetes.resources import Resources, installed
from tests.service.certificates import certificate
from tests.service.program import Program, program
from tests.tidy.tree import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("only_resources")]

SPACES = ("adm-rai", "adm-vision", "adm-home")
HOOKS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
HOOK = "adm-quorate"
BINDINGS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
WORK = {"owner": "rai", "resources": {"gpuType": "F", "totalGPUs": 8}}
FORBIDDEN = 403


@dataclass(frozen=True, kw_only=True)
class As(ClusterAccess):
    """The access of an administrator who impersonates ``user``."""

    user: str

    def headers(self) -> dict[str, str]:
        return {**super().headers(), "Impersonate-User": self.user}


@pytest.fixture
def made(cluster: Server) -> Iterator[Resources]:
    api = installed(cluster)
    for name in SPACES:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        api.apply(f"/api/v1/namespaces/{name}", body)
    # The cluster permits everything here, so that only admission decides.
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "adm-ada"},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": "cluster-admin",
        },
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "ada"}],
    }
    api.apply(f"{BINDINGS}/adm-ada", binding)
    found = Resources(api, SPACES[0])
    yield found
    api.delete(f"{HOOKS}/{HOOK}")
    api.delete(f"{BINDINGS}/adm-ada")
    until(lambda: _cleared(found), "all resources are gone")
    api.close()


def _cleared(made: Resources) -> bool:
    """Remove every resource; return whether that worked: a webhook stays active for a moment."""
    try:
        made.clear()
    except ClusterError:
        return False
    return True


def hook(service: Program, authority: Path) -> dict[str, Any]:
    """Return the shipped webhook, for a service on this machine."""
    sources = read_source((ROOT / "deploy" / "admission" / "webhook.yaml").read_text("utf-8"))
    assert isinstance(sources, tuple), sources
    tree: Any = sources[0].tree
    said = until(
        lambda: re.search(r"admission at (?:https://)?127\.0\.0\.1:(\d+)(/\S+)", service.err),
        "the service says where it answers",
        server=service.process,
        tell=lambda: service.err,
    )
    # The commands of the page install a webhook with its own name, perhaps at the same time.
    tree["metadata"]["name"] = HOOK
    (only,) = tree["webhooks"]
    only["clientConfig"] = {
        "url": f"https://localhost:{said[1]}{said[2]}",
        "caBundle": base64.b64encode(authority.read_bytes()).decode("ascii"),
    }
    return dict(tree)


def refused(call: Any) -> str:
    """Return why the API server refuses a call."""
    with pytest.raises(ClusterRefusedError) as told:
        call()
    assert told.value.status == FORBIDDEN
    return str(told.value)


@pytest.mark.soak
def test_people_write_neither_a_status_nor_what_is_of_others(
    cluster: Server, made: Resources, tmp_path: Path
) -> None:
    cert, key = certificate(tmp_path)
    access = cluster.access
    ada = KubeApi(As(server=access.server, trust=access.trust, token=access.token, user="ada"))
    own = Resources(ada, SPACES[0])
    words = (
        *("--kubernetes-clusters", f"west={cluster.kubeconfig}"),
        *("--kubernetes-namespace", "adm-{owner}", "--kubernetes-home", SPACES[2]),
        *("--kubernetes-resources", "west", "--kubernetes-account", "admin"),
        *("--kubernetes-admission", "127.0.0.1:0", "--tls-cert", str(cert), "--tls-key", str(key)),
    )
    with program(tmp_path, *words, listen="127.0.0.1:0") as service:
        service.wait_ready()
        made.api.create(HOOKS, hook(service, cert))

        def is_asked() -> bool:
            try:
                own.create("GPULease", "mine", {})
            except ClusterRefusedError as error:
                return error.status == FORBIDDEN
            ada.delete(own.path("GPULease", "mine"))
            return False

        until(is_asked, "the API server asks before it writes")
        made.create("Owner", "rai", {})
        own.create("Run", "mine", WORK)
        tree = made.get("Run", "mine")
        assert tree is not None
        assert tree["metadata"]["annotations"] == {"quorate.dev/user": "ada"}
        made.until_phase("mine", "Pending")
        path = own.path("Run", "mine")
        assert "only Quorate writes this subresource" in refused(
            lambda: ada.merge(f"{path}/status", {"status": {"phase": "Completed"}})
        )
        assert "cannot be changed" in refused(
            lambda: ada.merge(path, {"metadata": {"annotations": {"quorate.dev/user": "eve"}}})
        )
        assert "metadata.finalizers" in refused(
            lambda: ada.merge(path, {"metadata": {"finalizers": []}})
        )
        assert "not in adm-rai" in refused(
            lambda: own.create("Run", "theirs", {**WORK, "owner": "vision"})
        )
        assert "must be 'ada'" in refused(lambda: own.create("Run", "as", WORK, user="eve"))
        assert "only Quorate writes" in refused(
            lambda: own.create(
                "ResolverOutcome",
                "mine",
                {
                    "cause": "Reservation",
                    "deficit": 1,
                    "short": 1,
                    "sizeMax": 1,
                    "attempt": 1,
                    "preimageIndex": 1,
                    "commitment": "",
                    "tokens": [],
                    "scope": {"pool": "p", "flavor": "F", "domains": []},
                    "declared": "2026-01-01T00:00:00Z",
                    "due": "2026-01-01T00:00:00Z",
                },
            )
        )
        own.delete("Run", "mine")
        made.until_gone("Run", "mine")
        assert service.end() == 0
    ada.close()
