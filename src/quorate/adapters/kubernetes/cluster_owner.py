"""Which ledger the work in a cluster belongs to, and of which term orders are taken there.

A ConfigMap of the cluster records both, and what the ledger calls the cluster: one that had two
names would have two executors, and each would end the pods of the other.
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
"""The ConfigMap that says which ledger the work in a cluster belongs to."""
CLUSTER: Final = "cluster"
"""The key of the name that the cluster has in the configuration of its services."""
TERM: Final = "term"
"""The key of the newest term of which orders were taken."""


class ClusterOwner:
    """The record in the namespace ``home``; read until a ledger has found itself there.

    ``cluster`` is what the services of that ledger call the cluster.
    """

    def __init__(self, api: KubeApi, home: str, cluster: str) -> None:
        self._api = api
        self._home = home
        self._cluster = cluster
        self._path = f"/api/v1/namespaces/{home}/configmaps"
        self._found = ""

    def check(self, ledger_id: str) -> None:
        """Record that the work in the cluster is of ``ledger_id``, unless that was seen before.

        Raises ``WorkFolderError`` where it is of another ledger, has another name there or nothing
        can be recorded, and ``ClusterDownError`` where the cluster does not answer.
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
                f"the cluster cannot be used for work: {error}; it needs the namespace {home}, and "
                "the service the right to make a ConfigMap there"
            ) from None
        if found != ledger_id:
            raise WorkFolderError(
                f"the cluster has the work of another ledger, {found}; when none of it is left, "
                f"delete the ConfigMap {OWNER_CONFIG} in the namespace {home}"
            )
        if name != self._cluster:
            raise WorkFolderError(
                f"kubernetes.clusters: {self._cluster} is the cluster that is called {name} "
                "already; give each cluster one name. To rename it, end its runs, and delete the "
                f"ConfigMap {OWNER_CONFIG} in the namespace {home}"
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

    def _had(self, ledger_id: str) -> tuple[str, str]:
        """Return the ledger and the name of the cluster's ConfigMap, made where there is none.

        One without a name, which an earlier version has made, gets it.
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
                # Another service has made or changed it meanwhile: it is read again.
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
    """Of which term a service gives orders to a cluster, as far as ``owner`` records it."""

    def __init__(self, owner: ClusterOwner) -> None:
        self._owner = owner
        # The term of the last orders, and the newest one that is known of.
        self._term = self._newest = 0
        self.deposed = ""
        """Why this service gives no orders to the cluster; empty while it does."""

    def order(self, term: int) -> None:
        """Take orders of ``term``; raises ``OldTermError`` if those of a newer one were taken.

        What this program does not know of is found before anything is done in the cluster.
        """
        if term < self._newest:
            raise OldTermError(term=term, newest=self._newest)
        self._term = self._newest = term
        self.deposed = ""

    def check(self) -> None:
        """Raise ``OldTermError`` unless the cluster takes orders of this service's term."""
        try:
            self._owner.take_term(self._term)
        except OldTermError as error:
            self._newest = max(self._newest, error.newest)
            raise

    def leads(self) -> bool | None:
        """Return whether the cluster still takes orders of this service's term.

        None says that the cluster did not answer. A ledger with one writer has no terms: that was
        found when the pods were listed.
        """
        if not self._term:
            return True
        try:
            self.check()
        except OldTermError as error:
            self.deposed = str(error)
            return False
        except ClusterError as error:
            _LOG.warning("it is not known who leads in the cluster: %s", error)
            return None
        return True


def _term_of(config: Tree) -> int:
    """Return the term that ``config`` records; raises ``ClusterError`` where it is no number."""
    text = str((config.get("data") or {}).get(TERM, "0"))
    if not text.isdecimal():
        raise ClusterError(
            f"the ConfigMap {OWNER_CONFIG} has the term {text!r}, which is no number; correct it, "
            "or remove it when no service works in this cluster"
        )
    return int(text)
