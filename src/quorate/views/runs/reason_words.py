"""Why leases begin and end, and the outcome of a stop, in words. Pure."""

from __future__ import annotations

from typing import Final

from quorate.documents.times import time_text
from quorate.model.events import EndReason, LeaseEnding, Outcome, RunStopping, StartReason
from quorate.views.runs.tried_words import said

_BEGAN: Final[dict[StartReason, str]] = {
    StartReason.START: "the run was admitted",
    StartReason.GROW: "one step more",
    StartReason.SWAP: "continues after a loss",
    StartReason.HANDOVER: "another payer took over, on the same slots",
}

_ENDED: Final[dict[EndReason, str]] = {
    EndReason.END: "the work is done",
    EndReason.CANCELLED: "the run was cancelled",
    EndReason.FAIL: "the node or the work failed",
    EndReason.SWAP: "the spare took over",
    EndReason.SHRINK: "the run continues without this step",
    EndReason.DROP_SPARE: "the spare was given up to make room",
    EndReason.RECLAIMED_BY_SPARE: "the spare's slots were needed",
    EndReason.FILLED: "another run fills the spare's slots",
    EndReason.DRAINED: "the node is taken out of service",
    EndReason.OVERSTAYED: "the slots were reserved for another run",
    EndReason.BURST_CUT: "the owner was above its share",
    EndReason.RANDOM_PREEMPT: "drawn in a lottery",
    EndReason.BUDGET_EXHAUSTED: "the envelopes that may pay have no GPU-hours left",
    EndReason.WINDOW_CLOSED: "the payer's window ended",
    EndReason.HANDOVER: "another payer takes over",
    EndReason.ROUND_END: "the round is over",
    EndReason.RECALLED: "its lender recalled the loan",
    EndReason.START_REFUSED: "the work could not be started",
}


def bundle_words(bundle: int) -> str:
    """Return a bundle in words: bundle 0 is the run itself, and bundle N is its step N."""
    return "all of it" if bundle == 0 else f"its step {bundle}"


def began(reason: StartReason) -> str:
    """Return why a lease began: the recorded word, then its meaning."""
    return f"{reason}, {_BEGAN[reason]}"


def ended(reason: EndReason) -> str:
    """Return why a lease ended: the recorded word, then its meaning."""
    return f"{reason}, {_ENDED[reason]}"


def stopping(event: RunStopping) -> str:
    """Return why a run is stopping, and what happens when its last lease has ended."""
    return f"stopping{_stopping(event, dry_run=False)}"


def run_stopping(event: RunStopping, *, dry_run: bool = False) -> str:
    """Return the sentence that a run is stopping, with the words of ``stopping``."""
    verb = said("is stopping", dry_run=dry_run)
    return f"run/{event.run} {verb}{_stopping(event, dry_run=dry_run)}"


def _stopping(event: RunStopping, *, dry_run: bool) -> str:
    note = f" ({event.note})" if event.note else ""
    if event.reason is EndReason.CANCELLED and event.outcome is Outcome.CANCELLED:
        return f"; {said('it was cancelled', dry_run=dry_run)}{note}"
    return f": {ended(event.reason)}{note}; then it {_afterwards(event.outcome)}"


def _afterwards(outcome: Outcome | None) -> str:
    return "waits again" if outcome is None else f"is {outcome.lower()}"


def lease_stopping(event: LeaseEnding, *, dry_run: bool = False) -> str:
    """Return why a lease is stopping, and its deadline."""
    verb = said("is stopping", dry_run=dry_run)
    until = f"it has until {time_text(event.deadline_ms)}"
    if event.deadline_ms <= event.at_ms:
        until = "it has no grace"
    return f"{verb}: {ended(event.reason)}; {until}"
