"""Computes when leases under a hard quota are expected to end.

The ends are kept between decisions (``ends_cache``). While a firm start needs the quota, the plan
has to be examined at the first of these ends.
"""

from __future__ import annotations

from quorate.core.admission.quota_holders import family_of
from quorate.core.profile.expected_returns import ExpectedReturns
from quorate.core.profile.lease_ends import lease_end_ms, said_end_ms
from quorate.model.state.expected_ends import End, Kept
from quorate.model.state.state_view import StateView


def quota_ends(view: StateView, bound: str, now_ms: int) -> list[End]:
    """Return the expected ends of the leases under the hard quota of owner ``bound``, in order."""
    return ExpectedReturns(view, now_ms).expected(_kept(view, bound))[0]


def is_quota_outlasted(view: StateView, bound: str, since_ms: int, now_ms: int) -> bool:
    """Return whether a lease under a quota has outlasted the end expected at ``since_ms``."""
    for end_ms, _, name in quota_ends(view, bound, since_ms):
        if end_ms > now_ms:
            break
        if lease_end_ms(view, view.leases[name], now_ms) > end_ms:
            return True
    return False


def _kept(view: StateView, bound: str) -> Kept:
    """Return the ends of the leases under the quota of ``bound``, as ``said_end_ms`` gives them."""
    cached = view.ends_cache.quotas.get(bound)
    if cached is not None and not cached[1]:
        return cached[0]
    if cached is None:
        said = [
            _said(view, name)
            for owner in family_of(view, bound)
            for name in view.owner_leases.get(owner, ())
        ]
    else:
        kept, changed = cached
        said = [end for end in kept.said if end[2] not in changed]
        said.extend(_said(view, name) for name in changed if name in view.leases)
    said.sort()
    kept = Kept(said, ([], []))  # Only the ends are read, not their curve.
    view.ends_cache.quotas.keep(bound, kept)
    return kept


def _said(view: StateView, name: str) -> End:
    lease = view.leases[name]
    return said_end_ms(view, lease), lease.gpus, name
