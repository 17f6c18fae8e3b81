"""Which ledger the work in a cluster belongs to, and of which term orders are taken there.

A ConfigMap of the cluster records both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from quorate.adapters.kubernetes.kube_api import CONFLICT, NOT_FOUND, KubeApi, Tree
from quorate.ports.errors import (
    ClusterDownError,
    ClusterError,
    ClusterRefusedError,
    OldTermError,
    WorkFolderError,
)

OWNER_CONFIG: Final = "quorate"
"""The ConfigMap that says which ledger the work in a cluster belongs to."""
TERM: Final = "term"
"""The key of the newest term of which orders were taken."""


class ClusterOwner:
    """The record in the namespace ``home``; read until a ledger has found itself there."""

    def __init__(self, api: KubeApi, home: str) -> None:
        self._api = api
        self._home = home
        self._path = f"/api/v1/namespaces/{home}/configmaps"
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
            found = self._had(self._path, body)
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

    def take_term(self, term: int) -> None:
        """Record that orders of ``term`` are taken; raises ``OldTermError`` after a newer one.

        It is read each time, because another service may lead now. Raises ``ClusterError`` where
        the cluster does not answer or refuses.
        """
        while True:
            found = self._api.get(f"{self._path}/{OWNER_CONFIG}")
            newest = _term_of(found)
            if newest > term:
                raise OldTermError(term=term, newest=newest)
            if newest == term:
                return
            version = (found.get("metadata") or {}).get("resourceVersion")
            patch = {"metadata": {"resourceVersion": version}, "data": {TERM: str(term)}}
            try:
                self._api.merge(f"{self._path}/{OWNER_CONFIG}", patch)
            except ClusterRefusedError as error:
                # Another service has changed it meanwhile: it is read again.
                if error.status != CONFLICT:
                    raise

    def _had(self, path: str, body: Mapping[str, object]) -> str:
        """Return the ledger of the cluster's ConfigMap, which is made where there is none."""
        try:
            found = self._api.get(f"{path}/{OWNER_CONFIG}")
        except ClusterRefusedError as error:
            if error.status != NOT_FOUND:
                raise
            found = self._api.create(path, body)
        return str((found.get("data") or {}).get("ledger", ""))


def _term_of(config: Tree) -> int:
    """Return the term that ``config`` records; raises ``ClusterError`` where it is no number."""
    text = str((config.get("data") or {}).get(TERM, "0"))
    if not text.isdecimal():
        raise ClusterError(
            f"the ConfigMap {OWNER_CONFIG} has the term {text!r}, which is no number; correct it, "
            "or remove it when no service works in this cluster"
        )
    return int(text)
