"""Writes to custom resources: finalizers, statuses, and objects that Quorate creates.

Every change is made from the newest known version of a resource, and names this version. If the
cluster has a newer version (409 Conflict), the writer reads the resource again and repeats the
change on the newer version.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from quorate.adapters.kubernetes.kube_api import CONFLICT, NOT_FOUND, KubeApi
from quorate.adapters.kubernetes.pod_manifest import LEDGER_LABEL
from quorate.adapters.kubernetes.resource_objects import (
    FINALIZER,
    Resource,
    ResourceKind,
    resource_of,
)
from quorate.adapters.kubernetes.resource_watch import ResourceWatch
from quorate.model.api_version import API_VERSION
from quorate.ports.errors import ClusterDownError, ClusterRefusedError

ATTEMPTS_MAX: Final = 5
"""How often a change is tried if other clients change the resource during each try."""

Make = Callable[[Resource], Mapping[str, Any] | None]
"""Returns the status for a resource; None if no status has to be written."""
Wrote = Callable[[Resource, Mapping[str, Any]], None]
"""Receives the resource as it was before the write, and the status that was written."""


class ResourceWriter:
    """Writes to the cluster behind ``api``, and passes the cluster's answers to ``watch``."""

    def __init__(self, api: KubeApi, watch: ResourceWatch, ledger: str) -> None:
        self._api = api
        self._watch = watch
        self._ledger = ledger

    def hold(self, resource: Resource) -> Resource | None:
        """Add the finalizer and return the resource; None if it is deleted or being deleted."""

        def finalizers(now: Resource) -> list[str] | None:
            if now.is_held or now.is_deleting:
                return None
            return [*now.finalizers, FINALIZER]

        found = self._finalize(resource, finalizers)
        return None if found is None or not found.is_held or found.is_deleting else found

    def let_go(self, resource: Resource) -> None:
        """Remove the finalizer, so that the cluster can complete the deletion of the resource."""

        def finalizers(now: Resource) -> list[str] | None:
            return [each for each in now.finalizers if each != FINALIZER] if now.is_held else None

        found = self._finalize(resource, finalizers)
        if found is not None and found.is_deleting and not found.finalizers:
            self._watch.remove(found)

    def write_status(
        self, resource: Resource, make: Make, wrote: Wrote = lambda _before, _status: None
    ) -> None:
        """Write the status that ``make`` returns for the present resource, and call ``wrote``."""

        def change(now: Resource) -> dict[str, Any] | None:
            status = make(now)
            if status is None:
                return None
            body = _body(now.kind, now.namespace, now.name, status=status)
            body["metadata"] |= {"resourceVersion": now.version, "uid": now.uid}
            tree = self._api.replace(f"{now.path}/status", body | {"spec": now.spec})
            wrote(now, status)
            return tree

        self._changed(resource, change)

    def create(  # noqa: PLR0913 - what an object is made of
        self,
        kind: ResourceKind,
        namespace: str,
        name: str,
        *,
        spec: Mapping[str, Any],
        status: Mapping[str, Any],
        above: Resource | None,
    ) -> None:
        """Create an object of Quorate if it is missing, and write its status if it differs.

        The resource ``above``, if given, becomes the owner of a new object.
        """
        made = self._watch.at(kind, namespace, name)
        if made is None:
            made = self._create(kind, namespace, name, spec=spec, above=above)
        self.write_status(made, lambda now: None if now.status == status else status)

    def _create(
        self,
        kind: ResourceKind,
        namespace: str,
        name: str,
        *,
        spec: Mapping[str, Any],
        above: Resource | None,
    ) -> Resource:
        """Return the object that was created or already exists."""
        body = _body(kind, namespace, name)
        body["metadata"]["labels"] = {LEDGER_LABEL: self._ledger}
        body["spec"] = spec
        if above is not None:
            body["metadata"]["ownerReferences"] = [
                {
                    "apiVersion": API_VERSION,
                    "kind": above.kind.name,
                    "name": above.name,
                    "uid": above.uid,
                }
            ]
        try:
            tree = self._api.create(kind.folder(namespace), body)
        except ClusterRefusedError as error:
            if error.status != CONFLICT:
                raise
            tree = self._api.get(f"{kind.folder(namespace)}/{name}")
        return self._watch.put(kind, tree)

    def delete(self, resource: Resource) -> None:
        """Delete an object that Quorate created."""
        if self._watch.newest(resource) is None:
            return
        self._api.delete(resource.path, uid=resource.uid)
        self._watch.remove(resource)

    def _finalize(
        self, resource: Resource, finalizers: Callable[[Resource], list[str] | None]
    ) -> Resource | None:
        def change(now: Resource) -> dict[str, Any] | None:
            wanted = finalizers(now)
            if wanted is None:
                return None
            head = {"resourceVersion": now.version, "uid": now.uid, "finalizers": wanted}
            return self._api.merge(now.path, {"metadata": head})

        return self._changed(resource, change)

    def _changed(
        self, resource: Resource, change: Callable[[Resource], dict[str, Any] | None]
    ) -> Resource | None:
        """Return the resource after ``change``, which may change nothing; None if it is deleted.

        Raises ``ClusterDownError`` if another client changed the resource during each attempt.
        """
        now = self._watch.newest(resource)
        for _ in range(ATTEMPTS_MAX):
            if now is None:
                return None
            try:
                tree = change(now)
            except ClusterRefusedError as error:
                if error.status == NOT_FOUND:
                    self._watch.remove(now)
                    return None
                if error.status != CONFLICT:
                    raise
            else:
                return now if tree is None else self._watch.put(now.kind, tree)
            now = self._fresh(now)
        raise ClusterDownError(
            f"{resource.shown}: another client changed it during each of {ATTEMPTS_MAX} attempts"
        )

    def _fresh(self, resource: Resource) -> Resource | None:
        """Return the resource as the API server has it; None if it is deleted."""
        try:
            tree = self._api.get(resource.path)
        except ClusterRefusedError as error:
            if error.status != NOT_FOUND:
                raise
            self._watch.remove(resource)
            return None
        found = self._watch.put(resource.kind, tree)
        return resource_of(resource.kind, tree) if found.uid == resource.uid else None


def _body(
    kind: ResourceKind, namespace: str, name: str, *, status: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name}
    if kind.is_namespaced:
        metadata["namespace"] = namespace
    body: dict[str, Any] = {"apiVersion": API_VERSION, "kind": kind.name, "metadata": metadata}
    return body if status is None else body | {"status": status}
