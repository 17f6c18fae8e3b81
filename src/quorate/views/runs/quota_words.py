"""A hard quota that a run waits for, as lines and fields: its numbers and who holds it. Pure."""

from __future__ import annotations

from quorate.core.admission.quota_holders import Holder, QuotaInTheWay
from quorate.model.closed_words import counted
from quorate.model.refusal import RefusalCode
from quorate.views.kinds.kind import Tree
from quorate.views.word_forms import gpus

_LIMITS = {
    RefusalCode.MAX_NODES: ("maxNodes", "node"),
    RefusalCode.MAX_CONCURRENT_RUNS: ("maxConcurrentRuns", "running run"),
}


def quota_lines(found: QuotaInTheWay) -> list[str]:
    """Return whose limit it is, its numbers, and the largest of those that hold something of it."""
    field, unit = _LIMITS[found.code]
    in_use = f"{counted(found.current, unit)} of {found.limit} in use"
    lines = [f"{field} of tenant {found.tenant}: {in_use}, {found.wanted} more wanted"]
    lines += [f"  {_holder(each)}" for each in found.holders]
    if found.others:
        lines.append(f"  and {counted(found.others, 'more run')}")
    return lines


def _holder(holder: Holder) -> str:
    where = counted(holder.nodes, "node")
    return f"run/{holder.run} of {holder.owner}: {gpus(holder.gpus)} on {where}"


def quota_tree(found: QuotaInTheWay) -> Tree:
    """Return the same for programs."""
    return {
        "code": found.code.value,
        "tenant": found.tenant,
        "current": found.current,
        "wanted": found.wanted,
        "limit": found.limit,
        "holders": [
            {"run": each.run, "owner": each.owner, "nodes": each.nodes, "gpus": each.gpus}
            for each in found.holders
        ],
        "otherHolders": found.others,
    }
