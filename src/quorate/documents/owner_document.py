"""Owner documents: a team, its parents and its quota."""

from __future__ import annotations

from typing import Final

from quorate.documents import values
from quorate.documents.document_problem import quoted
from quorate.documents.field_reader import At, Fields, fields_of
from quorate.documents.head import Head
from quorate.model.amounts import PPM
from quorate.model.specs import Owner, Quota

BURST_MAX: Final = 1_000
"""The largest burst allowance: a larger one would have no effect."""

SNAKE_CASE: Final = {
    "maxNodes": "max_nodes",
    "maxConcurrentRuns": "max_concurrent_allocations",
    "gpuHoursBudget": "gpu_hours_budget",
    "nodeHoursBudget": "node_hours_budget",
    "fairShareTarget": "fair_share_target",
    "burstAllowance": "burst_allowance",
}
"""Field of a quota -> its name in the API for tenants; documents may use either name."""

QUOTA_FIELDS: Final = {
    "maxNodes": "nodes_max",
    "maxConcurrentRuns": "concurrent_runs_max",
    "gpuHoursBudget": "gpu_ms_budget",
    "nodeHoursBudget": "node_ms_budget",
    "fairShareTarget": "fair_share_target_ppm",
    "burstAllowance": "burst_allowance_ppm",
}
"""Field of a quota -> its name in the model."""

_SPEC: Final = frozenset({"parents", "quota"})
_QUOTA: Final = frozenset(SNAKE_CASE) | frozenset(SNAKE_CASE.values())
_HINTS: Final = {
    "maxConcurrentAllocations": "did you mean 'maxConcurrentRuns'?",
    "maxRuns": "did you mean 'maxConcurrentRuns'?",
    "sensitivePoolSize": "write it in the System document: it applies to all owners",
    "sensitive_pool_size": "write sensitivePoolSize in the System document",
}
_SHARE: Final = values.decimal_of(factor=PPM, unit="millionth", low=0, high=PPM)
_BURST: Final = values.decimal_of(factor=PPM, unit="millionth", low=PPM, high=BURST_MAX * PPM)


def read_owner(spec: object, at: At, head: Head) -> Owner | None:
    """Return the owner; report its faults and return None if it is faulty.

    This function does not look for cycles among parents; ``declare`` does.
    """
    fields = fields_of(spec, at, _SPEC, dict.fromkeys(_QUOTA, "write it under spec.quota"))
    if fields is None:
        return None
    parents = fields.optional("parents", values.unique_names, ())
    if head.name and head.name in parents:
        fields.at("parents").fault(
            f"lists {quoted(head.name)} itself", "remove it; no owner is its own parent"
        )
    return Owner(name=head.name, parents=parents, quota=fields.optional("quota", _quota, Quota()))


def _quota(value: object, at: At) -> Quota | None:
    fields = fields_of(value, at, _QUOTA, _HINTS)
    if fields is None:
        return None
    return Quota(
        nodes_max=fields.maybe(_spelling(fields, "maxNodes"), values.count),
        concurrent_runs_max=fields.maybe(_spelling(fields, "maxConcurrentRuns"), values.count),
        gpu_ms_budget=fields.maybe(_spelling(fields, "gpuHoursBudget"), values.gpu_hours),
        node_ms_budget=fields.maybe(_spelling(fields, "nodeHoursBudget"), values.node_hours),
        fair_share_target_ppm=fields.maybe(_spelling(fields, "fairShareTarget"), _SHARE),
        burst_allowance_ppm=fields.maybe(_spelling(fields, "burstAllowance"), _BURST),
    )


def _spelling(fields: Fields, name: str) -> str:
    """Return the spelling of ``name`` that the document uses; report a fault if it uses both."""
    other = SNAKE_CASE[name]
    if other not in fields:
        return name
    if name in fields:
        fields.at(other).fault(f"repeats {name} in another spelling", "keep one of the two")
    return other
