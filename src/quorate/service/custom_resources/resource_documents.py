"""Custom resources as documents of the ledger, and their callers. Pure.

Owners, budgets and pools have the same name in the cluster and in the ledger. The name of a run in
the ledger ends with digits of its uid. So two resources of the same name are different runs. The
two resources may be in different namespaces, or the first may be deleted before the second is
created. No resource is submitted twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from quorate.adapters.kubernetes.object_names import owner_namespace
from quorate.adapters.kubernetes.resource_objects import RUN, Resource
from quorate.documents import API_VERSION
from quorate.documents.values import NAME_CHARS_MAX
from quorate.model.specs import PoolExecutor
from quorate.operations.caller import Caller, Role, actor_of

_UID_DIGITS: Final = 8
_NAME_MAX: Final = NAME_CHARS_MAX - _UID_DIGITS - 1
UNKNOWN_USER: Final = "kubernetes"
"""The user of a run whose creator is unknown."""


def ledger_name(resource: Resource) -> str:
    """Return the ledger's name for a resource that users write."""
    if resource.kind != RUN:
        return resource.name
    stem = resource.name[:_NAME_MAX].rstrip(".-")
    return f"{stem}-{resource.uid.replace('-', '')[:_UID_DIGITS]}"


def owner_of(resource: Resource) -> str:
    """Return the owner that a run or a budget names; empty if no owner is named."""
    owner = resource.spec.get("owner")
    return owner if isinstance(owner, str) else ""


def namespace_fault(resource: Resource, template: str) -> str:
    """Return why a run may not be in its namespace; empty if it may.

    The permissions on an owner's namespace decide who writes runs there. So the namespace may have
    only runs of this owner.
    """
    owner = owner_of(resource)
    if resource.kind != RUN or not owner:
        return ""
    wanted = owner_namespace(template, owner)
    if resource.namespace == wanted:
        return ""
    return (
        f"spec.owner: runs of {owner!r} must be in the namespace {wanted}, not in "
        f"{resource.namespace}; create the run there, or name the owner of this namespace"
    )


def caller_of(resource: Resource, cluster: str) -> Caller:
    """Return the caller of a resource's requests.

    For a run, the caller is a user of the run's owner. For any other resource the caller is an
    admin, because only the cluster's administrators write cluster-scoped resources.
    """
    if resource.kind == RUN:
        owner, user = owner_of(resource), resource.user or UNKNOWN_USER
        return Caller(actor=actor_of(owner, user), role=Role.USER, user=user, tenant=owner)
    office = f"{PoolExecutor.KUBERNETES}/{cluster}"
    actor = f"{office}/{resource.user}" if resource.user else office
    return Caller(actor=actor, role=Role.ADMIN, user=actor)


def document_of(resource: Resource, upstream: Callable[[str], str]) -> dict[str, Any]:
    """Return the document that a resource states.

    ``upstream`` converts the name of an upstream run to the name of that run in the ledger.
    """
    spec: Mapping[str, Any] = resource.spec
    follow = spec.get("follow")
    if resource.kind == RUN and isinstance(follow, dict) and isinstance(follow.get("after"), list):
        after = [upstream(each) if isinstance(each, str) else each for each in follow["after"]]
        spec = {**spec, "follow": {**follow, "after": after}}
    return {
        "apiVersion": API_VERSION,
        "kind": resource.kind.name,
        "metadata": {"name": ledger_name(resource)},
        "spec": dict(spec),
    }


def upstream_names(
    resources: Mapping[tuple[str, str, str], Resource], namespace: str
) -> Callable[[str], str]:
    """Return a function from a run's name in ``namespace`` to its name in the ledger.

    If no resource in the namespace has the name, the name is taken as a name in the ledger.
    """

    def name_of(name: str) -> str:
        found = resources.get((RUN.name, namespace, name))
        return name if found is None else ledger_name(found)

    return name_of
