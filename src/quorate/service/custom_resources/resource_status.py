"""The status of a custom resource: the ledger's data for it, with conditions. Pure.

Some figures change with every millisecond, such as the amount spent. The operator writes such
figures only together with changes that an event has made.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from quorate.adapters.kubernetes.resource_objects import RUN, Resource
from quorate.model.state.records import TERMINAL, Phase
from quorate.ports.executor_port import Readiness
from quorate.service.custom_resources.resource_conditions import (
    ACCEPTED,
    DELETED,
    FINISHED,
    Said,
    condition_trees,
    decisive,
    eviction_conditions,
    met,
    pods_condition,
    run_conditions,
    unmet,
)
from quorate.service.custom_resources.resource_documents import ledger_name

DRIFTING: Final = frozenset(
    {
        "startsInMs",
        "usedGPUMs",
        "spentGPUMs",
        "heldGPUMs",
        "freeGPUMs",
        "lentGPUMs",
        "committedGPUMs",
        "holdGPUMs",
        "holdEnds",
        "budgetUsed",
        "shares",
        "priority",
        "owedSeconds",
        "asOf",
    }
)
"""Fields of a status that change without an event."""
_OVER: Final = frozenset(phase.value for phase in TERMINAL)


@dataclass(frozen=True, slots=True)
class LedgerStatus:
    """``tree`` is a resource's status in the ledger; None if the ledger lacks the resource.

    ``ready`` says whether the work of a run has begun, if that is known.
    """

    tree: Mapping[str, Any] | None = None
    ready: Readiness | None = None


def status_of(
    resource: Resource,
    ledger: LedgerStatus,
    fault: Said | None,
    *,
    now: str,
    before: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the status of ``resource``; ``ledger`` is its status in the ledger, if any.

    ``fault`` is why the resource was last refused, or cannot be removed. ``before`` is the
    resource's status in the cluster.
    """
    known = before.get("conditions") or ()
    said = _said(resource, ledger, fault, known)
    status = {} if ledger.tree is None else plain(ledger.tree)
    status["ledgerName"] = ledger_name(resource)
    status["reason"] = decisive(said).reason
    accepted = ledger.tree is not None and (fault is None or fault.type != ACCEPTED)
    observed = resource.generation if accepted else before.get("observedGeneration")
    if observed is not None:
        status["observedGeneration"] = observed
    status["conditions"] = condition_trees(said, known, resource.generation, now)
    return status


def _said(
    resource: Resource,
    ledger: LedgerStatus,
    fault: Said | None,
    before: Iterable[Mapping[str, Any]],
) -> tuple[Said, ...]:
    found: tuple[Said, ...] = ()
    if ledger.tree is not None:
        found = (met(ACCEPTED, ACCEPTED),)
    if ledger.tree is not None and resource.kind == RUN:
        found = run_conditions(ledger.tree)
        if ledger.tree["phase"] == Phase.RUNNING.value:
            found = (*found, *pods_condition(ledger.ready, before))
        found = (*found, *eviction_conditions(ledger.tree, before))
    if fault is None:
        return found or (unmet(ACCEPTED, "Pending", "Quorate has not tried this resource yet"),)
    return (*(each for each in found if each.type != fault.type), fault)


def is_final(resource: Resource) -> bool:
    """Return whether the status of a run is final."""
    status = resource.status
    if resource.kind != RUN or status.get("phase") not in _OVER:
        return False
    conditions = status.get("conditions") or ()
    return (
        status.get("observedGeneration") == resource.generation
        and any(each.get("type") == FINISHED for each in conditions)
        and not any(each.get("type") == DELETED for each in conditions)
    )


def status_news(
    resource: Resource,
    ledger: LedgerStatus,
    fault: Said | None,
    at: str,
    now: Resource,
) -> dict[str, Any] | None:
    """Return the status to write; None if none has to be written.

    ``now`` is ``resource`` as it is in the cluster at present. No status has to be written if
    ``now`` has this status already. Nor is a status written if the spec of ``now`` was changed,
    because the new spec must first be compared with the ledger.
    """
    if now.generation != resource.generation:
        return None
    new = status_of(resource, ledger, fault, now=at, before=now.status)
    return new if is_news(new, now.status) else None


def is_news(new: Any, old: Any) -> bool:
    """Return whether ``new`` differs from ``old`` in more than figures that change with time."""
    if isinstance(new, Mapping) and isinstance(old, Mapping):
        return any(
            key not in DRIFTING and (key not in old or is_news(each, old[key]))
            for key, each in new.items()
        ) or any(key not in new and key not in DRIFTING for key in old)
    if isinstance(new, list | tuple) and isinstance(old, list | tuple):
        return len(new) != len(old) or any(map(is_news, new, old))
    return bool(new != old)


def is_urgent(new: Mapping[str, Any], old: Mapping[str, Any]) -> bool:
    """Return whether a user waits for the change: another phase, reason, condition or lease.

    Other changes are not urgent, such as the numbers of a waiting run, which change with every
    event of other runs.
    """
    return _headline(new) != _headline(old)


def _headline(status: Mapping[str, Any]) -> tuple[Any, ...]:
    conditions = sorted(
        (str(each.get("type")), str(each.get("status")), str(each.get("reason")))
        for each in status.get("conditions") or ()
    )
    named = ("phase", "reason", "observedGeneration", "leases", "width", "stopping", "outcome")
    return (conditions, *(status.get(name) for name in named))


def plain(value: Any) -> Any:
    """Return a tree of the ledger in JSON types.

    Null fields and empty texts are left out: API servers of version 1.20 treat both as null, which
    the schemas of the resources refuse.
    """
    if isinstance(value, Mapping):
        return {key: plain(each) for key, each in value.items() if each not in (None, "")}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    return value
