"""Starts: write the leases with which an admitted run starts."""

from __future__ import annotations

from collections.abc import Iterable

from quorate.core.admission.admit import Admitted
from quorate.core.admission.bind import LeaseDraft, bind
from quorate.core.decision_log import DecisionLog
from quorate.model.events import LeaseStarted, StartReason, lease_gpus
from quorate.model.specs import Run


def write_start(  # noqa: PLR0913 - a start has this many parts
    log: DecisionLog,
    run: Run,
    admitted: Admitted,
    *,
    leases_ever: int,
    reason: StartReason = StartReason.START,
    backfill: bool = False,
) -> None:
    """Write the leases of a start, one for each group and payer.

    ``backfill`` is true if the run starts while a run before it in the queue waits for its planned
    start.
    """
    assert not run.sensitive, run  # ``write_claim`` writes claims.
    drafts = bind(admitted.plan, admitted.demands, admitted.legs)
    write_leases(log, run.name, drafts, leases_ever, reason, start_ms=log.now_ms, backfill=backfill)


def write_leases(  # noqa: PLR0913 - an event has this many fields
    log: DecisionLog,
    run: str,
    drafts: Iterable[LeaseDraft],
    leases_ever: int,
    reason: StartReason,
    *,
    start_ms: int,
    partner: str | None = None,
    backfill: bool = False,
) -> None:
    """Write a lease for each of ``drafts``, numbered from ``leases_ever`` on."""
    for number, draft in enumerate(drafts, start=leases_ever):
        log.write(
            LeaseStarted(
                at_ms=log.now_ms,
                actor=log.actor,
                lease=f"{run}/{number}",
                run=run,
                partner=partner,
                comp_path=draft.comp_path,
                bundle=draft.bundle,
                role=draft.role,
                slots=draft.slots,
                payer=draft.payer,
                tier=draft.tier,
                hold_gpu_ms=lease_gpus(draft.slots) * draft.hold_ms,
                start_ms=start_ms,
                reason=reason,
                backfill=backfill,
            )
        )
