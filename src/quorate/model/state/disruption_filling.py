"""Disruption accounts: how much work the conflicts of an owner may still cost in a pool.

The state stores how much an account lacks to be full. So an account that was never charged is full,
whatever its size. An account fills continuously: its rate is a part of the pool's GPUs, multiplied
by the owner's target share. See docs/adr/0031-disruption-accounts-and-notices.md.
"""

from __future__ import annotations

from typing import Final

from quorate.model.amounts import PPM
from quorate.model.state.state_view import StateView

PARTS: Final = PPM * PPM
"""The rate at which an account fills is counted in parts of a GPU; this many parts are one GPU."""


def target_share_ppm(view: StateView, owner: str) -> int:
    """Return the stated target share of ``owner``, else an equal part of what the others leave.

    An owner that only budgets name gets an equal part, too.
    """
    declared = view.owners.get(owner)
    stated = None if declared is None else declared.quota.fair_share_target_ppm
    if stated is not None:
        return stated
    soft = view.soft
    if declared is not None or owner in soft.undeclared:
        return soft.shared_target_ppm
    targets = [each.quota.fair_share_target_ppm for each in view.owners.values()]
    left_ppm = max(0, PPM - sum(target or 0 for target in targets))
    return left_ppm // (targets.count(None) + len(soft.undeclared) + 1)


def filling(view: StateView, owner: str, pool: str) -> int:
    """Return the rate at which the account of ``owner`` in ``pool`` fills, in ``PARTS``."""
    rate_ppm = view.pools[pool].conflict_rate_ppm
    return view.pool_gpus(pool) * rate_ppm * target_share_ppm(view, owner)


def lacking_gpu_ms(view: StateView, owner: str, pool: str, now_ms: int) -> int:
    """Return the amount that the account of ``owner`` in ``pool`` lacks to be full at ``now_ms``.

    The values of ``view`` (the pool's GPUs, its rate and the owner's share) are used for the whole
    time since the account was last charged.
    """
    known = view.disruption.get((owner, pool))
    if known is None:
        return 0
    lacked, at_ms = known
    return max(0, lacked - filling(view, owner, pool) * (now_ms - at_ms) // PARTS)
