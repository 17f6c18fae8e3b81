"""The permissions that deploy/ gives the service, granted to a service account of a test."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from quorate.adapters.kubernetes.kube_api import CONFLICT, KubeApi
from quorate.ports.errors import ClusterRefusedError
from tests.kubernetes.engines import TOKEN, Server
from tests.tidy.tree import ROOT

MANIFESTS = ROOT / "deploy" / "kubernetes"
_GROUP = "/apis/rbac.authorization.k8s.io/v1"


def grant(server: Server, home: str, spaces: Iterable[str], folder: Path) -> Server:
    """Return access to ``server`` as the service account ``quorate`` of ``home``.

    Its permissions are those of deploy/kubernetes/rbac.yaml, with ``home`` instead of the namespace
    ``quorate``, and with the role for owners' namespaces bound in ``spaces``.
    """
    api = server.api()
    try:
        for tree in _documents("rbac.yaml"):
            _create(api, _moved(tree, home))
        for space in spaces:
            _create(api, _binding("quorate-owner", space, home))
    finally:
        api.close()
    return as_account(server, home, folder)


def grant_user(server: Server, space: str, folder: Path) -> Server:
    """Return access to ``server`` as a member of the team with the namespace ``space``.

    The member is a service account ``quorate`` in ``space``, with the roles of users.yaml.
    """
    api = server.api()
    try:
        for tree in _documents("users.yaml"):
            _create(api, tree)
        account = {"name": "quorate", "namespace": space}
        _create(api, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account})
        _create(api, _binding("quorate-user", space, space))
    finally:
        api.close()
    return as_account(server, space, folder)


def _documents(name: str) -> Iterable[dict[str, Any]]:
    found: Iterable[dict[str, Any]] = YAML(typ="safe", pure=True).load_all(
        (MANIFESTS / name).read_text("utf-8")
    )
    return found


def _binding(role: str, space: str, home: str) -> dict[str, Any]:
    """Return the binding of a role in ``space`` to the service account of ``home``."""
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": role, "namespace": space},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": role,
        },
        "subjects": [{"kind": "ServiceAccount", "name": "quorate", "namespace": home}],
    }


def as_account(server: Server, home: str, folder: Path) -> Server:
    """Return access to ``server`` as the service account ``quorate`` of ``home``."""
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
    """Return a manifest with ``home`` as Quorate's own namespace."""
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
    """Create an object; a cluster-wide object may exist from another test."""
    namespace = tree["metadata"].get("namespace")
    group = "/api/v1" if tree["apiVersion"] == "v1" else _GROUP
    place = "" if namespace is None else f"/namespaces/{namespace}"
    try:
        api.create(f"{group}{place}/{tree['kind'].lower()}s", tree)
    except ClusterRefusedError as error:
        if error.status != CONFLICT:
            raise
