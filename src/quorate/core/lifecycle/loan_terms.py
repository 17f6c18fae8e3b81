"""Loans: the terms on which a run borrows GPUs."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from quorate.core.profile.lease_ends import recall_of
from quorate.model.events import Share, Tier
from quorate.model.specs import EnvelopeId
from quorate.model.state.records import Lease, RunRecord
from quorate.model.state.state_view import StateView


class LoanTerms(Struct, frozen=True, gc=False):
    """A loan of ``gpus`` GPUs from ``payer``, and the notice with which it may be recalled.

    If ``notice_ms`` is None, the loan cannot be recalled. If the loan has been recalled, ``due_ms``
    is the instant at which its work ends if the GPUs have no other payers by then.
    """

    payer: EnvelopeId
    gpus: int
    notice_ms: int | None
    due_ms: int | None = None


def terms_of(view: StateView, shares: Iterable[Share]) -> tuple[LoanTerms, ...]:
    """Return the terms of the borrowed part of ``shares``, one for each lender's envelope."""
    gpus: dict[EnvelopeId, int] = {}
    for share in shares:
        if share.tier is Tier.BORROWED:
            gpus[share.payer] = gpus.get(share.payer, 0) + share.gpus
    return tuple(LoanTerms(payer, count, _notice_ms(view, payer)) for payer, count in gpus.items())


def loans_of(view: StateView, record: RunRecord) -> tuple[LoanTerms, ...]:
    """Return the present loans of a run, one for each lender's envelope and due time."""
    gpus: dict[tuple[EnvelopeId, int | None], int] = {}
    for name in record.leases:
        for loan in terms_of_lease(view, view.leases[name]):
            key = (loan.payer, loan.due_ms)
            gpus[key] = gpus.get(key, 0) + loan.gpus
    return tuple(
        LoanTerms(payer, count, _notice_ms(view, payer), due_ms)
        for (payer, due_ms), count in gpus.items()
    )


def terms_of_lease(view: StateView, lease: Lease) -> tuple[LoanTerms, ...]:
    """Return the terms on which an open lease borrows GPUs; empty if it borrows none."""
    fact = lease.fact
    if fact.tier is not Tier.BORROWED:
        return ()
    recall = recall_of(view, lease)
    due_ms = None if recall is None else recall.due_ms
    return (LoanTerms(fact.payer, lease.gpus, _notice_ms(view, fact.payer), due_ms),)


def returning(view: StateView, run: str) -> tuple[tuple[EnvelopeId, int], ...]:
    """Return (envelope, due time) of each loan that is recalled for the waiting ``run``."""
    found = {(k.payer, k.due_ms) for k in view.recalls.values() if k.waiting_run == run}
    return tuple(sorted(found))


def _notice_ms(view: StateView, payer: EnvelopeId) -> int | None:
    return view.envelopes[payer].spec.lending.recall_notice_ms
