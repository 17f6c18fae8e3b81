"""The ledger requests for custom resources, and conditions for their refusals. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from msgspec import Struct

from quorate.adapters.kubernetes.resource_objects import BUDGET, OWNER, POOL, RUN, Resource
from quorate.model.refusal import RefusalCode
from quorate.operations.operation import Operation
from quorate.operations.resources.resource_operations import Apply, DeleteThing
from quorate.operations.resources.run_operations import EndRun, SubmitRun
from quorate.operations.resources.tenant_operations import DeleteTenant
from quorate.operations.table import OPERATIONS
from quorate.service.custom_resources.resource_conditions import (
    ACCEPTED,
    DELETED,
    IN_USE,
    INVALID,
    MISSING,
    REFUSED,
    Said,
    reason_of,
    unmet,
)
from quorate.service.custom_resources.resource_documents import ledger_name
from quorate.views.exits import CommandError, Exit

WHY: Final = "its resource was deleted"
"""The recorded note of a cancellation or removal because a resource was deleted."""
PAUSE_S: Final = 0.5
"""How long until a refused request is tried again; this time doubles with each refusal."""
PAUSE_S_MAX: Final = 16.0


@dataclass(frozen=True, slots=True)
class Request:
    """An operation, and its arguments."""

    operation: Operation
    asked: Struct


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A refused request, the resource's version, and the number of the ledger's last event.

    The request is tried again when the ledger has changed, but not before ``again_s``.
    """

    said: Said
    generation: int
    is_deleting: bool
    seq: int
    tries: int
    again_s: float

    def is_of(self, resource: Resource) -> bool:
        """Return whether ``resource`` still makes the refused request."""
        return (self.generation, self.is_deleting) == (resource.generation, resource.is_deleting)


def refused_again(
    resource: Resource, said: Said, before: Refused | None, seq: int, now_s: float
) -> Refused:
    """Return the record of a refusal of ``resource``.

    ``before`` is the record of the resource's previous refusal, if any. If both refusals are of the
    same request, the pause becomes longer.
    """
    tries = 1 if before is None or not before.is_of(resource) else before.tries + 1
    pause_s = min(PAUSE_S_MAX, PAUSE_S * 2.0 ** min(tries - 1, 10))
    return Refused(
        said=said,
        generation=resource.generation,
        is_deleting=resource.is_deleting,
        seq=seq,
        tries=tries,
        again_s=now_s + pause_s,
    )


def declaration(resource: Resource, document: dict[str, Any]) -> Request:
    """Return the request that submits a run, or applies the document of a resource."""
    if resource.kind == RUN:
        return Request(OPERATIONS["submit-run"], SubmitRun(document=document))
    return Request(OPERATIONS["apply"], Apply(documents=(document,)))


def withdrawal(resource: Resource) -> Request:
    """Return the request that cancels a run, or removes an applied document."""
    name = ledger_name(resource)
    if resource.kind == RUN:
        return Request(OPERATIONS["cancel-run"], EndRun(run=name, note=WHY))
    if resource.kind == OWNER:
        return Request(OPERATIONS["delete-tenant"], DeleteTenant(id=name, reason=WHY))
    operation = {BUDGET.name: "delete-budget", POOL.name: "delete-pool"}[resource.kind.name]
    return Request(OPERATIONS[operation], DeleteThing(name=name, reason=WHY))


def refused_by(error: CommandError, resource: Resource) -> Said | None:
    """Return the condition for a refused request of ``resource``; None if the ledger failed."""
    if error.code not in (Exit.REFUSED, Exit.INVALID, Exit.USAGE):
        return None
    message = "\n".join(error.lines)
    if resource.is_deleting:
        return unmet(DELETED, IN_USE, message)
    reason = INVALID if error.code is Exit.INVALID else REFUSED
    if error.refusals:
        first = error.refusals[0]
        reason = reason_of(first.code, first.wanted, first.limit)
    elif error.fault == RefusalCode.UNKNOWN_NAME:
        reason = MISSING
    return unmet(ACCEPTED, reason, message)
