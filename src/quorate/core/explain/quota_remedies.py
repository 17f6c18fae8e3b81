"""The least raise of one tenant's hard quota by which a run that waits for the quota starts.

The caller has found the raise that would suffice if no other run waited. Here the whole command is
decided as a dry run, because runs ahead in the queue are tried first and may use up the raise.
"""

from __future__ import annotations

from typing import Final

from quorate.core.admission.quota_holders import Obstacles
from quorate.core.commands import UpdateOwner
from quorate.core.explain.remedies import (
    Proof,
    Remedy,
    RemedyKind,
    Trials,
    Value,
    first_working,
    started_with,
)
from quorate.model.amounts import GPUS_MAX
from quorate.model.specs import Run
from quorate.model.state.state_view import StateView

DRY_RUNS_MAX: Final = 16
"""How many raises of the limits one explanation tries at most, each by a whole decision."""

_DOCUMENT: Final = {"nodes_max": "maxNodes", "concurrent_runs_max": "maxConcurrentRuns"}
_FLAGS: Final = {
    "nodes_max": "--max-nodes",
    "concurrent_runs_max": "--max-concurrent-allocations",
}


def quota_remedies(
    view: StateView, run: Run, in_the_way: Obstacles, now_ms: int
) -> tuple[Remedy, ...]:
    """Return the least raise of one tenant's limits that would start ``run`` now, if any.

    If limits of two tenants are in the way, no single command helps, and the result is empty.
    """
    tenants = {quota.subject for quota in in_the_way.quotas}
    if len(tenants) != 1 or not in_the_way.starts:
        return ()
    tenant = tenants.pop()
    raised = in_the_way.raised()
    least = {field: raised[tenant, field] for field in _FLAGS if (tenant, field) in raised}
    trials = Trials(view, now_ms, DRY_RUNS_MAX)

    def proof(more: int) -> Proof:
        # A higher limit may let every waiting run be tried again.
        attempts = 1 + len(view.pending)
        return trials.start_of(run.name, _command(tenant, least, more), attempts=attempts)

    # Runs ahead in the queue may use up the raise. So the limit is raised further, by no more than
    # these runs can use.
    at_once = proof(0)
    most = len(view.nodes) + len(view.pending)
    working = (0, at_once) if at_once else first_working(range(1, most + 1), proof)
    if working is None:
        return ()
    more, leases = working
    changes: tuple[tuple[str, Value], ...] = tuple(
        (f"spec.quota.{_DOCUMENT[field]}", _limit(value, more)) for field, value in least.items()
    )
    flags = (
        word for field, value in least.items() for word in (_FLAGS[field], str(_limit(value, more)))
    )
    return (
        Remedy(
            kind=RemedyKind.RAISE_QUOTA,
            target_kind="owner",
            target_name=tenant,
            changes=changes,
            effect=f"{run.name} starts now with {started_with(leases)}",
            command=("quorate", "admin", "tenant", "update", tenant, *flags),
            trial=_command(tenant, least, more),
        ),
    )


def _command(tenant: str, least: dict[str, int], more: int) -> UpdateOwner:
    return UpdateOwner(
        tenant, quota=tuple((field, _limit(value, more)) for field, value in least.items())
    )


def _limit(value: int, more: int) -> int:
    return min(value + more, GPUS_MAX)
