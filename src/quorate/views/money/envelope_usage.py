"""How many GPUs each envelope pays for, and how many more it could pay for. Pure.

The rows are computed from the documents of envelopes, caps and leases that programs receive. So a
ledger file and a service show the same values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from quorate.model.api_version import API_VERSION
from quorate.views.table import Column, right
from quorate.views.word_forms import hours

COLUMNS = (
    Column("BUDGET"),
    Column("ENVELOPE"),
    Column("OWNER"),
    Column("FLAVOR"),
    right("OWNED"),
    right("SHARED"),
    right("BORROWED"),
    right("HEADROOM"),
    right("GPU-HOURS-FREE"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvelopeUsage:
    """How many GPUs an envelope pays for: for its owner, for the owner's family, for borrowers.

    ``headroom_gpus`` is how many more GPUs the envelope can pay for; 0 outside its window.
    """

    budget: str
    envelope: str
    owner: str
    flavor: str
    owned_gpus: int
    shared_gpus: int
    borrowed_gpus: int
    headroom_gpus: int
    free_gpu_ms: int

    def row(self) -> tuple[str, ...]:
        """Return the cells of the table row."""
        return (
            self.budget,
            self.envelope,
            self.owner,
            self.flavor,
            str(self.owned_gpus),
            str(self.shared_gpus),
            str(self.borrowed_gpus),
            str(self.headroom_gpus),
            hours(self.free_gpu_ms),
        )

    def tree(self) -> dict[str, Any]:
        """Return the usage for programs."""
        return {
            "apiVersion": API_VERSION,
            "kind": "EnvelopeUsage",
            "metadata": {"name": f"{self.budget}/{self.envelope}"},
            "status": {
                "owner": self.owner,
                "flavor": self.flavor,
                "ownedGPUs": self.owned_gpus,
                "sharedGPUs": self.shared_gpus,
                "borrowedGPUs": self.borrowed_gpus,
                "headroomGPUs": self.headroom_gpus,
                "freeGPUMs": self.free_gpu_ms,
            },
        }


def envelope_usage(
    envelopes: Iterable[Mapping[str, Any]],
    caps: Sequence[Mapping[str, Any]],
    leases: Iterable[Mapping[str, Any]],
) -> list[EnvelopeUsage]:
    """Return the usage of ``envelopes``, in their order.

    A caller who sees an envelope sees all leases of its owner, but may not see all leases of the
    family. So the family's GPUs are computed: the active GPUs minus the owned and the lent GPUs.
    """
    owned: dict[str, int] = {}
    for lease in leases:
        status = lease["status"]
        if status["tier"] == "owned":
            owned[status["payer"]] = owned.get(status["payer"], 0) + status["gpus"]
    return [_usage(each, caps, owned.get(each["metadata"]["name"], 0)) for each in envelopes]


def _usage(
    envelope: Mapping[str, Any], caps: Sequence[Mapping[str, Any]], owned: int
) -> EnvelopeUsage:
    budget, _, name = envelope["metadata"]["name"].rpartition("/")
    spec, status = envelope["spec"], envelope["status"]
    lent = status["lentGPUs"]
    return EnvelopeUsage(
        budget=budget,
        envelope=name,
        owner=status["owner"],
        flavor=spec["flavor"],
        owned_gpus=owned,
        shared_gpus=status["activeGPUs"] - owned - lent,
        borrowed_gpus=lent,
        headroom_gpus=_headroom(budget, name, envelope, caps),
        free_gpu_ms=status["freeGPUMs"],
    )


def _headroom(
    budget: str, name: str, envelope: Mapping[str, Any], caps: Sequence[Mapping[str, Any]]
) -> int:
    """Return how many more GPUs the envelope and the caps over it allow now."""
    status = envelope["status"]
    if not status["usable"]:
        return 0
    left = [envelope["spec"]["concurrency"] - status["activeGPUs"] - status["reservedGPUs"]]
    for cap in caps:
        limit = cap["spec"].get("maxConcurrency")
        is_over = cap["metadata"]["name"].rpartition("/")[0] == budget
        if is_over and limit is not None and name in cap["spec"]["envelopes"]:
            left.append(limit - cap["status"]["activeGPUs"] - cap["status"]["reservedGPUs"])
    return int(max(0, min(left)))
