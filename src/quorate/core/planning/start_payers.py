"""Finds payers for a start in addition to all planned starts, and when they can first pay."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from quorate.core.admission.cover_search import pay
from quorate.core.admission.payers import Demand, Leg, PayerList, is_open
from quorate.core.admission.search_budget import SearchBudget
from quorate.core.planning.instants import critical_instants, first_after, last_end_ms
from quorate.core.planning.start_ask import Ask
from quorate.core.profile.planned_accounts import ExpectedAccounts
from quorate.core.profile.profile import Profile
from quorate.core.profile.resource import Resource
from quorate.model.events import Tier
from quorate.model.specs import EnvelopeId
from quorate.model.state.reads.money_reads import Payers


class StartPayers:
    """Finds payers for starts in one profile."""

    __slots__ = ("_profile",)

    def __init__(self, profile: Profile) -> None:
        self._profile = profile

    def pay(
        self, ask: Ask, demands: Sequence[Demand], at_ms: int, steps: SearchBudget
    ) -> Sequence[Leg] | None:
        """Return who pays for ``demands`` from ``at_ms`` on, family first; None if no payer can."""
        if ask.is_plain:
            return self.pay_plainly(ask, demands, at_ms)
        cover = ask.cover_at(at_ms, self._profile.now_ms)
        accounts = ExpectedAccounts(self._profile, at_ms, at_ms + cover.duration_ms)
        for phase in ask.phases:
            payers = accounts.with_width(phase)
            legs = pay(PayerList(accounts, cover, payers), demands, steps)
            if legs is not None:
                return legs
        return None

    def pay_plainly(self, ask: Ask, demands: Sequence[Demand], at_ms: int) -> Sequence[Leg] | None:
        """Return who pays for ``demands`` from ``at_ms`` on, for a plain request ``ask``.

        Each payer of a plain request (``is_plain``) pays in all domains, independently of the other
        payers. So the payers are tried in order, each for as many GPUs as it can pay for. Return
        None if the payers together cannot pay for all GPUs.
        """
        profile, duration_ms = self._profile, ask.duration_ms
        outlast_ms, asked_ms = at_ms + ask.lead_ms, profile.now_ms
        legs, index, (_, left) = list[Leg](), 0, demands[0]
        for key, tier in ask.sites.by_payers[0][0]:
            account = profile.view.envelopes[key]
            if not is_open(account.spec, at_ms, outlast_ms, asked_ms):
                continue
            end_ms = account.spec.end_ms
            room = profile.payer(key).least(at_ms, max(at_ms + 1, min(at_ms + duration_ms, end_ms)))
            if room <= 0:
                continue
            hold_ms = min(duration_ms, end_ms - at_ms)
            taken = account.committed_gpu_ms + profile.payer_gpu_ms.get(key, 0)
            room = min(room, (account.spec.gpu_ms_granted - taken) // hold_ms)
            while room > 0:
                gpus = min(left, room)
                legs.append(Leg(index, key, tier, gpus, hold_ms))
                left -= gpus
                room -= gpus
                if not left:
                    index += 1
                    if index == len(demands):
                        return legs
                    left = demands[index][1]
        return None

    def paid_from(  # noqa: PLR0913, PLR0917 - what, between when, and who pays
        self,
        ask: Ask,
        payers: Payers,
        demands: Sequence[Demand],
        from_ms: int,
        steps: SearchBudget,
        before_ms: int,
    ) -> tuple[int, Sequence[Leg]] | None:
        """Return the first instant from ``from_ms`` on when payers can pay, and what each pays.

        Return None if the search finds no such instant before ``before_ms``.
        """
        legs = self.pay(ask, demands, from_ms, steps)
        if legs is not None:
            return from_ms, legs
        return self.paid_after(ask, payers, demands, from_ms, steps, before_ms)

    def paid_after(  # noqa: PLR0913, PLR0917 - what, between when, and who pays
        self,
        ask: Ask,
        payers: Payers,
        demands: Sequence[Demand],
        after_ms: int,
        steps: SearchBudget,
        before_ms: int,
    ) -> tuple[int, Sequence[Leg]] | None:
        """Return the first instant after ``after_ms`` when payers can pay, and what each pays."""
        if after_ms + 1 >= before_ms:
            return None
        by_one = self.paid_by_one(ask, payers, demands, after_ms)
        if by_one is not None:
            return by_one if by_one[0] < before_ms else None
        resources = self.resources(payers)
        critical = critical_instants(resources, ask.duration_ms, after_ms)
        critical += self.windows(ask, after_ms)
        return first_after(
            lambda at_ms: self.pay(ask, demands, at_ms, steps),
            sorted(at_ms for at_ms in critical if at_ms < before_ms),
            after_ms,
            min(last_end_ms(resources), before_ms - 1),
            steps,
        )

    def paid_by_one(
        self, ask: Ask, payers: Payers, demands: Sequence[Demand], from_ms: int
    ) -> tuple[int, Sequence[Leg]] | None:
        """Return the result of ``paid_from``, if no search is needed to find it.

        No search is needed if only one envelope may pay, and its window outlasts the run. Otherwise
        return None; ``paid_from`` may still find payers.
        """
        if not ask.is_plain or len(payers) != 1 or not demands:
            return None
        profile, ((key, _),) = self._profile, payers
        spec = profile.view.envelopes[key].spec
        if not is_open(spec, from_ms, from_ms + ask.lead_ms, profile.now_ms):
            return None
        gpus = sum(wanted for _, wanted in demands)
        at_ms = profile.payer(key).earliest(gpus, ask.duration_ms, from_ms)
        if at_ms is None or at_ms + ask.duration_ms > spec.end_ms:
            return None  # The window ends before the run, so the payer would pay only until then.
        legs = self.pay_plainly(ask, demands, at_ms)
        return None if legs is None else (at_ms, legs)

    def windows(self, ask: Ask, after_ms: int) -> list[int]:
        """Return when, after ``after_ms``, payers' windows open or get too short for a start."""
        found = set()
        lead_ms = ask.lead_ms
        for key, _ in ask.phases[-1]:
            spec = self._profile.view.envelopes[key].spec
            found |= {spec.start_ms, spec.end_ms - max(0, lead_ms)}
        return [at_ms for at_ms in found if at_ms > after_ms]

    def resources(self, payers: Iterable[tuple[EnvelopeId, Tier]]) -> list[Resource]:
        """Return the resources that limit how many GPUs ``payers`` can pay for.

        These are the concurrency of each payer, what the payer may lend, and the caps over it.
        """
        profile, found = self._profile, list[Resource]()
        for key in dict.fromkeys(key for key, _ in payers):
            account = profile.view.envelopes[key]
            found.append(profile.payer(key))
            if account.spec.lending.concurrency_max is not None:
                found.append(profile.lent(key))
            found += [profile.cap(cap) for cap in account.caps]
        return found
