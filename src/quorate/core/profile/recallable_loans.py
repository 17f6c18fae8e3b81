"""Finds the loans that a lender may recall: those of envelopes that state a recall notice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from quorate.core.profile.lease_ends import is_overdue, recall_of, run_end_ms
from quorate.model.events import Tier
from quorate.model.specs import EnvelopeId, Run, envelope_id
from quorate.model.state.records import Lease
from quorate.model.state.state_view import StateView


@dataclass(frozen=True, slots=True)
class Loan:
    """A bundle that borrows from ``payers``, which all have one owner, the lender.

    If the lender recalls the loan now, the bundle ends by ``due_ms``.

    ``start_ms`` is the start of the newest borrowed lease, and ``end_ms`` is when the run is
    expected to end by itself. ``is_overdue`` says that the run has passed its declared end.
    ``barred`` are all envelopes of the lender: if one of these envelopes took over the bundle, the
    lender would get nothing back.
    """

    run: str
    bundle: int
    payers: tuple[EnvelopeId, ...]
    due_ms: int
    start_ms: int
    end_ms: int
    is_overdue: bool
    run_seq: int
    barred: frozenset[EnvelopeId]

    @property
    def key(self) -> tuple[str, int]:
        """The run and the number of the bundle, which together identify the loan."""
        return self.run, self.bundle

    @property
    def is_worth_a_recall(self) -> bool:
        """Whether the run is overdue, or a recall would end the bundle before its expected end.

        The expected end of an overdue run is only an estimate, and each new estimate is later.
        """
        return self.is_overdue or self.due_ms < self.end_ms


def recallable(view: StateView, run: Run, now_ms: int, *, has_executor: bool) -> list[Loan]:
    """Return the loans that the owner of ``run`` may recall for it, the newest first.

    Loans that are stopping or already recalled are left out, because their GPUs come back anyway.
    Loans to runs in rounds are left out, because such a loan is made for one round at a time.
    """
    if not view.lenders:
        return []
    leases: dict[tuple[str, int], list[Lease]] = {}
    for flavor in run.flavors:
        for key in view.lenders.get(flavor, ()):
            account = view.envelopes[key]
            has_terms = account.spec.lending.recall_notice_ms is not None
            if account.owner != run.owner or not has_terms or not account.lent_gpus_active:
                continue
            for name in view.payer_leases.get(key, ()):
                lease = view.leases[name]
                if _may_be_recalled(view, lease):
                    leases.setdefault((lease.fact.run, lease.fact.bundle), []).append(lease)
    found = [_loan(view, *key, of, now_ms, has_executor) for key, of in leases.items()]
    found.sort(key=lambda loan: (-loan.start_ms, -loan.run_seq, -loan.bundle))
    return found


def has_loans(view: StateView, owner: str) -> bool:
    """Return whether ``owner`` has lent GPUs that it may recall."""
    if not view.lenders:
        return False
    return any(
        account.lent_gpus_active and account.spec.lending.recall_notice_ms is not None
        for budget in view.owner_budgets.get(owner, ())
        for line in view.budgets[budget].envelopes
        for account in (view.envelopes[envelope_id(budget, line.name)],)
    )


def _may_be_recalled(view: StateView, lease: Lease) -> bool:
    record = view.runs[lease.fact.run]
    return (
        lease.fact.tier is Tier.BORROWED
        and lease.ending is None
        and record.stopping is None
        and record.spec.rounds is None
        and recall_of(view, lease) is None
    )


def _loan(  # noqa: PLR0913, PLR0917 - what, of whom, and from when
    view: StateView,
    run: str,
    bundle: int,
    leases: Sequence[Lease],
    now_ms: int,
    has_executor: bool,  # noqa: FBT001 - as its caller is asked
) -> Loan:
    payers = tuple(sorted({lease.fact.payer for lease in leases}))
    notices = [view.envelopes[key].spec.lending.recall_notice_ms or 0 for key in payers]
    # Work that has to stop gets its whole grace, even if the notice is shorter.
    grace_ms = max(lease.grace_ms for lease in leases) if has_executor else 0
    due_ms = now_ms + max(*notices, grace_ms, 1)
    end_ms = run_end_ms(view, view.runs[run], now_ms)
    has_overrun = is_overdue(view, view.runs[run], now_ms)
    if has_overrun:
        # Firm starts may rely on the run's expected end. A stop that begins before that end may be
        # complete only after that end.
        due_ms = max(due_ms, end_ms + grace_ms)
    return Loan(
        run,
        bundle,
        payers,
        due_ms,
        max(lease.fact.start_ms for lease in leases),
        end_ms,
        has_overrun,
        view.runs[run].seq,
        frozenset(
            envelope_id(name, line.name)
            for name in view.owner_budgets.get(view.envelopes[payers[0]].owner, ())
            for line in view.budgets[name].envelopes
        ),
    )
