"""The custom resources of Quorate as Kubernetes objects: kinds, paths, and metadata.

Users write owners, budgets, pools and runs; Quorate writes only their status. Only Quorate writes
reservations, leases and outcomes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from quorate.adapters.kubernetes.pod_manifest import LEDGER_LABEL
from quorate.model.api_version import API_VERSION

FINALIZER: Final = "quorate.dev/ledger"
"""The finalizer that keeps a deleted resource until the ledger has recorded the deletion."""
USER: Final = "quorate.dev/user"
"""The annotation with the creator of a resource, written by Quorate's admission webhook."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceKind:
    """A kind of custom resource; ``is_own`` means that only Quorate writes such resources."""

    name: str
    plural: str
    is_namespaced: bool = False
    is_own: bool = False

    @property
    def all_path(self) -> str:
        """The path of the resources in all namespaces."""
        return f"/apis/{API_VERSION}/{self.plural}"

    def folder(self, namespace: str) -> str:
        """Return the path of the resources in ``namespace``."""
        place = f"namespaces/{namespace}/" if self.is_namespaced else ""
        return f"/apis/{API_VERSION}/{place}{self.plural}"


POOL: Final = ResourceKind(name="Pool", plural="pools")
OWNER: Final = ResourceKind(name="Owner", plural="owners")
BUDGET: Final = ResourceKind(name="Budget", plural="budgets")
RUN: Final = ResourceKind(name="Run", plural="runs", is_namespaced=True)
RESERVATION: Final = ResourceKind(
    name="Reservation", plural="reservations", is_namespaced=True, is_own=True
)
LEASE: Final = ResourceKind(name="GPULease", plural="gpuleases", is_namespaced=True, is_own=True)
OUTCOME: Final = ResourceKind(name="ResolverOutcome", plural="resolveroutcomes", is_own=True)
KINDS: Final = (POOL, OWNER, BUDGET, RUN, RESERVATION, LEASE, OUTCOME)
"""All kinds. Each kind that users write refers only to kinds that come before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """A custom resource as the cluster has it.

    ``generation`` counts the changes of the spec; ``version`` is new after every change. ``user``
    is the creator of the resource, if known. ``ledger`` is the ledger's label on an object that
    Quorate created; it is empty on other objects.
    """

    kind: ResourceKind
    namespace: str
    name: str
    uid: str
    generation: int
    version: str
    is_deleting: bool
    finalizers: tuple[str, ...]
    user: str
    ledger: str
    spec: Mapping[str, Any]
    status: Mapping[str, Any]

    @property
    def path(self) -> str:
        """The API path of the resource."""
        return f"{self.kind.folder(self.namespace)}/{self.name}"

    @property
    def key(self) -> tuple[str, str, str]:
        """The kind, namespace and name of the resource."""
        return self.kind.name, self.namespace, self.name

    @property
    def is_held(self) -> bool:
        """Whether the finalizer keeps the resource until the ledger has recorded its deletion."""
        return FINALIZER in self.finalizers

    @property
    def shown(self) -> str:
        """The name of the resource in the log."""
        place = f"{self.namespace}/" if self.namespace else ""
        return f"{self.kind.name} {place}{self.name}"


def resource_of(kind: ResourceKind, tree: Mapping[str, Any]) -> Resource:
    """Return a custom resource of ``kind`` from the API server's answer."""
    metadata = tree["metadata"]
    return Resource(
        kind=kind,
        namespace=str(metadata.get("namespace", "")),
        name=str(metadata["name"]),
        uid=str(metadata["uid"]),
        generation=int(metadata.get("generation", 0)),
        version=str(metadata["resourceVersion"]),
        is_deleting="deletionTimestamp" in metadata,
        finalizers=tuple(metadata.get("finalizers") or ()),
        user=str((metadata.get("annotations") or {}).get(USER, "")),
        ledger=str((metadata.get("labels") or {}).get(LEDGER_LABEL, "")),
        spec=tree.get("spec") or {},
        status=tree.get("status") or {},
    )
