"""What the ledger is asked for a custom resource, and what its refusal says of that. Pure."""

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
"""The note of what ends because a resource was deleted."""
PAUSE_S: Final = 0.5
"""How long until what was refused is tried again; twice as long after each time."""
PAUSE_S_MAX: Final = 16.0


@dataclass(frozen=True, slots=True)
class Request:
    """An operation, and what it is asked."""

    operation: Operation
    asked: Struct


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """What was refused of a resource, as it was then, at which sequence of the ledger.

    It is tried again when the ledger has changed, ``again_s`` at the earliest.
    """

    said: Said
    generation: int
    is_deleting: bool
    seq: int
    tries: int
    again_s: float

    def is_of(self, resource: Resource) -> bool:
        """Return whether ``resource`` still asks for what was refused."""
        return (self.generation, self.is_deleting) == (resource.generation, resource.is_deleting)


def refused_again(
    resource: Resource, said: Said, before: Refused | None, seq: int, now_s: float
) -> Refused:
    """Return that ``said`` was said of ``resource``, which was refused ``before`` already."""
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
    """Return the request that submits a run, or applies what a resource states."""
    if resource.kind == RUN:
        return Request(OPERATIONS["submit-run"], SubmitRun(document=document))
    return Request(OPERATIONS["apply"], Apply(documents=(document,)))


def withdrawal(resource: Resource) -> Request:
    """Return the request that cancels a run, or removes what was applied."""
    name = ledger_name(resource)
    if resource.kind == RUN:
        return Request(OPERATIONS["cancel-run"], EndRun(run=name, note=WHY))
    if resource.kind == OWNER:
        return Request(OPERATIONS["delete-tenant"], DeleteTenant(id=name, reason=WHY))
    operation = {BUDGET.name: "delete-budget", POOL.name: "delete-pool"}[resource.kind.name]
    return Request(OPERATIONS[operation], DeleteThing(name=name, reason=WHY))


def refused_by(error: CommandError, resource: Resource) -> Said | None:
    """Return what a refused command says of ``resource``; None where the ledger has trouble."""
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
