"""The claims in a ledger: which were released early, and how nodes were wiped. Pure.

The fork itself ends a claim that reaches its stated end. A release is a command of a person. A node
is wiped as long after its claim has left it as in the ledger.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from quorate.model import events as e
from quorate.sim.whatif.recorded_work import LATER


@dataclass(frozen=True, slots=True, kw_only=True)
class Wipe:
    """A node was wiped ``after_ms`` after its claim had left it, by ``actor``.

    ``seq`` is its event.
    """

    after_ms: int
    seq: int
    actor: str
    is_clean: bool
    note: str


class ClaimedNodes:
    """Which leases claims have on which nodes, folded from events."""

    def __init__(self) -> None:
        self._leases: dict[str, tuple[str, str]] = {}

    def claim_of(self, lease: str) -> str | None:
        """Return the claim that has ``lease``; None if no claim has it."""
        found = self._leases.get(lease)
        return None if found is None else found[0]

    def enter(self, event: e.Event) -> tuple[str, str] | None:
        """Count an event; return (claim, node) if a claim has left a node by it, else None."""
        if isinstance(event, e.LeaseStarted) and event.role is e.Role.CLAIM:
            self._leases[event.lease] = event.run, event.slots[0][0]
        if not isinstance(event, e.LeaseEnded) or event.lease not in self._leases:
            return None
        left = self._leases.pop(event.lease)
        return None if left in self._leases.values() else left


class RecordedClaims:
    """The claims of a whole ledger.

    ``ends_ms`` has the stated end of each; ``released`` are those that a person ended before.
    ``wipes`` has the wipes of each node after each claim, in order, and ``usual`` the usual wipe;
    None if no node was ever wiped.
    """

    def __init__(self, events: Iterable[e.Event]) -> None:
        self.ends_ms: dict[str, int] = {}
        self.released: set[str] = set()
        self.wipes: dict[tuple[str, str], list[Wipe]] = {}
        left_ms: dict[tuple[str, str], int] = {}
        nodes = ClaimedNodes()
        for seq, event in enumerate(events, start=1):
            if isinstance(event, e.NodesClaimed):
                self.ends_ms[event.claim] = event.end_ms
            elif isinstance(event, e.LeaseEnding) and event.reason is e.EndReason.END:
                claim = nodes.claim_of(event.lease)
                # A claim that ends by itself has until its stated end, and a release its grace.
                if claim is not None and event.deadline_ms != self.ends_ms[claim]:
                    self.released.add(claim)
            elif isinstance(event, e.NodeWiped):
                self._wiped(seq, event, left_ms)
            left = nodes.enter(event)
            if left is not None:
                left_ms[left] = event.at_ms
                self.wipes.setdefault(left, [])
        self.usual = self._usual()

    def after(self, claim: str, node: str) -> list[Wipe]:
        """Return the wipes of ``node`` after ``claim`` has left it."""
        known = self.wipes.get((claim, node))
        if known is not None:
            return known
        return [] if self.usual is None else [self.usual]

    def _wiped(self, seq: int, event: e.NodeWiped, left_ms: dict[tuple[str, str], int]) -> None:
        key = event.claim, event.node
        wipe = Wipe(
            after_ms=event.at_ms - left_ms[key],
            seq=seq,
            actor=event.actor,
            is_clean=event.is_clean,
            note=event.note,
        )
        self.wipes[key].append(wipe)

    def _usual(self) -> Wipe | None:
        """Return the median wipe of those that left a node clean."""
        clean = [wipe for wipes in self.wipes.values() for wipe in wipes if wipe.is_clean]
        if not clean:
            return None
        clean.sort(key=lambda wipe: (wipe.after_ms, wipe.seq))
        middle = clean[len(clean) // 2]
        return Wipe(
            after_ms=middle.after_ms,
            seq=LATER,
            actor=middle.actor,
            is_clean=True,
            note=middle.note,
        )
