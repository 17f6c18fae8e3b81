"""Conditions of custom resources, with reasons that are known from other schedulers. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from quorate.model.refusal import RefusalCode
from quorate.model.state.records import TERMINAL, Phase
from quorate.ports.executor_port import Readiness

ACCEPTED: Final = "Accepted"
QUOTA_RESERVED: Final = "QuotaReserved"
ADMITTED: Final = "Admitted"
PODS_READY: Final = "PodsReady"
EVICTED: Final = "Evicted"
REQUEUED: Final = "Requeued"
FINISHED: Final = "Finished"
DELETED: Final = "Deleted"
MESSAGE_CHARS_MAX: Final = 32_768

INVALID: Final = "Invalid"
MISSING: Final = "Missing"
REFUSED: Final = "Refused"
WRONG_NAMESPACE: Final = "WrongNamespace"
IMMUTABLE: Final = "Immutable"
IN_USE: Final = "InUse"

WAITING_FOR_QUOTA: Final = "WaitingForQuota"
EXCEEDS_MAX_QUOTA: Final = "ExceedsMaxQuota"
TOPOLOGY_PLACEMENT_FAILED: Final = "TopologyPlacementFailed"
PREEMPTION_PENDING: Final = "PreemptionPending"
ADMISSION_GATED: Final = "AdmissionGated"
START_REFUSED: Final = "StartRefused"
PODS_READY_TIMEOUT: Final = "PodsReadyTimeout"
BACKOFF_FINISHED: Final = "BackoffFinished"
PENDING: Final = "Pending"
STOPPING: Final = "Stopping"
STARTING: Final = "Starting"

_UNSTARTED: Final = RefusalCode.START_REFUSED.value
_QUOTAS: Final = frozenset(
    {
        RefusalCode.MAX_NODES,
        RefusalCode.MAX_CONCURRENT_RUNS,
        RefusalCode.SENSITIVE_POOL_SIZE,
    }
)
"""Refusals with a limit: a request for more than the limit can never be met."""
REASONS: Final[Mapping[RefusalCode, str]] = {
    RefusalCode.NO_ENVELOPE: EXCEEDS_MAX_QUOTA,
    RefusalCode.INSUFFICIENT_FUNDS: WAITING_FOR_QUOTA,
    RefusalCode.BORROW_LIMIT: WAITING_FOR_QUOTA,
    RefusalCode.NO_NODES: TOPOLOGY_PLACEMENT_FAILED,
    RefusalCode.INSUFFICIENT_CAPACITY: TOPOLOGY_PLACEMENT_FAILED,
    RefusalCode.NO_SINGLE_DOMAIN: TOPOLOGY_PLACEMENT_FAILED,
    RefusalCode.FUNDS_ELSEWHERE: TOPOLOGY_PLACEMENT_FAILED,
    RefusalCode.SEARCH_LIMIT: WAITING_FOR_QUOTA,
    RefusalCode.MAX_NODES: WAITING_FOR_QUOTA,
    RefusalCode.MAX_CONCURRENT_RUNS: WAITING_FOR_QUOTA,
    RefusalCode.SENSITIVE_POOL_SIZE: WAITING_FOR_QUOTA,
    RefusalCode.WAITING_FOR_QUOTA: WAITING_FOR_QUOTA,
    RefusalCode.RESERVED: TOPOLOGY_PLACEMENT_FAILED,
    RefusalCode.JUST_CUT: ADMISSION_GATED,
    RefusalCode.START_REFUSED: START_REFUSED,
    RefusalCode.NOT_RESOLVABLE: TOPOLOGY_PLACEMENT_FAILED,
    RefusalCode.WAITING_FOR_UPSTREAM: ADMISSION_GATED,
    RefusalCode.UPSTREAM_FAILED: ADMISSION_GATED,
    RefusalCode.INVALID: INVALID,
    RefusalCode.UNKNOWN_NAME: MISSING,
    RefusalCode.ALREADY_EXISTS: REFUSED,
    RefusalCode.CONFLICT: REFUSED,
    RefusalCode.STALE_VERSION: REFUSED,
    RefusalCode.KEY_REUSED: REFUSED,
    RefusalCode.NOT_RUNNING: REFUSED,
    RefusalCode.UNSUPPORTED: REFUSED,
    RefusalCode.NEXT_ROUND: ADMISSION_GATED,
    RefusalCode.SLO_INFEASIBLE: EXCEEDS_MAX_QUOTA,
}
"""The reason of a condition for each refusal code."""


@dataclass(frozen=True, slots=True)
class Said:
    """A condition: whether it is true, and why."""

    type: str
    holds: bool
    reason: str
    message: str = ""


def met(condition: str, reason: str, message: str = "") -> Said:
    """Return a condition that is true."""
    return Said(type=condition, holds=True, reason=reason, message=message)


def unmet(condition: str, reason: str, message: str = "") -> Said:
    """Return a condition that is false."""
    return Said(type=condition, holds=False, reason=reason, message=message)


def reason_of(code: RefusalCode, wanted: int = 0, limit: int = 0) -> str:
    """Return the reason of a condition for a refusal of ``wanted`` when ``limit`` is the limit."""
    if code in _QUOTAS and wanted > limit > 0:
        return EXCEEDS_MAX_QUOTA
    return REASONS[code]


def run_conditions(status: Mapping[str, Any]) -> tuple[Said, ...]:
    """Return the conditions of a run, from the run's status in the ledger."""
    phase, note = Phase(status["phase"]), str(status.get("note") or "")
    accepted = met(ACCEPTED, ACCEPTED)
    if phase in TERMINAL:
        return (
            accepted,
            unmet(QUOTA_RESERVED, phase.value, note),
            unmet(ADMITTED, phase.value, note),
            met(FINISHED, phase.value, note),
        )
    if phase is Phase.RUNNING:
        stopping = status.get("stopping")
        told = "" if stopping is None else f"{STOPPING}: {stopping['reason']}"
        return (
            accepted,
            met(QUOTA_RESERVED, QUOTA_RESERVED),
            met(ADMITTED, ADMITTED, told),
            unmet(FINISHED, phase.value),
        )
    reason, message = _wait(status)
    reservation = status.get("reservation")
    quota = unmet(QUOTA_RESERVED, reason, message)
    if reservation is not None:
        quota = met(QUOTA_RESERVED, QUOTA_RESERVED, f"for {reservation['name']}")
    return accepted, quota, unmet(ADMITTED, reason, message), unmet(FINISHED, phase.value)


def pods_condition(
    ready: Readiness | None, before: Iterable[Mapping[str, Any]]
) -> tuple[Said, ...]:
    """Return the condition that says whether the pods of a running run are ready.

    If the readiness is unknown, for example after a restart, the run's present condition is kept.
    ``before`` has all present conditions of the run.
    """
    if ready is not None:
        return (Said(PODS_READY, ready.is_ready, ready.reason, ready.message),)
    return tuple(
        Said(
            PODS_READY, each["status"] == "True", str(each["reason"]), str(each.get("message", ""))
        )
        for each in before
        if each.get("type") == PODS_READY
    )


def eviction_conditions(
    status: Mapping[str, Any], before: Iterable[Mapping[str, Any]]
) -> tuple[Said, ...]:
    """Return the conditions of a run that was evicted because its pods were not ready in time.

    The conditions say whether the run is evicted, and whether it was put back into the queue. A run
    that was never evicted has no such conditions. When ``status`` no longer reports the eviction,
    the conditions are computed from ``before``, the conditions that the run has until now.
    """
    refusal = status.get("refusal") or {}
    if status["phase"] == Phase.PENDING.value and refusal.get("code") == _UNSTARTED:
        message = str(refusal["message"])
        return (
            met(EVICTED, PODS_READY_TIMEOUT, message),
            unmet(REQUEUED, PODS_READY_TIMEOUT, message),
        )
    told = next((each for each in before if each.get("type") == EVICTED), None)
    if told is None:
        return ()
    message = str(told.get("message", ""))
    if status["phase"] == Phase.PENDING.value and told["status"] == "True":
        return (
            met(EVICTED, PODS_READY_TIMEOUT, message),
            met(
                REQUEUED, BACKOFF_FINISHED, "the run keeps its place in the queue and starts again"
            ),
        )
    return (unmet(EVICTED, ADMITTED, message), met(REQUEUED, BACKOFF_FINISHED))


def _wait(status: Mapping[str, Any]) -> tuple[str, str]:
    """Return why a run waits: the reason, and a sentence."""
    refusal = status.get("refusal")
    message = "" if refusal is None else str(refusal["message"])
    reservation = status.get("reservation")
    if reservation is not None and reservation["byConflict"]:
        start = reservation.get("plannedStart")
        return PREEMPTION_PENDING, (
            f"other runs release GPUs for this run until {start}; {message}"
        ).rstrip("; ")
    if refusal is None:
        return PENDING, "it is about to start"
    limit, wanted = refusal.get("limit") or 0, refusal["wanted"]
    return reason_of(RefusalCode(refusal["code"]), wanted, limit), message


def decisive(said: Iterable[Said]) -> Said:
    """Return the most important condition of a resource, for the column that shows one word."""
    found = {each.type: each for each in said}
    finished, admitted = found.get(FINISHED), found.get(ADMITTED)
    if DELETED in found:
        return found[DELETED]
    if not found[ACCEPTED].holds or admitted is None:
        return found[ACCEPTED]
    if finished is not None and finished.holds:
        return finished
    pods = found.get(PODS_READY)
    is_held_up = pods is not None and not pods.holds and pods.reason != STARTING
    return pods if pods is not None and is_held_up else admitted


def condition_trees(
    said: Iterable[Said], before: Iterable[Mapping[str, Any]], generation: int, now: str
) -> list[dict[str, Any]]:
    """Return ``said`` in the form of Kubernetes conditions.

    ``before`` has the conditions that the resource has until now. The transition time is when a
    condition last changed between true and false.
    """
    known = {each.get("type"): each for each in before}
    trees = []
    for each in said:
        holds = "True" if each.holds else "False"
        old = known.get(each.type)
        is_same = old is not None and old.get("status") == holds and "lastTransitionTime" in old
        tree = {
            "type": each.type,
            "status": holds,
            "reason": each.reason,
            "lastTransitionTime": old["lastTransitionTime"] if is_same and old else now,
            "observedGeneration": generation,
        }
        if each.message:
            tree["message"] = each.message[:MESSAGE_CHARS_MAX]
        trees.append(tree)
    return trees
