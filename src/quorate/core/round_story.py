"""What is known of a run that shares a pool in rounds: its share, and when the next one begins."""

from __future__ import annotations

from quorate.core.follow import waits_for_upstream
from quorate.model.amounts import SECOND_MS
from quorate.model.records import RunRecord
from quorate.model.refusal import Refusal, RefusalCode
from quorate.model.view import StateView


def next_round_ms(view: StateView, pool: str, now_ms: int) -> int:
    """Return when the next round of ``pool`` begins; one that is late begins any moment."""
    known = view.rounds.get(pool)
    return now_ms if known is None else max(now_ms, known.shared.until_ms)


def share_words(view: StateView, record: RunRecord) -> str:
    """Return which part of its time a run is to have on which flavor, in words."""
    known = view.rounds.get(record.spec.pool)
    name = record.spec.name
    share = None
    if known is not None:
        share = next((each for each in known.shared.shares if each.run == name), None)
    if known is None or share is None:
        return "its share is found when the next round begins"
    flavors = known.shared.flavors
    parts = [
        f"{ppm / 10_000:.3g} % on {flavor}"
        for flavor, ppm in zip(flavors, share.shares_ppm, strict=True)
        if ppm
    ]
    if not parts:
        why = known.shared.note or "nobody pays for it, or it cannot run on what is there"
        return f"its share is nothing: {why}"
    measured = [f for place, f in enumerate(flavors) if share.measured >> place & 1]
    by = f"measured on {', '.join(measured)}" if measured else "as declared"
    policy, listed = known.shared.policy, ", ".join(parts)
    told = f"of its time it is to have {listed} by {policy}; its rates are {by}"
    return "; ".join(filter(None, (told, _beside(view, record))))


def _beside(view: StateView, record: RunRecord) -> str:
    """Return with whom a run shares GPUs now, in words; empty where it does with nobody."""
    known = view.in_rounds[record.spec.name]
    if known.lease:
        return f"it shares the GPUs of run {view.leases[known.lease].fact.run}"
    partner = next((view.leases[name].fact.partner for name in record.leases), None)
    return "" if partner is None else f"it shares its GPUs with run {partner}"


def between_rounds(view: StateView, record: RunRecord, now_ms: int) -> Refusal | None:
    """Return why a run that shares in rounds has no GPUs now; None where it has some.

    What was refused to it in this round is told with it.
    """
    if record.leases or view.in_rounds[record.spec.name].lease:
        return None
    waits = waits_for_upstream(view, record.spec)
    if waits is not None:
        return waits
    pool = record.spec.pool
    wait_s = -(-(next_round_ms(view, pool, now_ms) - now_ms) // SECOND_MS)
    known = view.rounds.get(pool)
    number = 1 if known is None else known.shared.number + 1
    when = f"in {wait_s} s" if wait_s else "now"
    granted = known is not None and record.spec.name in known.waiting
    what = (
        "it is granted GPUs that others are leaving" if granted else f"round {number} begins {when}"
    )
    return Refusal(
        code=RefusalCode.NEXT_ROUND,
        subject=f"pool {pool!r} shares in rounds: {what}; {share_words(view, record)}",
        wanted=record.spec.gpus,
        also=record.refusal,
    )
