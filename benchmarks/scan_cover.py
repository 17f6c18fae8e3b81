"""Finds payers in the plain way: by scanning all envelopes each time.

This is the baseline of ``cover``. Both methods use ``PayerList`` for the payers' remaining amounts,
so they differ only in how they find payers.
"""

from __future__ import annotations

from collections.abc import Sequence

from quorate.core.admission.cover import Covered
from quorate.core.admission.payers import CoverRequest, Demand, PayerList
from quorate.model.events import Tier
from quorate.model.specs import Sharing
from quorate.model.state.records import EnvelopeAccount
from quorate.model.state.state import State

_OWN, _SIBLING, _PARENT, _SPONSOR = range(4)


def scan_cover(state: State, request: CoverRequest, demands: Sequence[Demand]) -> Covered | None:
    """Return the legs if each payer in turn pays for the most GPUs; None if GPUs remain unpaid."""
    found = []
    for key, account in state.envelopes.items():
        rank = _rank(state, request, account)
        if rank is not None and account.spec.flavor == request.flavor:
            found.append((*rank, account.budget, account.spec.name, key))
    found.sort()
    tiers = {_OWN: Tier.OWNED, _SIBLING: Tier.SHARED, _PARENT: Tier.SHARED, _SPONSOR: Tier.BORROWED}
    payers = tuple((entry[-1], tiers[entry[0]]) for entry in found)
    family = tuple(payer for payer in payers if payer[1] is not Tier.BORROWED)
    for phase in (family, payers):
        legs = PayerList(state, request, phase).greedy(demands)
        if legs is not None:
            return Covered(tuple(legs))
    return None


def _rank(
    state: State, request: CoverRequest, account: EnvelopeAccount
) -> tuple[int, int, str] | None:
    """Return the position of ``account`` in the request's cover order; None if it cannot pay."""
    owner, own = account.owner, request.owner
    parents = state.owners[own].parents
    shared = account.spec.sharing is Sharing.FAMILY
    if owner == own:
        return _OWN, 0, ""
    if shared and set(parents) & set(state.owners[owner].parents):
        return _SIBLING, 0, owner
    if shared and owner in parents:
        return _PARENT, 0, owner
    if request.allow_borrow and account.spec.lending.admits(own):
        order = request.sponsors or (owner,)
        return (_SPONSOR, order.index(owner), owner) if owner in order else None
    return None
