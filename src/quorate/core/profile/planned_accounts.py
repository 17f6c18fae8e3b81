"""The accounts that envelopes and caps are expected to have in a time span.

The accounts have the form that ``admission/payers.py`` reads.
"""

from __future__ import annotations

from msgspec.structs import replace

from quorate.core.profile.profile import Profile
from quorate.model.selector import RACK, Selector, names_label
from quorate.model.specs import CapId, EnvelopeId
from quorate.model.state.reads.money_reads import Payers
from quorate.model.state.records import CapAccount, EnvelopeAccount


class ExpectedAccounts:
    """Envelopes and caps, each with the least concurrency that is free during a time span.

    Their free GPU-hours are those that are free now, minus those that entries of the plan take.
    Held hours are not expected to come back. Racks are ignored: an envelope that pays only in some
    racks of a domain counts as paying in the whole domain. So if racks are named, admission later
    tries the start in an expected state.
    """

    __slots__ = ("_from_ms", "_profile", "_until_ms", "caps", "envelopes")

    def __init__(self, profile: Profile, from_ms: int, until_ms: int) -> None:
        self.envelopes = _Envelopes(profile, from_ms, until_ms)
        self.caps = _Caps(profile, from_ms, until_ms)
        self._profile, self._from_ms, self._until_ms = profile, from_ms, until_ms

    def with_width(self, payers: Payers) -> Payers:
        """Return the ``payers`` that can pay for at least one more GPU, in their order.

        In a large family, most payers cannot pay for any GPU. For these payers no account is
        computed.
        """
        profile, from_ms = self._profile, self._from_ms
        envelopes, caps = profile.view.envelopes, dict[CapId, bool]()

        def has_width(key: EnvelopeId) -> bool:
            account = envelopes[key]
            until_ms = max(from_ms + 1, min(self._until_ms, account.spec.end_ms))
            if profile.payer(key).least(from_ms, until_ms) <= 0:
                return False
            for cap in account.caps:
                if cap not in caps:
                    caps[cap] = self._is_open(cap)
                if not caps[cap]:
                    return False
            return True

        return tuple(payer for payer in payers if has_width(payer[0]))

    def _is_open(self, cap: CapId) -> bool:
        """Return whether ``cap`` allows one more GPU."""
        limit = self._profile.view.caps[cap].spec.concurrency_max
        return limit is None or self._profile.cap(cap).least(self._from_ms, self._until_ms) > 0


class _Envelopes(dict[EnvelopeId, EnvelopeAccount]):
    __slots__ = ("_from_ms", "_profile", "_until_ms")

    def __init__(self, profile: Profile, from_ms: int, until_ms: int) -> None:
        super().__init__()
        self._profile, self._from_ms, self._until_ms = profile, from_ms, until_ms

    def __missing__(self, key: EnvelopeId) -> EnvelopeAccount:
        profile, from_ms = self._profile, self._from_ms
        account = profile.view.envelopes[key].copy()
        spec = account.spec
        # A payer pays at most until its window ends.
        until_ms = max(from_ms + 1, min(self._until_ms, spec.end_ms))
        account.gpus_reserved = 0
        account.gpus_active = spec.concurrency - profile.payer(key).least(from_ms, until_ms)
        account.committed_gpu_ms += profile.payer_gpu_ms.get(key, 0)
        limit = spec.lending.concurrency_max
        if limit is not None:
            account.lent_gpus_active = limit - profile.lent(key).least(from_ms, until_ms)
        account.lent_committed_gpu_ms += profile.lent_gpu_ms.get(key, 0)
        if names_label(spec.selector, RACK):
            account.spec = replace(spec, selector=_without_racks(spec.selector))
        self[key] = account
        return account


def _without_racks(selector: Selector) -> Selector:
    return tuple(entry for entry in selector if entry[0] != RACK)


class _Caps(dict[CapId, CapAccount]):
    __slots__ = ("_from_ms", "_profile", "_until_ms")

    def __init__(self, profile: Profile, from_ms: int, until_ms: int) -> None:
        super().__init__()
        self._profile, self._from_ms, self._until_ms = profile, from_ms, until_ms

    def __missing__(self, key: CapId) -> CapAccount:
        profile = self._profile
        account = profile.view.caps[key].copy()
        limit = account.spec.concurrency_max
        account.gpus_reserved = 0
        if limit is not None:
            least = profile.cap(key).least(self._from_ms, self._until_ms)
            account.gpus_active = limit - least
        account.committed_gpu_ms += profile.cap_gpu_ms.get(key, 0)
        self[key] = account
        return account
