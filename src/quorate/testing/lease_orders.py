"""Builds the orders to start leases, for tests of executors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from quorate.model.events import LeaseStarted, Role, StartReason, Tier
from quorate.model.specs import Run, envelope_id
from quorate.ports.executor_port import StartLease
from quorate.testing.builders import NOW_MS

GRACE_MS = 5_000


def lease_started(
    name: str,
    slots: Mapping[str, Iterable[int]],
    *,
    bundle: int = 0,
    role: Role = Role.ACTIVE,
    reason: StartReason = StartReason.START,
) -> LeaseStarted:
    """Return the start of a lease whose name is ``RUN/NUMBER``; ``slots`` has the GPUs by node."""
    run, _, number = name.rpartition("/")
    place = f"spare/{number}" if role is Role.SPARE else f"group/{number}"
    return LeaseStarted(
        at_ms=NOW_MS,
        actor="test",
        lease=name,
        run=run,
        partner=None,
        comp_path=place,
        bundle=bundle,
        role=role,
        slots=tuple((node, sum(1 << each for each in gpus)) for node, gpus in slots.items()),
        payer=envelope_id("b", "e"),
        tier=Tier.OWNED,
        hold_gpu_ms=0,
        start_ms=NOW_MS,
        reason=reason,
    )


def start_lease(spec: Run, fact: LeaseStarted, *, grace_ms: int = GRACE_MS) -> StartLease:
    """Return the order to start ``fact`` of the run that ``spec`` describes."""
    assert fact.run == spec.name, (fact, spec)
    return StartLease(fact, spec, grace_ms)
