"""The payers of a run or an array, for programs. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from quorate.model.events import Tier
from quorate.model.specs import EnvelopeId
from quorate.views.runs.instant import Charge, Moment, lenders_of


def funding_tree(moment: Moment, charges: Sequence[Charge]) -> dict[str, Any]:
    """Return the sums of ``charges`` by tier and by payer."""
    found: dict[str, Any] = {
        tier.value: {
            "gpus": sum(charge.gpus for charge in charges if charge.tier is tier),
            "spentGPUMs": sum(charge.gpu_ms for charge in charges if charge.tier is tier),
        }
        for tier in Tier
    }
    found["lenders"] = lenders_of(moment, charges)
    found["payers"] = [
        {
            "envelope": charge.payer,
            "tier": charge.tier.value,
            "gpus": charge.gpus,
            "spentGPUMs": charge.gpu_ms,
        }
        for charge in charges
    ]
    return found


def joined_charges(charges: Iterable[Charge]) -> list[Charge]:
    """Return ``charges`` of several runs, joined into one for each payer and tier."""
    found: dict[tuple[EnvelopeId, Tier], Charge] = {}
    for each in charges:
        key = (each.payer, each.tier)
        known = found.get(key)
        if known is None:
            found[key] = each
        else:
            gpus, gpu_ms = known.gpus + each.gpus, known.gpu_ms + each.gpu_ms
            found[key] = replace(known, gpus=gpus, gpu_ms=gpu_ms)
    return list(found.values())
