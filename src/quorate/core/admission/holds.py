"""Holds: the GPU time that a start sets aside on its payer, and how a hold is extended.

As time passes, the held amount becomes spent. The end of the lease releases the rest of the hold.
Spent + held never exceeds the granted amount. If a lease lasts longer than its hold, the hold is
extended by a fixed time, the quantum, as long as the payer has money. When the money is used up, or
the payer's window closes, the whole bundle of the lease stops.
"""

from __future__ import annotations

from typing import Final

from quorate.core.admission.payers import family_payers
from quorate.model.amounts import HOLD_QUANTUM_MS, MINUTE_MS
from quorate.model.events import Tier
from quorate.model.specs import Discipline, Pool, Run
from quorate.model.state.durations import declared_ms, grace_ms
from quorate.model.state.records import EnvelopeAccount, Lease
from quorate.model.state.state_view import StateView

_ROUNDS: Final = Discipline.ROUNDS
ROUND_SLACK_MS: Final = MINUTE_MS
"""How late the next round may begin, at most, without an extension of the holds of this round."""


def expected_ms(run: Run, pool: Pool) -> int:
    """Return how long ``run`` is expected to take from its start.

    For a claim the result is exact. In a pool of discipline ``rounds`` the result is one round plus
    the run's grace.
    """
    if pool.discipline is _ROUNDS:
        return pool.round_ms + grace_ms(run, pool)
    said_ms = run.expected_duration_ms
    if run.sensitive and said_ms is not None:
        return said_ms
    return declared_ms(run, pool)


def hold_duration_ms(run: Run, pool: Pool) -> int:
    """Return how long a start of ``run`` is paid for in advance: the expected duration plus grace.

    A claim is over at its stated end, and its work stops one grace period before this end; so a
    claim is paid for without additional grace. A round is paid for to its end, for a short slack
    after its end, and for grace. The slack is needed because the hold of a run that keeps its GPUs
    is extended only when the next round begins.
    """
    if run.sensitive:
        return expected_ms(run, pool)
    if pool.discipline is _ROUNDS:
        return pool.round_ms + ROUND_SLACK_MS + grace_ms(run, pool)
    return expected_ms(run, pool) + grace_ms(run, pool)


def extension_ms(view: StateView, lease: Lease, now_ms: int) -> int:
    """Return by how many milliseconds the hold of ``lease`` can be extended to outlast ``now_ms``.

    The extension is the least number of quanta that suffices. It is shorter if the payer's window
    ends earlier, or if the payer, its caps or its lending limits allow less. The result is 0 if no
    money is left, or if the payer may no longer pay for this run.
    """
    account = view.envelopes[lease.fact.payer]
    if not may_still_pay(view, lease):
        return 0
    needed = now_ms + 1 - lease.hold_ends_ms
    wanted = -(-needed // HOLD_QUANTUM_MS) * HOLD_QUANTUM_MS
    return _affordable_ms(view, lease, account, wanted)


def extension_to_ms(view: StateView, lease: Lease, until_ms: int) -> int:
    """Return how much longer the hold of ``lease`` must be to last until ``until_ms``.

    The result is -1 if the payer cannot pay for all of this time. A shorter extension would not
    help, because a round is paid for as a whole.
    """
    wanted = until_ms - lease.hold_ends_ms
    if wanted <= 0:
        return 0
    if not may_still_pay(view, lease):
        return -1
    found = _affordable_ms(view, lease, view.envelopes[lease.fact.payer], wanted)
    return found if found == wanted else -1


def _affordable_ms(view: StateView, lease: Lease, account: EnvelopeAccount, wanted: int) -> int:
    affordable = _gpu_ms_left(view, account, lease.fact.tier) // lease.gpus
    possible = min(wanted, affordable, account.spec.end_ms - lease.hold_ends_ms)
    return max(0, possible)


def may_still_pay(view: StateView, lease: Lease) -> bool:
    """Return whether the payer of ``lease`` may still pay for this lease.

    Budgets, terms of lending and families may have changed since the lease started. If the payer
    may no longer pay, the present hold stays valid but is not extended.
    """
    fact = lease.fact
    owner, account = view.runs[fact.run].spec.owner, view.envelopes[fact.payer]
    if account.retired:
        return False
    if fact.tier is Tier.BORROWED:
        return account.spec.lending.admits(owner)
    payers = family_payers(view, owner, account.spec.flavor)
    return any(key == fact.payer for key, _ in payers)


def _gpu_ms_left(view: StateView, account: EnvelopeAccount, tier: Tier) -> int:
    """Return how many more GPU-milliseconds ``account`` can hold for a lease of ``tier``."""
    left = account.spec.gpu_ms_granted - account.committed_gpu_ms
    for key in account.caps:
        cap = view.caps[key]
        if cap.spec.gpu_ms_max is not None:
            left = min(left, cap.spec.gpu_ms_max - cap.committed_gpu_ms)
    lending = account.spec.lending
    if tier is Tier.BORROWED and lending.gpu_ms_max is not None:
        left = min(left, lending.gpu_ms_max - account.lent_committed_gpu_ms)
    return left
