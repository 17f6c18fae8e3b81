"""The life of a run: started, refused, ended, put back. Each function writes events to a scribe."""

from __future__ import annotations

from msgspec.structs import replace

from quorate.core.admit import Admitted
from quorate.core.claims import over_pool_size, write_claim
from quorate.core.planning.beside import admit_beside
from quorate.core.quota import HARD
from quorate.core.scribe import Scribe
from quorate.core.stops import end_lease, finish, leases_under
from quorate.model.events import EndReason, Outcome, RunRefused
from quorate.model.records import RunRecord
from quorate.model.refusal import Refusal
from quorate.model.specs import Run


def grant_claim(scribe: Scribe, run: Run) -> None:
    """Write a claim, or that it is refused: then nothing of what was asked will be kept."""
    answer: Admitted | Refusal = admit_beside(
        scribe.view, run, scribe.now_ms, has_executor=scribe.has_executor
    )
    over = (
        None if isinstance(answer, Refusal) else over_pool_size(scribe.view, len(answer.plan.nodes))
    )
    refusal = answer if isinstance(answer, Refusal) else over
    if refusal is not None and refusal.code in HARD:
        refusal = replace(refusal, remedy="wait for what its owner holds, or have the limit raised")
    if isinstance(answer, Admitted) and refusal is None:
        write_claim(scribe, run, answer)
    elif refusal is not None:
        scribe.write(
            RunRefused(at_ms=scribe.now_ms, actor=scribe.actor, run=run.name, refusal=refusal)
        )


def complete_run(scribe: Scribe, record: RunRecord, outcome: Outcome, note: str = "") -> None:
    """Write that the run's work has ended by itself, and that its leases end with it."""
    reason = EndReason.END if outcome is Outcome.COMPLETED else EndReason.FAIL
    for name in leases_under(scribe.view, record):
        lease = scribe.view.leases[name]
        end_ms = max(lease.fact.start_ms, min(scribe.now_ms, lease.hold_ends_ms))
        end_lease(scribe, name, reason if record.leases else EndReason.ROUND_END, end_ms=end_ms)
    finish(scribe, record.spec.name, reason, outcome, note)
