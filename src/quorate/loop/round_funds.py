"""Funds: who pays for a run, and how many GPUs of a flavor each of them can carry through a round.

What is chosen for a round should be what can be paid, or GPUs stand idle until the next. This is an
estimate that looks at each payer by itself; whether a grant is really paid is decided where every
start is. docs/adr/0024-rounds-pools.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from quorate.core.admit import cover_request
from quorate.core.cover import payer_phases
from quorate.core.holds import ROUND_SLACK_MS
from quorate.core.round_checks import pool_flavors
from quorate.model.selector import matches
from quorate.model.specs import EnvelopeId, Funding, Run
from quorate.model.view import StateView

Carried = tuple[tuple[EnvelopeId, int], ...]


class Funds:
    """What payers can carry in one pool at one instant; each question is worked out once."""

    def __init__(self, view: StateView, pool: str, now_ms: int) -> None:
        self._view = view
        self._pool = pool
        self._now_ms = now_ms
        self._known: dict[tuple[str, Funding, int], dict[str, Carried]] = {}
        self._gpus: dict[tuple[str, Funding, int], dict[str, int]] = {}
        self._flavors = tuple(pool_flavors(view, pool))
        self._here: dict[EnvelopeId, int] = {}
        for name, known in view.in_rounds.items():
            for lease in view.runs[name].leases if known.pool == pool else ():
                held = view.leases[lease]
                if held.ending is None:
                    payer = held.fact.payer
                    self._here[payer] = self._here.get(payer, 0) + held.gpus

    def gpus(self, run: Run) -> Mapping[str, int]:
        """Return how many GPUs of each flavor those who pay for ``run`` could carry in all."""
        key = (run.owner, run.funding, run.checkpoint_ms)
        found = self._gpus.get(key)
        if found is None:
            payers = {f: self.payers(run, f) for f in self._flavors}
            found = self._gpus[key] = {f: sum(g for _, g in each) for f, each in payers.items()}
        return found

    def payers(self, run: Run, flavor: str) -> Carried:
        """Return who pays for ``run``, in cover order, and how many GPUs each could carry in all.

        Several owners may have the same payer.
        """
        known = self._known.setdefault((run.owner, run.funding, run.checkpoint_ms), {})
        if flavor not in known:
            known[flavor] = tuple(self._carried(run, flavor))
        return known[flavor]

    def _carried(self, run: Run, flavor: str) -> Iterator[tuple[EnvelopeId, int]]:
        view, now_ms = self._view, self._now_ms
        request = cover_request(view, run, flavor, now_ms, has_executor=True)
        places = [view.island(key).labels for key in view.domains(self._pool, flavor).keys]
        round_ms = view.pools[self._pool].round_ms + ROUND_SLACK_MS
        for payer, _ in payer_phases(view, request)[-1]:
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
                yield payer, gpus
