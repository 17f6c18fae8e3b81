"""Funds: the payers of a run, and how many GPUs of a flavor each payer can pay for in a round.

A round should choose runs whose payers can pay, because GPUs granted to other runs are idle until
the next round. This module only estimates, because it considers each payer separately. The decision
then checks the payers of each grant, as for every start. See docs/adr/0024-rounds-pools.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from quorate.core.admission.admit import cover_request
from quorate.core.admission.cover import payer_phases
from quorate.core.rounds.round_checks import pool_flavors
from quorate.model.events import Tier
from quorate.model.selector import Selector, contradicts, matches
from quorate.model.specs import CapId, EnvelopeId, Funding, Run
from quorate.model.state.records import EnvelopeAccount, Lease
from quorate.model.state.state_view import StateView

_Alike = tuple[str, Funding, Selector, int]
Bound = tuple[str, str]
"""One limit on what a payer pays: the limit's kind (envelope, lending or cap), and its name."""
_ENVELOPE: Final = "envelope"
_LENDING: Final = "lending"
_CAP: Final = "cap"
_BORROWED: Final = Tier.BORROWED
GPUS_MAX: Final = 2**62
"""The number of GPUs that a bound leaves if it limits neither GPUs nor GPU-hours."""


class Payer(NamedTuple):
    """A payer, how many GPUs each of its bounds allows, and whether it would lend these GPUs."""

    bounds: tuple[tuple[Bound, int], ...]
    is_lent: bool

    @property
    def key(self) -> tuple[str, bool]:
        """The paying envelope, and whether it lends."""
        (_, name), _ = self.bounds[0]
        return name, self.is_lent


class Part(NamedTuple):
    """How many GPUs of a run one of its payers pays for."""

    payer: Payer
    gpus: int


def carried(run: Run, payers: tuple[Payer, ...], *used: Mapping[Bound, int]) -> list[Part]:
    """Return how many GPUs of ``run`` each payer would pay for, in addition to GPUs in ``used``.

    The parts may add up to fewer GPUs than the run needs. Payers pay in cover order: first the
    envelopes of the run's owner, last the sponsors. Sponsors pay for at most as many GPUs as the
    run may borrow.
    """
    borrowed_max = run.funding.borrow_gpus_max
    lent_left = run.gpus if borrowed_max is None else borrowed_max
    left, parts = run.gpus, []
    taken: dict[Bound, int] = {}
    for payer in payers:
        gpus = left
        for bound, most in payer.bounds:
            gpus = min(gpus, most - sum([each.get(bound, 0) for each in used]))
            if taken:
                gpus = min(gpus, most - sum([each.get(bound, 0) for each in (*used, taken)]))
        if payer.is_lent:
            gpus = min(gpus, lent_left)
        if gpus <= 0:
            continue
        parts.append(Part(payer, gpus))
        left -= gpus
        if left == 0:
            break
        if payer.is_lent:
            lent_left -= gpus
        for bound, _ in payer.bounds:
            taken[bound] = taken.get(bound, 0) + gpus
    return parts


def fit(parts: Iterable[Part], used: Mapping[Bound, int]) -> bool:
    """Return whether the bounds of the payers leave room for ``parts`` in addition to ``used``."""
    taken: dict[Bound, int] = {}
    for part in parts:
        for bound, most in part.payer.bounds:
            taken[bound] = taken.get(bound, 0) + part.gpus
            if used.get(bound, 0) + taken[bound] > most:
                return False
    return True


class Funds:
    """How many GPUs payers can pay for in one pool at one instant; each result is cached."""

    def __init__(self, view: StateView, pool: str, now_ms: int) -> None:
        self._view = view
        self._pool = pool
        self._now_ms = now_ms
        self._known: dict[_Alike, dict[str, tuple[Payer, ...]]] = {}
        self._keyed: dict[int, dict[tuple[str, bool], Payer]] = {}
        self._gpus: dict[tuple[_Alike, int], dict[str, int]] = {}
        self._flavors = tuple(pool_flavors(view, pool))
        self._here: dict[Bound, int] = {}
        by_payer: dict[tuple[EnvelopeId, bool], int] = {}
        runs, leases = view.runs, view.leases
        for name, member in view.in_rounds.items():
            for lease in runs[name].leases if member.pool == pool else ():
                held = leases[lease]
                if held.ending is None:
                    key = (held.fact.payer, held.fact.tier is _BORROWED)
                    by_payer[key] = by_payer.get(key, 0) + held.gpus
        for (payer, is_lent), gpus in by_payer.items():
            for bound in _bounds(view.envelopes[payer], is_lent=is_lent):
                self._here[bound] = self._here.get(bound, 0) + gpus

    def gpus(self, run: Run) -> Mapping[str, int]:
        """Return how many of the GPUs of ``run`` its payers could pay for, by flavor."""
        key = (_alike(run), run.gpus)
        found = self._gpus.get(key)
        if found is None:
            found = self._gpus[key] = {
                flavor: sum(part.gpus for part in carried(run, self.payers(run, flavor), {}))
                for flavor in self._flavors
            }
        return found

    def payers(self, run: Run, flavor: str) -> tuple[Payer, ...]:
        """Return the payers of ``run``, in cover order, and how many GPUs each could pay for.

        The same payer may also pay for runs of other owners.
        """
        known = self._known.setdefault(_alike(run), {})
        if flavor not in known:
            known[flavor] = tuple(self._open(run, flavor))
        return known[flavor]

    def present(self, run: Run, leases: Iterable[Lease], flavor: str) -> list[Part] | None:
        """Return the payers of ``leases`` with their GPUs; None if a payer cannot pay now."""
        payers = self._by_key(self.payers(run, flavor))
        found = []
        for lease in leases:
            payer = payers.get((lease.fact.payer, lease.fact.tier is _BORROWED))
            if payer is None:
                return None
            found.append(Part(payer, lease.gpus))
        return found if fit(found, {}) else None

    def _by_key(self, payers: tuple[Payer, ...]) -> Mapping[tuple[str, bool], Payer]:
        """Return ``payers`` by their keys; the result is cached."""
        found = self._keyed.get(id(payers))
        if found is None:
            found = self._keyed[id(payers)] = {payer.key: payer for payer in payers}
        return found

    def _open(self, run: Run, flavor: str) -> Iterator[Payer]:
        """Yield the envelopes that may pay for ``run`` now in some domain that the run may use."""
        view, now_ms = self._view, self._now_ms
        request = cover_request(view, run, flavor, now_ms, has_executor=True)
        places = [view.island(key).labels for key in view.domains(self._pool, flavor).keys]
        places = [labels for labels in places if not contradicts(run.selector, labels)]
        for payer, tier in payer_phases(view, request)[-1]:
            account = view.envelopes[payer]
            spec = account.spec
            is_open = spec.start_ms <= now_ms or spec.allow_admission
            if account.retired or not is_open or spec.end_ms <= request.outlast_ms:
                continue
            selected = {k: v for k, v in spec.selector if any(k in labels for labels in places)}
            if not any(matches(tuple(selected.items()), labels) for labels in places):
                continue
            is_lent = tier is _BORROWED
            hold_ms = min(request.duration_ms, spec.end_ms - now_ms)
            bounds = _bounds(account, is_lent=is_lent)
            left = [(bound, self._left(bound, account, hold_ms)) for bound in bounds]
            if all(gpus > 0 for _, gpus in left):
                yield Payer(tuple(left), is_lent)

    def _left(self, bound: Bound, account: EnvelopeAccount, hold_ms: int) -> int:
        """Return how many GPUs a bound leaves for the next round.

        A GPU counts as left only if the bound has GPU-hours left for ``hold_ms`` of this GPU. GPUs
        that runs of the pool use at present count as left, because the runs chosen next can get
        these GPUs. GPU-hours that the present runs hold and have not used do not count as left,
        because they are released too late.
        """
        use, left = _use(self._view, bound, account), []
        if use.gpus_max is not None:
            left.append(use.gpus_max - use.gpus + self._here.get(bound, 0))
        if use.gpu_ms_max is not None:
            left.append((use.gpu_ms_max - use.gpu_ms) // hold_ms)
        return min(left, default=GPUS_MAX)


class _Use(NamedTuple):
    """How much may be used under a bound, in GPUs and in GPU-milliseconds, and how much is used."""

    gpus_max: int | None
    gpu_ms_max: int | None
    gpus: int
    gpu_ms: int


def _bounds(account: EnvelopeAccount, *, is_lent: bool) -> Iterator[Bound]:
    """Yield the bounds on the GPUs that an envelope pays for."""
    yield _ENVELOPE, account.envelope_id
    if is_lent:
        yield _LENDING, account.envelope_id
    for cap in account.caps:
        yield _CAP, cap


def _use(view: StateView, bound: Bound, account: EnvelopeAccount) -> _Use:
    kind, name = bound
    spec = account.spec
    if kind == _LENDING:
        lending, gpu_ms = spec.lending, account.lent_committed_gpu_ms
        return _Use(lending.concurrency_max, lending.gpu_ms_max, account.lent_gpus_active, gpu_ms)
    if kind == _CAP:
        cap = view.caps[CapId(name)]
        gpus = cap.gpus_active + cap.gpus_reserved
        return _Use(cap.spec.concurrency_max, cap.spec.gpu_ms_max, gpus, cap.committed_gpu_ms)
    gpus = account.gpus_active + account.gpus_reserved
    return _Use(spec.concurrency, spec.gpu_ms_granted, gpus, account.committed_gpu_ms)


def _alike(run: Run) -> _Alike:
    """Return a key that is equal for runs with the same payers."""
    return run.owner, run.funding, run.selector, run.checkpoint_ms
