"""The rights that deploy/ gives the service, granted to a service account of a test."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from quorate.adapters.kubernetes.kube_api import CONFLICT, KubeApi
from quorate.ports.errors import ClusterRefusedError
from tests.kubernetes.engines import TOKEN, Server
from tests.tidy.tree import ROOT

RBAC = ROOT / "deploy" / "kubernetes" / "rbac.yaml"
_GROUP = "/apis/rbac.authorization.k8s.io/v1"


def grant(server: Server, home: str, spaces: Iterable[str], folder: Path) -> Server:
    """Return ``server`` as the service account ``quorate`` of ``home`` sees it.

    Its rights are those of deploy/kubernetes/rbac.yaml, with ``home`` in the place of the namespace
    ``quorate``, and the role of owners bound in ``spaces``.
    """
    api = server.api()
    try:
        for tree in YAML(typ="safe", pure=True).load_all(RBAC.read_text("utf-8")):
            _create(api, _moved(tree, home))
        for space in spaces:
            binding = {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "RoleBinding",
                "metadata": {"name": "quorate", "namespace": space},
                "roleRef": {
                    "apiGroup": "rbac.authorization.k8s.io",
                    "kind": "ClusterRole",
                    "name": "quorate-owner",
                },
                "subjects": [{"kind": "ServiceAccount", "name": "quorate", "namespace": home}],
            }
            _create(api, binding)
    finally:
        api.close()
    return as_account(server, home, folder)


def as_account(server: Server, home: str, folder: Path) -> Server:
    """Return ``server`` as the service account ``quorate`` of ``home`` sees it."""
    api = server.api()
    path = f"/api/v1/namespaces/{home}/serviceaccounts/quorate/token"
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token = api.create(path, body)["status"]["token"]
    api.close()
    text = server.kubeconfig.read_text("utf-8")
    assert f"token: {TOKEN}" in text
    kubeconfig = folder / f"{home}.kubeconfig"
    kubeconfig.write_text(text.replace(f"token: {TOKEN}", f"token: {token}"), "utf-8")
    return Server(kubeconfig=kubeconfig)


def _moved(tree: dict[str, Any], home: str) -> dict[str, Any]:
    """Return an object as it is when Quorate's own namespace is ``home``."""
    metadata = dict(tree["metadata"])
    if metadata.get("namespace") == "quorate":
        metadata["namespace"] = home
    elif tree["kind"] == "ClusterRoleBinding":
        metadata["name"] = f"quorate-{home}"
    moved = {**tree, "metadata": metadata}
    if "subjects" in tree:
        moved["subjects"] = [{**each, "namespace": home} for each in tree["subjects"]]
    return moved


def _create(api: KubeApi, tree: dict[str, Any]) -> None:
    """Make an object; those of the whole cluster may be there from another test."""
    namespace = tree["metadata"].get("namespace")
    group = "/api/v1" if tree["apiVersion"] == "v1" else _GROUP
    place = "" if namespace is None else f"/namespaces/{namespace}"
    try:
        api.create(f"{group}{place}/{tree['kind'].lower()}s", tree)
    except ClusterRefusedError as error:
        if error.status != CONFLICT:
            raise
