"""Keep the order of grants while several grants wait for the money of one payer.

Grants start when GPUs become free, so a later grant might take money that an earlier grant needs.
If a payer has enough for all waiting grants, their order does not matter. If a payer does not have
enough, a grant that needs this payer does not start while an earlier grant waits for the same
payer. Once all stopping leases have ended, grants are tried in their order, and this module is not
needed.
"""

from __future__ import annotations

from collections.abc import Sequence

from quorate.core.admission.admit import cover_request
from quorate.core.admission.cover import payer_phases
from quorate.core.admission.payers import CoverRequest, PayerList
from quorate.model.events import RoundGrant
from quorate.model.specs import EnvelopeId, Funding, Run
from quorate.model.state.reads.money_reads import Payers
from quorate.model.state.state_view import StateView

_Alike = tuple[str, str, Funding]


class MoneyInTurn:
    """Decides, at one instant, which of the waiting grants may use the money of their payers."""

    def __init__(self, grants: Sequence[RoundGrant], now_ms: int) -> None:
        self._grants = grants
        self._now_ms = now_ms
        self._known: dict[_Alike, tuple[CoverRequest, Payers]] = {}
        self._short: set[EnvelopeId] | None = None
        self._waiting: list[tuple[Run, str]] = []
        self._behind: set[EnvelopeId] = set()
        self.has_held_back = False
        """Whether a grant was held back, so that an earlier grant finds enough money."""

    def may_start(self, view: StateView, run: Run, flavor: str) -> bool:
        """Return whether the payers of ``run`` can pay, and no earlier grant needs their money."""
        if self._short is None:
            self._short = self._found_short(view)
        if not self._short:
            return True
        for before in self._waiting:
            _, payers = self._of(view, *before)
            self._behind.update(key for key, _ in payers if key in self._short)
        self._waiting.clear()
        request, payers = self._of(view, run, flavor)
        if any(key in self._behind for key, _ in payers):
            self.has_held_back = True
            return False
        if not any(key in self._short for key, _ in payers):
            return True
        payer_list = PayerList(view, request, payers)
        return sum(payer_list.room(key, tier) for key, tier in payers) >= run.gpus

    def waits(self, run: Run, flavor: str) -> None:
        """Note that ``run`` waits, so that later grants do not take money that ``run`` needs."""
        self._waiting.append((run, flavor))

    def _found_short(self, view: StateView) -> set[EnvelopeId]:
        """Return the payers with too little money for all waiting grants that they may pay for."""
        needed: dict[EnvelopeId, int] = {}
        room: dict[EnvelopeId, int] = {}
        for grant in self._grants:
            run = view.runs[grant.run].spec
            request, payers = self._of(view, run, grant.flavor)
            for key, tier in payers:
                needed[key] = needed.get(key, 0) + run.gpus
                if key not in room:
                    room[key] = PayerList(view, request, payers).room(key, tier)
        return {key for key, gpus in needed.items() if gpus > room[key]}

    def _of(self, view: StateView, run: Run, flavor: str) -> tuple[CoverRequest, Payers]:
        key = (run.owner, flavor, run.funding)
        found = self._known.get(key)
        if found is None:
            request = cover_request(view, run, flavor, self._now_ms, has_executor=True)
            found = self._known[key] = (request, payer_phases(view, request)[-1])
        return found
