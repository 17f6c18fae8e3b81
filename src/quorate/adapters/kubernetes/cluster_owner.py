"""A ConfigMap that records which ledger owns the work in a cluster, and the newest term.

The ConfigMap also records the name that the ledger's services have for the cluster. A cluster with
two names would have two executors, and each executor would delete the pods of the other executor.
"""

from __future__ import annotations

import logging
from typing import Final

from quorate.adapters.kubernetes.kube_api import CONFLICT, NOT_FOUND, KubeApi, Tree
from quorate.ports.errors import (
    ClusterDownError,
    ClusterError,
    ClusterRefusedError,
    OldTermError,
    WorkFolderError,
)

_LOG = logging.getLogger(__name__)

OWNER_CONFIG: Final = "quorate"
"""The ConfigMap with the id of the ledger that owns the work in a cluster."""
CLUSTER: Final = "cluster"
"""The key with the name that the configuration of the ledger's services gives the cluster."""
TERM: Final = "term"
"""The key with the newest term of all accepted orders."""


class ClusterOwner:
    """The ConfigMap in the namespace ``home``.

    ``cluster`` is the cluster's name in the configuration of the ledger's services.
    """

    def __init__(self, api: KubeApi, home: str, cluster: str) -> None:
        self._api = api
        self._home = home
        self._cluster = cluster
        self._path = f"/api/v1/namespaces/{home}/configmaps"
        self._found = ""

    def check(self, ledger_id: str) -> None:
        """Record ``ledger_id`` as the owner of the work in the cluster.

        Raises ``WorkFolderError`` if another ledger owns the work, if the recorded cluster name
        differs, or if the record cannot be written. Raises ``ClusterDownError`` if the cluster does
        not answer. After a successful check, further calls do nothing.
        """
        if self._found == ledger_id:
            return
        home = self._home
        try:
            found, name = self._had(ledger_id)
        except ClusterDownError:
            raise
        except ClusterError as error:
            raise WorkFolderError(
                f"the cluster cannot be used for work: {error}; it needs the namespace {home}, "
                f"and the service needs permission to create a ConfigMap there"
            ) from None
        if found != ledger_id:
            raise WorkFolderError(
                f"the cluster runs work of another ledger, {found}; once that work has ended, "
                f"delete the ConfigMap {OWNER_CONFIG} in the namespace {home}"
            )
        if name != self._cluster:
            raise WorkFolderError(
                f"kubernetes.clusters: {self._cluster} is a cluster that is already configured as "
                f"{name}; give each cluster one name. To rename a cluster, end its runs, and "
                f"delete the ConfigMap {OWNER_CONFIG} in the namespace {home}"
            )
        self._found = found

    def take_term(self, term: int) -> None:
        """Record that orders of ``term`` are accepted.

        Raises ``OldTermError`` if the ConfigMap has a newer term, and ``ClusterError`` if the
        cluster does not answer, or refuses a request. The ConfigMap is read in each call, because
        another service may lead now.
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
                # Another service changed the ConfigMap after the read, so read it again.
                if error.status != CONFLICT:
                    raise

    def _had(self, ledger_id: str) -> tuple[str, str]:
        """Return the ledger and the cluster name in the ConfigMap, which is created if missing.

        If an earlier version created the ConfigMap without a cluster name, the name is added.
        """
        while True:
            try:
                found = self._read_or_made(ledger_id)
                data = found.get("data") or {}
                ledger, name = str(data.get("ledger", "")), str(data.get(CLUSTER, ""))
                if name or ledger != ledger_id:
                    return ledger, name
                version = (found.get("metadata") or {}).get("resourceVersion")
                patch = {"metadata": {"resourceVersion": version}, "data": {CLUSTER: self._cluster}}
                self._api.merge(f"{self._path}/{OWNER_CONFIG}", patch)
            except ClusterRefusedError as error:
                # Another service created or changed the ConfigMap after the read, so read it again.
                if error.status != CONFLICT:
                    raise

    def _read_or_made(self, ledger_id: str) -> Tree:
        try:
            return self._api.get(f"{self._path}/{OWNER_CONFIG}")
        except ClusterRefusedError as error:
            if error.status != NOT_FOUND:
                raise
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": OWNER_CONFIG, "namespace": self._home},
            "data": {"ledger": ledger_id, CLUSTER: self._cluster},
        }
        return self._api.create(self._path, body)


class TermInCluster:
    """The term of a service's orders to a cluster, checked against the record of ``owner``."""

    def __init__(self, owner: ClusterOwner) -> None:
        self._owner = owner
        # The term of the last orders, and the newest known term.
        self._term = self._newest = 0
        self.deposed = ""
        """Why this service may not give orders to the cluster; empty while it may."""

    def order(self, term: int) -> None:
        """Accept orders of ``term``; raises ``OldTermError`` if a newer term is known.

        The cluster may have a newer term that this service does not know; ``check`` finds the newer
        term before anything is changed in the cluster.
        """
        if term < self._newest:
            raise OldTermError(term=term, newest=self._newest)
        self._term = self._newest = term
        self.deposed = ""

    def check(self) -> None:
        """Raise ``OldTermError`` unless the cluster accepts orders of this service's term."""
        try:
            self._owner.take_term(self._term)
        except OldTermError as error:
            self._newest = max(self._newest, error.newest)
            raise

    def leads(self) -> bool | None:
        """Return whether the cluster still accepts orders of this service's term.

        None means that the cluster did not answer. A ledger with one writer has no terms, so the
        service of such a ledger always leads. The owner of the work is not checked here, because
        ``check`` of ``ClusterOwner`` was called before the pods were listed.
        """
        if not self._term:
            return True
        try:
            self.check()
        except OldTermError as error:
            self.deposed = str(error)
            return False
        except ClusterError as error:
            _LOG.warning("it is unknown which service leads in the cluster: %s", error)
            return None
        return True


def _term_of(config: Tree) -> int:
    """Return the term that ``config`` records; raises ``ClusterError`` if it is not a number."""
    text = str((config.get("data") or {}).get(TERM, "0"))
    if not text.isdecimal():
        raise ClusterError(
            f"the ConfigMap {OWNER_CONFIG} has the term {text!r}, which is not a number; correct "
            f"the term, or remove it when no service works in this cluster"
        )
    return int(text)
