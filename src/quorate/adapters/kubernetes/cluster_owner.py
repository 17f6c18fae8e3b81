"""Which ledger the work in a cluster belongs to, as a ConfigMap there records it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from quorate.adapters.kubernetes.kube_api import NOT_FOUND, KubeApi
from quorate.ports.errors import (
    ClusterDownError,
    ClusterError,
    ClusterRefusedError,
    WorkFolderError,
)

OWNER_CONFIG: Final = "quorate"
"""The ConfigMap that says which ledger the work in a cluster belongs to."""


class ClusterOwner:
    """The record in the namespace ``home``; read until a ledger has found itself there."""

    def __init__(self, api: KubeApi, home: str) -> None:
        self._api = api
        self._home = home
        self._found = ""

    def check(self, ledger_id: str) -> None:
        """Record that the work in the cluster is of ``ledger_id``, unless that was seen before.

        Raises ``WorkFolderError`` where it is of another ledger or nothing can be recorded, and
        ``ClusterDownError`` where the cluster does not answer.
        """
        if self._found == ledger_id:
            return
        home = self._home
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": OWNER_CONFIG, "namespace": home},
            "data": {"ledger": ledger_id},
        }
        try:
            found = self._had(f"/api/v1/namespaces/{home}/configmaps", body)
        except ClusterDownError:
            raise
        except ClusterError as error:
            raise WorkFolderError(
                f"the cluster cannot be used for work: {error}; it needs the namespace {home}, and "
                "the service the right to make a ConfigMap there"
            ) from None
        if found != ledger_id:
            raise WorkFolderError(
                f"the cluster has the work of another ledger, {found}; when none of it is left, "
                f"delete the ConfigMap {OWNER_CONFIG} in the namespace {home}"
            )
        self._found = found

    def _had(self, path: str, body: Mapping[str, object]) -> str:
        """Return the ledger of the cluster's ConfigMap, which is made where there is none."""
        try:
            found = self._api.get(f"{path}/{OWNER_CONFIG}")
        except ClusterRefusedError as error:
            if error.status != NOT_FOUND:
                raise
            found = self._api.create(path, body)
        return str((found.get("data") or {}).get("ledger", ""))
