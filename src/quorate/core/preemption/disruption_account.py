"""Disruption accounts: how much work the conflicts of an owner may still cost a pool.

There is one account for each owner and pool, in GPU-milliseconds of lost work. An account starts
full, and fills at a rate of ``disruptionRate`` times the pool's GPUs times the owner's target
share. The size of an account is the larger of two amounts. The first is the amount that the account
gains in seven days. The second is the pool's minimum runtime times the GPUs for which the open
envelopes of the owner and its family can pay at once. Only the owner that calls a conflict is
charged, so no owner can use up the account of another.
See docs/adr/0031-disruption-accounts-and-notices.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from quorate.core.admission.payers import family_payers
from quorate.core.decision_log import DecisionLog
from quorate.model.amounts import DAY_MS
from quorate.model.events import ConflictDeferred
from quorate.model.selector import contradicts
from quorate.model.state.disruption_filling import PARTS, filling, lacking_gpu_ms
from quorate.model.state.state_view import StateView

FULL_MS: Final = 7 * DAY_MS
"""The size of an account is at least the amount that it gains in this time."""


@dataclass(frozen=True, slots=True)
class Account:
    """A disruption account at ``now_ms``, in GPU-milliseconds.

    ``has`` is its present amount, which is negative if conflicts cost more than the account had.
    The account fills at a rate of ``filling / PARTS`` GPUs up to ``size``. ``charged_ms`` is when
    the account was last charged, and ``lacked`` is how far it was below ``size`` after that charge.
    """

    size: int
    has: int
    filling: int
    now_ms: int
    charged_ms: int
    lacked: int

    def covers(self, costs: int) -> bool:
        """Return whether a conflict that may cost ``costs`` can be called now."""
        return self.has >= costs

    def covered_at_ms(self, costs: int) -> int | None:
        """Return the first instant, now or later, when the account covers ``costs``; or None."""
        if self.covers(costs):
            return self.now_ms
        if costs > self.size or not self.filling:
            return None
        missing = costs - self.size + self.lacked
        return self.charged_ms + -(-missing * PARTS // self.filling)


def account_of(view: StateView, owner: str, pool: str, now_ms: int) -> Account:
    """Return the disruption account of ``owner`` in ``pool``."""
    parts = filling(view, owner, pool)
    lacked, charged_ms = view.disruption.get((owner, pool), (0, now_ms))
    spec = view.pools[pool]
    size = 0
    if spec.conflict_rate_ppm:
        funded = funded_gpus(view, owner, pool, now_ms)
        size = max(FULL_MS * parts // PARTS, funded * spec.least_runtime_ms)
    has = size - lacking_gpu_ms(view, owner, pool, now_ms)
    return Account(size, has, parts, now_ms, charged_ms, lacked)


def funded_gpus(view: StateView, owner: str, pool: str, now_ms: int) -> int:
    """Return how many GPUs of ``pool`` an owner and its family can pay for at once.

    Only envelopes with an open window are counted. Of each flavor, no more GPUs are counted than
    the pool has.
    """
    gpus = 0
    for flavor in view.flavors():
        index = view.domains(pool, flavor)
        if not index.keys:
            continue
        width = 0
        for key, _ in family_payers(view, owner, flavor):
            account = view.envelopes[key]
            line = account.spec
            if not account.retired and line.start_ms <= now_ms < line.end_ms:
                is_here = any(
                    not contradicts(line.selector, view.island(each).labels) for each in index.keys
                )
                width += line.concurrency if is_here else 0
        gpus += min(width, index.gpus_total)
    return gpus


# --- Runs that wait for an account ----------------------------------------------------------------


def note_deferral(log: DecisionLog, run: str, account: Account, costs_gpu_ms: int) -> None:
    """Write that ``run`` waits until its owner's account covers the cost of its conflict.

    The run is planned again when the account covers the cost. If the run already has a
    deferral that ends at that instant or earlier, nothing is written, because the cost is computed
    again when that deferral ends.
    """
    covered_ms = account.covered_at_ms(costs_gpu_ms)
    if covered_ms is None or covered_ms <= log.now_ms:
        return
    deferral = log.view.deferred.get(run)
    if deferral is None or deferral.covered_ms <= log.now_ms or deferral.covered_ms > covered_ms:
        log.write(
            ConflictDeferred(
                at_ms=log.now_ms,
                actor=log.actor,
                run=run,
                pool=log.view.runs[run].spec.pool,
                has_gpu_ms=account.has,
                costs_gpu_ms=costs_gpu_ms,
                covered_ms=covered_ms,
            )
        )


def deferrals_due_ms(view: StateView, after_ms: int) -> Iterator[int]:
    """Yield the instants after ``after_ms`` when accounts will cover conflicts of waiting runs."""
    for deferred in view.deferred.values():
        if deferred.covered_ms > after_ms:
            yield deferred.covered_ms
