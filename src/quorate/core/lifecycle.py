"""The life of a run: started, refused, ended, put back. Each function writes events to a scribe."""

from __future__ import annotations

from msgspec.structs import replace

from quorate.core.admit import Admitted
from quorate.core.beside import admit_beside, write_beside
from quorate.core.claims import over_pool_size, write_claim
from quorate.core.fill import fill_beside, write_fill
from quorate.core.follow import waits_for_upstream
from quorate.core.glance import still_no_room
from quorate.core.held_back import held_back
from quorate.core.queue import in_turn
from quorate.core.quota import HARD, still_over_quota, waiting, woken
from quorate.core.scribe import Scribe
from quorate.core.stops import end_lease, finish, leases_under
from quorate.model.events import EndReason, Outcome, RunRefused
from quorate.model.records import RunRecord
from quorate.model.refusal import Refusal, RefusalCode
from quorate.model.specs import Run


def try_start(scribe: Scribe, run: Run, *, leases_ever: int, known: Refusal | None) -> None:
    """Write the start of ``run``, or why it waits if that is news."""
    view = scribe.view
    if still_no_room(scribe, run, known, promised=bool(view.reservations)):
        return
    waits = waits_for_upstream(view, run) or held_back(view, run.name, scribe.now_ms)
    answer = waits or admit_beside(view, run, scribe.now_ms, has_executor=scribe.has_executor)
    if run.sensitive:
        _grant(scribe, run, answer)
        return
    if isinstance(answer, Refusal) and answer.code in HARD:
        waits = answer = waiting(view, run, answer)
    if isinstance(answer, Admitted):
        write_beside(scribe, run, answer, leases_ever=leases_ever)
        return
    filled = None
    if waits is None:
        filled = fill_beside(view, run, scribe.now_ms, has_executor=scribe.has_executor)
    if filled is not None:
        write_fill(scribe, run, filled, leases_ever=leases_ever)
    elif is_news(known, answer):
        scribe.write(
            RunRefused(at_ms=scribe.now_ms, actor=scribe.actor, run=run.name, refusal=answer)
        )


def _grant(scribe: Scribe, run: Run, answer: Admitted | Refusal) -> None:
    """Write a claim, or that it is refused: then nothing of what was asked will be kept."""
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


def is_news(known: Refusal | None, refusal: Refusal) -> bool:
    """Return whether ``refusal`` is another reason to wait than ``known``, or another's quota."""
    if known is None or known.code is not refusal.code:
        return True
    if refusal.code is not RefusalCode.WAITING_FOR_QUOTA:
        return False
    return known.subject != refusal.subject or bool(known.shortages) != bool(refusal.shortages)


def complete_run(scribe: Scribe, record: RunRecord, outcome: Outcome, note: str = "") -> None:
    """Write that the run's work has ended by itself, and that its leases end with it."""
    reason = EndReason.END if outcome is Outcome.COMPLETED else EndReason.FAIL
    for name in leases_under(scribe.view, record):
        lease = scribe.view.leases[name]
        end_ms = max(lease.fact.start_ms, min(scribe.now_ms, lease.hold_ends_ms))
        end_lease(scribe, name, reason if record.leases else EndReason.ROUND_END, end_ms=end_ms)
    finish(scribe, record.spec.name, reason, outcome, note)


def try_waiting(scribe: Scribe) -> None:
    """Try every waiting run that has no reservation, in the order of the queue.

    One that waits for a quota is tried when its owner may have headroom again, and not before.
    """
    if not scribe.somebody_waits:
        return
    full: set[tuple[str, str]] = set()  # Starting makes no room, so who is at a limit stays so.
    for name in in_turn(scribe, [*scribe.view.queued, *woken(scribe)]):
        view = scribe.view
        record = view.runs[name]
        if record.reservation is not None or still_over_quota(view, record, full):
            continue
        try_start(scribe, record.spec, leases_ever=record.leases_ever, known=record.refusal)
