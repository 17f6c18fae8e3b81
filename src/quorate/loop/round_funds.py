"""Funds: who pays for a run, and how many GPUs of a flavor each of them can carry through a round.

What is chosen for a round should be what can be paid, or GPUs stand idle until the next. This is an
estimate that looks at each payer by itself; whether a grant is really paid is decided where every
start is. docs/adr/0024-rounds-pools.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from quorate.core.admit import cover_request
from quorate.core.cover import payer_phases
from quorate.core.holds import ROUND_SLACK_MS
from quorate.core.round_checks import pool_flavors
from quorate.model.events import Tier
from quorate.model.selector import Selector, contradicts, matches
from quorate.model.specs import EnvelopeId, Funding, Run
from quorate.model.view import StateView

_Alike = tuple[str, Funding, Selector, int]


class Payer(NamedTuple):
    """Who pays, how many GPUs it could carry in all, and whether they would be borrowed."""

    key: EnvelopeId
    gpus: int
    is_lent: bool


def payable(run: Run, left: Iterable[tuple[Payer, int]]) -> Iterator[tuple[EnvelopeId, int]]:
    """Yield how many GPUs of ``run`` each payer could carry, of what each has ``left``.

    Those that are lent are no more together than the run may borrow.
    """
    borrowed_max = run.funding.borrow_gpus_max
    lent_left = run.gpus if borrowed_max is None else borrowed_max
    for payer, gpus in left:
        if payer.is_lent:
            gpus = min(gpus, lent_left)  # noqa: PLW2901 - what it may be of it
            lent_left -= gpus
        yield payer.key, gpus


class Funds:
    """What payers can carry in one pool at one instant; each question is worked out once."""

    def __init__(self, view: StateView, pool: str, now_ms: int) -> None:
        self._view = view
        self._pool = pool
        self._now_ms = now_ms
        self._known: dict[_Alike, dict[str, tuple[Payer, ...]]] = {}
        self._gpus: dict[tuple[_Alike, int], dict[str, int]] = {}
        self._flavors = tuple(pool_flavors(view, pool))
        self._here: dict[EnvelopeId, int] = {}
        for name, known in view.in_rounds.items():
            for lease in view.runs[name].leases if known.pool == pool else ():
                held = view.leases[lease]
                if held.ending is None:
                    payer = held.fact.payer
                    self._here[payer] = self._here.get(payer, 0) + held.gpus

    def gpus(self, run: Run) -> Mapping[str, int]:
        """Return how many GPUs of each flavor those who pay for ``run`` could carry for it."""
        key = (_alike(run), run.gpus)
        found = self._gpus.get(key)
        if found is None:
            found = self._gpus[key] = {f: self._in_all(run, f) for f in self._flavors}
        return found

    def _in_all(self, run: Run, flavor: str) -> int:
        payers = ((each, each.gpus) for each in self.payers(run, flavor))
        return sum(gpus for _, gpus in payable(run, payers))

    def payers(self, run: Run, flavor: str) -> tuple[Payer, ...]:
        """Return who pays for ``run``, in cover order, and how many GPUs each could carry in all.

        Several owners may have the same payer.
        """
        known = self._known.setdefault(_alike(run), {})
        if flavor not in known:
            known[flavor] = tuple(self._carried(run, flavor))
        return known[flavor]

    def _carried(self, run: Run, flavor: str) -> Iterator[Payer]:
        view, now_ms = self._view, self._now_ms
        request = cover_request(view, run, flavor, now_ms, has_executor=True)
        places = [view.island(key).labels for key in view.domains(self._pool, flavor).keys]
        places = [labels for labels in places if not contradicts(run.selector, labels)]
        round_ms = view.pools[self._pool].round_ms + ROUND_SLACK_MS
        for payer, tier in payer_phases(view, request)[-1]:
            account = view.envelopes[payer]
            spec = account.spec
            is_open = spec.start_ms <= now_ms or spec.allow_admission
            if account.retired or not is_open or spec.end_ms <= request.outlast_ms:
                continue
            asked = {k: v for k, v in spec.selector if any(k in labels for labels in places)}
            if not any(matches(tuple(asked.items()), labels) for labels in places):
                continue
            here = self._here.get(payer, 0)
            width = spec.concurrency - account.gpus_active - account.gpus_reserved + here
            lasts_ms = min(round_ms, spec.end_ms - now_ms)
            left = spec.gpu_ms_granted - account.committed_gpu_ms
            gpus = min(width, here + left // lasts_ms)
            if gpus > 0:
                yield Payer(payer, gpus, tier is Tier.BORROWED)


def _alike(run: Run) -> _Alike:
    """Return what runs have in common that have the same payers."""
    return run.owner, run.funding, run.selector, run.checkpoint_ms
