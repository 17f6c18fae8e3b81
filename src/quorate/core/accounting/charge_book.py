"""The charges of each envelope: one sum before a period, and several sums within the period.

Within the period there is one sum for each owner, user and flavor. The book reads the events of a
ledger once, up to the end of the period. A lease is charged from its recorded start to its recorded
end. An open lease is charged up to the end of the period or of its hold, whichever is earlier.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from quorate.model.events import (
    Event,
    HoldExtended,
    LeaseEnded,
    LeaseStarted,
    NodeApplied,
    RunEnded,
    RunSubmitted,
    Tier,
)
from quorate.model.specs import EnvelopeId


class Use(NamedTuple):
    """The key of a sum of charges: owner, user, flavor, and the payer's relation to the owner."""

    owner: str
    user: str
    tier: Tier
    flavor: str


@dataclass(slots=True)
class _Open:
    """A lease that has not ended: its payer, owner, user, GPUs by flavor, start and hold."""

    fact: LeaseStarted
    owner: str
    user: str
    gpus: dict[str, int]
    hold_gpu_ms: int


class ChargeBook:
    """The charges of every envelope, summed while the book reads the events of a ledger.

    Charges before ``from_ms`` are one sum. From ``from_ms`` to ``until_ms`` there is one sum for
    each ``Use``.
    """

    __slots__ = ("_before", "_flavors", "_from_ms", "_open", "_runs", "_since", "_until_ms")

    def __init__(self, *, from_ms: int, until_ms: int) -> None:
        assert from_ms <= until_ms, (from_ms, until_ms)
        self._from_ms = from_ms
        self._until_ms = until_ms
        self._flavors: dict[str, str] = {}
        self._runs: dict[str, tuple[str, str]] = {}
        self._open: dict[str, _Open] = {}
        self._before: dict[EnvelopeId, int] = {}
        self._since: dict[EnvelopeId, dict[Use, int]] = {}

    def fold_all(self, events: Iterable[Event]) -> None:
        """Enter ``events`` in order, beginning with the first event of the ledger."""
        for event in events:
            self.fold(event)

    def fold(self, event: Event) -> None:
        """Enter ``event``, which must be the next event of the ledger."""
        match event:
            case LeaseStarted():
                self._start(event)
            case HoldExtended():
                self._open[event.lease].hold_gpu_ms += event.gpu_ms
            case LeaseEnded():
                lease = self._open.pop(event.lease)
                self._charge(lease, event.end_ms, self._before, self._since)
            case RunSubmitted():
                self._runs[event.run.name] = (event.run.owner, event.run.user)
            case RunEnded():
                del self._runs[event.run]
            case NodeApplied():
                self._flavors[event.node.name] = event.node.flavor
            case _:
                pass

    def charged(self) -> tuple[Mapping[EnvelopeId, int], Mapping[EnvelopeId, Mapping[Use, int]]]:
        """Return the charges of each payer in GPU-ms: (before the period, in the period by use)."""
        before = dict(self._before)
        since = {payer: dict(uses) for payer, uses in self._since.items()}
        for lease in self._open.values():
            # A lease that stops late is charged only up to the end of its hold.
            hold_ends_ms = lease.fact.start_ms + lease.hold_gpu_ms // sum(lease.gpus.values())
            self._charge(lease, hold_ends_ms, before, since)
        return before, since

    def _start(self, fact: LeaseStarted) -> None:
        owner, user = self._runs[fact.run]
        gpus: dict[str, int] = {}
        for node, mask in fact.slots:
            flavor = self._flavors[node]
            gpus[flavor] = gpus.get(flavor, 0) + mask.bit_count()
        self._open[fact.lease] = _Open(fact, owner, user, gpus, fact.hold_gpu_ms)

    def _charge(
        self,
        lease: _Open,
        end_ms: int,
        before: dict[EnvelopeId, int],
        since: dict[EnvelopeId, dict[Use, int]],
    ) -> None:
        fact = lease.fact
        end_ms = max(fact.start_ms, min(end_ms, self._until_ms))
        early_ms = max(0, min(end_ms, self._from_ms) - fact.start_ms)
        late_ms = end_ms - fact.start_ms - early_ms
        gpus = sum(lease.gpus.values())
        before[fact.payer] = before.get(fact.payer, 0) + gpus * early_ms
        if not late_ms:
            return
        uses = since.setdefault(fact.payer, {})
        for flavor, count in lease.gpus.items():
            use = Use(lease.owner, lease.user, fact.tier, flavor)
            uses[use] = uses.get(use, 0) + count * late_ms
