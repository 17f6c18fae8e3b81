"""Compares a custom resource with the ledger: finds its faults, and the ledger's data for it.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from quorate.adapters.kubernetes.resource_objects import (
    BUDGET,
    KINDS,
    OUTCOME,
    OWNER,
    POOL,
    RUN,
    Resource,
)
from quorate.documents import Invalid, Parsed
from quorate.model.specs import Run
from quorate.service.custom_resources.ledger_picture import (
    Declared,
    LedgerPicture,
    RunPicture,
    Wanted,
)
from quorate.service.custom_resources.resource_conditions import (
    ACCEPTED,
    IMMUTABLE,
    INVALID,
    MISSING,
    WRONG_NAMESPACE,
    Said,
    unmet,
)
from quorate.service.custom_resources.resource_documents import (
    ledger_name,
    namespace_fault,
    owner_of,
)
from quorate.service.custom_resources.resource_mirror import run_status
from quorate.service.custom_resources.resource_status import LedgerStatus, is_final
from quorate.service.custom_resources.resource_steps import Standing

DECLARED: Final = "Declared"
"""The outcome of a conflict that is not settled yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A resource compared with the ledger; ``fault`` is a fault of the resource itself."""

    standing: Standing
    fault: Said | None = None


def judged(resource: Resource, parsed: Parsed, picture: LedgerPicture, template: str) -> Judged:
    """Return how ``resource``, with the document ``parsed``, compares with the ledger.

    ``template`` is the setting ``kubernetes.namespace``: the namespace of an owner's runs.
    """
    if isinstance(parsed, Invalid):
        # The sentences do not name the resource, because they are written to its own status.
        told = (f"{each.sentence()}; {each.remedy}" for each in parsed.problems)
        fault = _not_accepted(INVALID, "\n".join(told))
        return Judged(standing=_standing(resource, None, picture, is_sound=False), fault=fault)
    spec = parsed.items[0].spec
    found = _fault(resource, picture, template)
    standing = _standing(resource, spec, picture, is_sound=found is None)
    if resource.kind == RUN and found is None and standing.is_there:
        found = _changed_run(resource, spec, picture)
    return Judged(standing=standing, fault=found)


def _fault(resource: Resource, picture: LedgerPicture, template: str) -> Said | None:
    misplaced = namespace_fault(resource, template)
    if misplaced:
        return _not_accepted(WRONG_NAMESPACE, misplaced)
    owner = owner_of(resource)
    if owner and owner not in picture.owners:
        why = f"spec.owner: there is no owner {owner!r} yet; Quorate tries again when it exists"
        return _not_accepted(MISSING, why)
    return None


def _changed_run(resource: Resource, spec: object, picture: LedgerPicture) -> Said | None:
    """Return a fault if a resource was changed after its run was submitted; else None.

    The upstream runs are not compared, because their resources may be deleted by now.
    """
    recorded = picture.runs[ledger_name(resource)].spec
    assert isinstance(spec, Run), spec
    own = replace(spec, nonce=recorded.nonce, user=recorded.user, follow=recorded.follow)
    if resource.is_deleting or own == recorded:
        return None
    why = "a run cannot be changed after it was submitted; delete this run, and create another"
    return _not_accepted(IMMUTABLE, why)


def _standing(
    resource: Resource, spec: object, picture: LedgerPicture, *, is_sound: bool
) -> Standing:
    if resource.kind == RUN:
        run = picture.runs.get(ledger_name(resource))
        if run is None:
            return Standing(is_sound=is_sound)
        is_ours = run.spec.owner == owner_of(resource)
        return Standing(
            is_there=True,
            is_current=True,
            is_ours=is_ours,
            is_over=run.is_over,
            is_stopping=run.is_stopping,
            is_sound=is_sound,
        )
    declared = picture.declared.get((resource.kind.name, resource.name))
    observed = resource.status.get("observedGeneration")
    is_same = declared is not None and declared.spec == spec
    return Standing(
        is_there=declared is not None,
        is_current=declared is not None and (is_same or observed == resource.generation),
        is_ours=is_same or observed is not None,
        is_sound=is_sound,
    )


def _not_accepted(reason: str, message: str) -> Said:
    return unmet(ACCEPTED, reason, message)


def is_settled(resource: Resource) -> bool:
    """Return whether a resource is a run that is over, and nothing is left to do for it."""
    return is_final(resource) and not resource.is_deleting


def wanted_of(resources: Iterable[Resource]) -> Wanted:
    """Return which objects of the ledger must be read for these resources."""
    names: dict[str, list[str]] = {kind.name: [] for kind in KINDS}
    for resource in resources:
        if resource.kind == OUTCOME:
            if resource.status.get("outcome", DECLARED) != DECLARED:
                names[OUTCOME.name].append(str(resource.status.get("ledgerName")))
        elif not resource.kind.is_own and not is_settled(resource):
            names[resource.kind.name].append(ledger_name(resource))
    return Wanted(
        runs=names[RUN.name],
        pools=names[POOL.name],
        owners=names[OWNER.name],
        budgets=names[BUDGET.name],
        outcomes=frozenset(names[OUTCOME.name]),
    )


def of_ledger(resource: Resource, picture: LedgerPicture) -> RunPicture | Declared | None:
    """Return the ledger's data for a resource; the same object until the data changes."""
    if resource.kind == RUN:
        return picture.runs.get(ledger_name(resource))
    return picture.declared.get((resource.kind.name, resource.name))


def ledger_status(resource: Resource, picture: LedgerPicture) -> LedgerStatus:
    """Return the status of a resource in the ledger."""
    found = of_ledger(resource, picture)
    if isinstance(found, RunPicture):
        return LedgerStatus(run_status(found.status), found.ready)
    return LedgerStatus(None if found is None else found.status)
