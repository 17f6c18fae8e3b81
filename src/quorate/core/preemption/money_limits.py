"""Lists the limits of a budget, and computes by how many GPUs the present use exceeds a limit.

Use can exceed a limit because the limit was lowered. Only leases that are not stopping count
against a limit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from quorate.core.preemption.scope_survey import Survey, survey_payers
from quorate.model.events import Tier
from quorate.model.specs import Budget, CapId, EnvelopeId, cap_id, envelope_id
from quorate.model.state.records import CapAccount, EnvelopeAccount
from quorate.model.state.state_view import StateView

ENVELOPE: Final = "envelope"
CAP: Final = "cap"
LENDING: Final = "lending"


@dataclass(frozen=True, slots=True)
class Limit:
    """The concurrency of an envelope, of a cap, or of the lending of an envelope."""

    kind: str
    key: str

    def __str__(self) -> str:
        return f"{self.kind} {self.key}"

    @classmethod
    def of(cls, text: str) -> Limit:
        """Return the limit that ``text`` names, such as ``envelope B/E``."""
        kind, _, key = text.partition(" ")
        assert kind in (ENVELOPE, CAP, LENDING), text
        return cls(kind, key)

    def counts(self, tier: Tier) -> bool:
        """Return whether leases of ``tier`` count against the limit."""
        return self.kind != LENDING or tier is Tier.BORROWED


def limits_of(budget: Budget) -> Iterator[Limit]:
    """Yield the limits of ``budget``, caps first."""
    for cap in budget.caps:
        yield Limit(CAP, cap_id(budget.name, cap.name))
    for envelope in budget.envelopes:
        yield Limit(ENVELOPE, envelope_id(budget.name, envelope.name))
        yield Limit(LENDING, envelope_id(budget.name, envelope.name))


def payers_of(view: StateView, limit: Limit) -> list[EnvelopeId]:
    """Return the envelopes whose leases count against ``limit``."""
    if limit.kind != CAP:
        return [EnvelopeId(limit.key)]
    account = view.caps[CapId(limit.key)]
    budget = limit.key.partition("/")[0]
    return [envelope_id(budget, name) for name in account.spec.envelopes]


def survey_limit(view: StateView, limit: Limit, *, skips_rounds: bool = False) -> Survey:
    """Return the survey of the leases that count against ``limit``.

    If ``skips_rounds``, leases in pools that share their GPUs in rounds are left out.
    """
    payers = payers_of(view, limit)
    return survey_payers(view, payers, limit.counts, skips_rounds=skips_rounds)


def gpus_over(view: StateView, limit: Limit) -> int:
    """Return by how many GPUs use exceeds ``limit``; stopping leases do not count."""
    bound, used = _bound_and_use(_account(view, limit), limit)
    if bound is None or used <= bound:
        return 0
    going = sum(
        lease.gpus
        for payer in payers_of(view, limit)
        for name in view.payer_leases.get(payer, ())
        if (lease := view.leases[name]).ending is not None and limit.counts(lease.fact.tier)
    )
    return max(0, used - going - bound)


def _account(view: StateView, limit: Limit) -> EnvelopeAccount | CapAccount:
    if limit.kind == CAP:
        return view.caps[CapId(limit.key)]
    return view.envelopes[EnvelopeId(limit.key)]


def _bound_and_use(account: EnvelopeAccount | CapAccount, limit: Limit) -> tuple[int | None, int]:
    """Return the bound of ``limit`` (None if it has no bound or was retired), and the GPUs used."""
    used = account.gpus_active + account.gpus_reserved
    if account.retired:
        return None, used
    if isinstance(account, CapAccount):
        return account.spec.concurrency_max, used
    if limit.kind == LENDING:
        return account.spec.lending.concurrency_max, account.lent_gpus_active
    return account.spec.concurrency, used
