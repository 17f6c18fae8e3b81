"""Reads the leases of a world, and records them as events in a state, for ``calc cover``.

The nodes of the leases do not matter, because ``calc cover`` only finds payers. A lease is open
unless the world states its end or says that it is closed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from quorate.calc.world_funds import Funds
from quorate.calc.world_reader import settle
from quorate.calc.world_runs import RUN
from quorate.core.admission.payers import family_payers
from quorate.documents import values
from quorate.documents.document_problem import quoted
from quorate.documents.field_reader import At, Fields, complete, fields_of, listed
from quorate.documents.times import time_ms
from quorate.model.events import (
    EndReason,
    LeaseEnded,
    LeaseStarted,
    NodeApplied,
    Role,
    RunSubmitted,
    StartReason,
    Tier,
)
from quorate.model.specs import EnvelopeId, Node, Run, envelope_id
from quorate.model.state.apply_event import apply
from quorate.model.state.free_slots import all_slots
from quorate.model.state.state import State

LEASE: Final = frozenset(
    {
        "name",
        "run",
        "owner",
        "payerNamespace",
        "budget",
        "envelope",
        "node",
        "gpus",
        "start",
        "end",
        "closed",
        "role",
        "group",
        "reason",
    }
)
_ACTOR: Final = "calc"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldLease:
    """A lease of a world, with its payer."""

    run: str
    owner: str
    payer: EnvelopeId
    flavor: str
    gpus: int
    start_ms: int
    end_ms: int | None


def read_leases(fields: Fields, at: At, funds: Funds, now_ms: int) -> tuple[WorldLease, ...]:
    """Return the leases of a world.

    The owner of a lease is the owner of its run or, if the run is not known, of its budget.
    """
    runs = complete(fields.optional("runs", lambda v, a: listed(v, a, _run), ())) or ()
    owners = dict(runs)

    def lease(value: object, place: At) -> WorldLease | None:
        return _lease(value, place, funds, owners, now_ms)

    found = complete(fields.optional("leases", lambda v, a: listed(v, a, lease), ())) or ()
    settle(at)
    return found


def _run(value: object, at: At) -> tuple[str, str] | None:
    """Return the key of a run, ``namespace/name``, and its owner; ignore other fields."""
    fields = fields_of(value, at, RUN)
    if fields is None:
        return None
    name = fields.required("name", values.line)
    namespace = fields.optional("namespace", values.line, "")
    owner = fields.optional("owner", values.line, "")
    return None if name is None else (f"{namespace}/{name}" if namespace else name, owner)


def _lease(
    value: object, at: At, funds: Funds, owners: dict[str, str], now_ms: int
) -> WorldLease | None:
    fields = fields_of(value, at, LEASE)
    if fields is None:
        return None
    run = fields.optional("run", values.line, "")
    budget_name = fields.required("budget", values.line, remedy="name the budget that pays")
    envelope_name = fields.required("envelope", values.line, remedy="name the envelope that pays")
    gpus = fields.required("gpus", values.gpus)
    start_ms = fields.optional("start", time_ms, now_ms)
    closed = fields.optional("closed", values.truth, default=False)
    end_ms = fields.optional("end", time_ms, now_ms if closed else None)
    namespace = fields.maybe("payerNamespace", values.line)
    if budget_name is None or envelope_name is None or gpus is None:
        return None
    budget = funds.find(name=budget_name, namespace=namespace)
    if budget is None:
        fields.at("budget").fault(f"is unknown: {quoted(budget_name)}", "add it to budgets")
        return None
    envelopes = {envelope.name: envelope for envelope in budget.spec.envelopes}
    if envelope_name not in envelopes:
        fields.at("envelope").fault(
            f"is unknown in budget {quoted(budget_name)}: {quoted(envelope_name)}", "add it there"
        )
        return None
    return WorldLease(
        run=run,
        owner=owners.get(run) or budget.spec.owner,
        payer=envelope_id(budget.spec.name, envelope_name),
        flavor=envelopes[envelope_name].flavor,
        gpus=gpus,
        start_ms=start_ms,
        end_ms=end_ms,
    )


def tier_of(state: State, lease: WorldLease) -> Tier:
    """Return the relation of the payer of ``lease`` to the owner of its run."""
    family = dict(family_payers(state, lease.owner, lease.flavor))
    return family.get(lease.payer, Tier.BORROWED)


def record(state: State, leases: tuple[WorldLease, ...], now_ms: int) -> None:
    """Record ``leases`` in ``state``, each on an extra node.

    Each lease holds as many GPU-milliseconds as it has used.
    """
    # All nodes are recorded first, so that the topology is computed once.
    for number, lease in enumerate(leases):
        node = Node(
            name=f"lease-{number}",
            flavor=lease.flavor,
            gpus=lease.gpus,
            region="",
            cluster="",
            domain="",
        )
        apply(state, NodeApplied(at_ms=now_ms, actor=_ACTOR, node=node))
    for number, lease in enumerate(leases):
        name = f"lease-{number}"
        run = Run(name=name, owner=lease.owner, flavors=(lease.flavor,), gpus=lease.gpus)
        end_ms = now_ms if lease.end_ms is None else min(lease.end_ms, now_ms)
        apply(state, RunSubmitted(at_ms=now_ms, actor=_ACTOR, run=run))
        apply(
            state,
            LeaseStarted(
                at_ms=now_ms,
                actor=_ACTOR,
                lease=name,
                run=name,
                partner=None,
                comp_path="group/0",
                bundle=0,
                role=Role.ACTIVE,
                slots=((name, all_slots(lease.gpus)),),
                payer=lease.payer,
                tier=tier_of(state, lease),
                hold_gpu_ms=lease.gpus * max(0, end_ms - lease.start_ms),
                start_ms=lease.start_ms,
                reason=StartReason.START,
            ),
        )
        if lease.end_ms is not None and lease.end_ms <= now_ms:
            ended_ms = max(lease.end_ms, lease.start_ms)
            apply(
                state,
                LeaseEnded(
                    at_ms=now_ms, actor=_ACTOR, lease=name, reason=EndReason.END, end_ms=ended_ms
                ),
            )
