"""The changes of a run between two of its statuses, for Kubernetes Events. Pure.

``kubectl describe run`` shows Events below the status. The operator writes an Event when a
condition changes, or is false for a new reason, but not when only figures change.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from quorate.model.events import EndReason
from quorate.model.refusal import RefusalCode
from quorate.model.state.records import Phase
from quorate.service.custom_resources.resource_conditions import (
    ACCEPTED,
    ADMITTED,
    EVICTED,
    FINISHED,
    PENDING,
    PODS_READY,
    STARTING,
    STOPPING,
)

PREEMPTED: Final = "Preempted"
REQUEUED: Final = "Requeued"
_FOR_OTHERS: Final = frozenset(
    reason.value
    for reason in (
        EndReason.RANDOM_PREEMPT,
        EndReason.BURST_CUT,
        EndReason.OVERSTAYED,
        EndReason.RECLAIMED_BY_SPARE,
        EndReason.RECALLED,
    )
)
"""The reasons for which a run stops so that other runs get its GPUs."""


@dataclass(frozen=True, slots=True)
class Transition:
    """A change of a run; ``is_warning`` is true if a user may have to act."""

    reason: str
    message: str
    is_warning: bool = False


def transitions(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Transition]:
    """Return the changes of a run between two statuses, ``before`` and ``after``."""
    old, new = _conditions(before), _conditions(after)
    finished = new.get(FINISHED)
    if _holds(finished):
        return [] if _holds(old.get(FINISHED)) else [_finished(finished or {}, after)]
    accepted = new.get(ACCEPTED)
    if accepted is not None and not _holds(accepted):
        is_refused = accepted["reason"] != PENDING and _is_new(old, accepted)
        return [_of(accepted, is_warning=True)] if is_refused else []
    found = [*_stop(before, after), *_eviction(old, new)]
    found += _admission(old, new, after, is_told=bool(found))
    pods = new.get(PODS_READY)
    if pods is not None and pods["reason"] != STARTING and _is_new(old, pods):
        found.append(_of(pods, is_warning=not _holds(pods)))
    return found


def _conditions(status: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    return {str(each.get("type")): each for each in status.get("conditions") or ()}


def _holds(condition: Mapping[str, Any] | None) -> bool:
    return condition is not None and condition["status"] == "True"


def _is_new(old: Mapping[str, Mapping[str, Any]], condition: Mapping[str, Any]) -> bool:
    """Return whether a condition has changed, or has another reason."""
    known = old.get(condition["type"])
    if known is None:
        return True
    return (known["status"], known["reason"]) != (condition["status"], condition["reason"])


def _of(condition: Mapping[str, Any], *, is_warning: bool = False) -> Transition:
    message = str(condition.get("message", "")) or f"{condition['type']}: {condition['reason']}"
    return Transition(str(condition["reason"]), message, is_warning=is_warning)


def _finished(condition: Mapping[str, Any], after: Mapping[str, Any]) -> Transition:
    reason = str(condition["reason"])
    message = str(condition.get("message") or after.get("note") or f"the run is {reason.lower()}")
    return Transition(reason, message, is_warning=reason == Phase.FAILED.value)


def _stop(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Transition]:
    """Return the change of a run that stops or has stopped, if it waits again afterwards."""
    stopping = after.get("stopping")
    if stopping is not None:
        if before.get("stopping") is not None or stopping.get("outcome") is not None:
            return []
        word = str(stopping["reason"])
        if word == EndReason.START_REFUSED.value:
            return []  # The stop is reported as an eviction, with the same reason.
        note = str(stopping.get("note") or "")
        message = f"the run releases its GPUs and waits again: {word}" + (
            f": {note}" if note else ""
        )
        reason = PREEMPTED if word in _FOR_OTHERS else STOPPING
        return [Transition(reason, message, is_warning=True)]
    phases = (before.get("phase"), after.get("phase"))
    was_told = before.get("stopping") is not None
    if phases != (Phase.RUNNING.value, Phase.PENDING.value) or was_told:
        return []
    if (after.get("refusal") or {}).get("code") == RefusalCode.START_REFUSED.value:
        return []
    return [Transition(REQUEUED, "the run released its GPUs and waits again", is_warning=True)]


def _eviction(
    old: Mapping[str, Mapping[str, Any]], new: Mapping[str, Mapping[str, Any]]
) -> list[Transition]:
    evicted = new.get(EVICTED)
    if evicted is None or not _holds(evicted) or _holds(old.get(EVICTED)):
        return []
    message = f"{evicted['reason']}: {evicted.get('message', '')}"
    return [Transition(EVICTED, message, is_warning=True)]


def _admission(
    old: Mapping[str, Mapping[str, Any]],
    new: Mapping[str, Mapping[str, Any]],
    after: Mapping[str, Any],
    *,
    is_told: bool,
) -> list[Transition]:
    """Return the change of a run that was admitted, or that waits for a new reason.

    If ``is_told``, a stop or an eviction has already reported that the run waits.
    """
    admitted = new.get(ADMITTED)
    if admitted is None or not _is_new(old, admitted):
        return []
    if _holds(admitted):
        leases = ", ".join(map(str, after.get("leases") or ()))
        return [Transition(ADMITTED, f"the run has {after.get('gpus', 0)} GPUs: {leases}")]
    if is_told or admitted["reason"] == PENDING:
        return []
    return [_of(admitted)]
