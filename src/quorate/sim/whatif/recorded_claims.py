"""The early releases of the claims in a ledger, and the wipes of their nodes. Pure.

The fork ends a claim at its stated end; only a person's command releases a claim earlier. In the
fork, the time between a claim's end and a wipe is the same as in the ledger.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from quorate.model import events as e
from quorate.sim.whatif.recorded_work import LATER


@dataclass(frozen=True, slots=True, kw_only=True)
class Wipe:
    """A wipe of a node by ``actor``, ``after_ms`` after the claim left the node.

    ``seq`` is the sequence number of the event that records the wipe.
    """

    after_ms: int
    seq: int
    actor: str
    is_clean: bool
    note: str


class ClaimedNodes:
    """For each open lease of a claim: the claim, and the node. Derived from events, one by one."""

    def __init__(self) -> None:
        self._leases: dict[str, tuple[str, str]] = {}

    def claim_of(self, lease: str) -> str | None:
        """Return the claim that has ``lease``; None if no claim has this lease."""
        found = self._leases.get(lease)
        return None if found is None else found[0]

    def enter(self, event: e.Event) -> tuple[str, str] | None:
        """Enter an event; return (claim, node) if the event ends the claim's use of the node."""
        if isinstance(event, e.LeaseStarted) and event.role is e.Role.CLAIM:
            self._leases[event.lease] = event.run, event.slots[0][0]
        if not isinstance(event, e.LeaseEnded) or event.lease not in self._leases:
            return None
        left = self._leases.pop(event.lease)
        return None if left in self._leases.values() else left


class RecordedClaims:
    """The claims of a whole ledger.

    ``ends_ms`` has the stated end of each claim, and ``released`` the claims that a person ended
    earlier. ``wipes`` has the wipes of each node after each claim, in order. ``usual`` is the
    median of the wipes that left a node clean, or None if there was no such wipe.
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
                # A claim that ends by itself stops at its stated end; a released claim gets its
                # grace.
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
        """Return the wipes of ``node`` after ``claim`` has left it.

        If the claim did not use the node in the ledger, return the usual wipe, if there is one.
        """
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
        """Return the median of the wipes that left a node clean."""
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
