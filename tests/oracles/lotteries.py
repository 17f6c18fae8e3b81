"""Ledgers with lotteries, made by hand as an honest operator would record them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from quorate.core.preemption.lottery import chain_link, draw, seed_of, seed_parts, tokens_by_owner
from quorate.ledger.chain import GENESIS, Block, seal
from quorate.model.events import (
    ConflictCause,
    ConflictDeclared,
    ConflictOutcome,
    ConflictResolved,
    Cut,
    CutStep,
    DrawnToken,
    EndReason,
    Event,
    LeaseEnded,
    LeaseEnding,
    LeaseStarted,
    LedgerOpened,
    LotteryCommitted,
    Role,
    RunSubmitted,
    Scope,
    StartReason,
    Tier,
    Token,
)
from quorate.model.specs import EnvelopeId, Run
from quorate.operations.ledger.ledger_history import export_lines

SECRET: Final = bytes(range(100, 132))
LENGTH: Final = 6
START_MS: Final = 1_700_000_000_000
SCOPE: Final = Scope("default", "H100", ("eu/a/f1", "eu/a/f2"))
FLEET: Final = (("ada", "a1"), ("ada", "a2"), ("ben", "b1"), ("cy", "c1"), ("cy", 'c2 "é"'))
"""Owners and runs; one name has characters that JSON escapes."""


def link(number: int) -> bytes:
    """Return link ``number`` of the chain that every ledger here commits to."""
    return chain_link(SECRET, number, length=LENGTH)


def token(owner: str, run: str, gpus: int = 8) -> Token:
    """Return the token of ``run`` with the nonce of its submission."""
    return Token(owner, run, gpus, f"nonce of {run}")


def declaration(
    index: int = 1,
    *,
    conflict: str = "c-1",
    fleet: Sequence[tuple[str, str]] = FLEET,
    at_ms: int = START_MS,
) -> ConflictDeclared:
    """Return a conflict with all runs of ``fleet`` as entrants, for a draw with link ``index``."""
    return ConflictDeclared(
        at_ms=at_ms,
        actor="clock",
        conflict=conflict,
        cause=ConflictCause.RESERVATION,
        scope=SCOPE,
        reservation="r-1",
        deficit=18,
        short=16,
        size_max=64,
        due_ms=at_ms + 900_000,
        attempt=1,
        preimage_index=index,
        commitment=link(index - 1).hex(),
        tokens=tuple(token(owner, run) for owner, run in fleet),
    )


def outcome(
    declared: ConflictDeclared, *, draws: int = 3, spared: Sequence[int] = (1,), beacon: str = ""
) -> ConflictResolved:
    """Return the outcome of ``declared`` with ``draws`` draws.

    ``spared`` are the numbers of the draws, from 0, whose runs continue.
    """
    preimage = link(declared.preimage_index)
    seed = seed_of(seed_parts(declared, preimage, beacon))
    taken = [
        DrawnToken(owner, run, number in spared)
        for number, (owner, run) in enumerate(islice(draw(seed, tokens_by_owner(declared)), draws))
    ]
    cuts = [Cut(CutStep.SHRINK, "elsewhere", 1, 2, ("lease of elsewhere",))]
    cuts += [
        Cut(CutStep.LOTTERY, each.run, 0, 8, (f"lease of {each.run}",))
        for each in taken
        if not each.spared
    ]
    return ConflictResolved(
        at_ms=declared.due_ms,
        actor="clock",
        conflict=declared.conflict,
        outcome=ConflictOutcome.CLEARED,
        preimage=preimage.hex() if taken else "",
        beacon=beacon if taken else "",
        seed=seed.hex() if taken else "",
        cuts=tuple(cuts),
        draws=tuple(taken),
        lost_gpu_ms=3_600_000,
    )


def nothing_needed(declared: ConflictDeclared) -> ConflictResolved:
    """Return the outcome of a conflict that was not needed: no link is revealed."""
    return ConflictResolved(
        declared.due_ms,
        "clock",
        declared.conflict,
        ConflictOutcome.NOT_NEEDED,
        preimage="",
        beacon="",
        seed="",
        cuts=(),
        draws=(),
        lost_gpu_ms=0,
    )


def opening(fleet: Sequence[tuple[str, str]] = FLEET) -> list[Event]:
    """Return the first events of a ledger in which all of ``fleet`` runs."""
    found: list[Event] = [
        LedgerOpened(0, "root", "ledger", "00" * 32),
        LotteryCommitted(0, "root", link(0).hex(), LENGTH),
    ]
    for owner, run in fleet:
        spec = Run(name=run, owner=owner, flavors=("H100",), gpus=8, nonce=f"nonce of {run}")
        found += [RunSubmitted(0, owner, spec), lease(run)]
    return found


def lease(run: str) -> LeaseStarted:
    """Return the start of the only lease of ``run``."""
    return LeaseStarted(
        at_ms=0,
        actor="clock",
        lease=f"lease of {run}",
        run=run,
        partner=None,
        comp_path="group/0",
        bundle=0,
        role=Role.ACTIVE,
        slots=((f"node of {run}", 255),),
        payer=EnvelopeId("budget/envelope"),
        tier=Tier.OWNED,
        hold_gpu_ms=1 << 40,
        start_ms=0,
        reason=StartReason.START,
    )


def stops(resolved: ConflictResolved) -> list[Event]:
    """Return the ends of the leases that the lottery of ``resolved`` cut."""
    names = [name for cut in resolved.cuts if cut.step is CutStep.LOTTERY for name in cut.leases]
    reason, at_ms, seed = EndReason.RANDOM_PREEMPT, resolved.at_ms, resolved.seed
    found: list[Event] = [
        LeaseEnding(at_ms, "clock", name, reason, at_ms + 120_000, f"drawn by seed {seed}")
        for name in names
    ]
    return found + [LeaseEnded(at_ms, "clock", name, reason, at_ms, seed) for name in names]


@dataclass(slots=True)
class Ledger:
    """The blocks of a ledger, each a list of events."""

    blocks: list[list[Event]] = field(default_factory=lambda: [opening()])

    def settle(self, declared: ConflictDeclared, resolved: ConflictResolved) -> None:
        """Add the two commits of a conflict, with the resulting stops."""
        self.blocks += [[declared], [resolved, *stops(resolved)]]

    def events(self) -> list[Event]:
        """Return every event, in order."""
        return [event for block in self.blocks for event in block]

    def export(self) -> str:
        """Return the output of ``quorate ledger export`` for this ledger."""
        head, sealed = GENESIS, list[Block]()
        for events in self.blocks:
            sealed.append(seal(head, events))
            head = sealed[-1].head
        return "".join(export_lines(sealed))


def honest() -> Ledger:
    """Return a ledger with four conflicts: drawn, not needed, settled by cuts alone, drawn."""
    ledger = Ledger()
    first = declaration(1)
    ledger.settle(first, outcome(first))
    none = declaration(2, conflict="c-2", at_ms=START_MS + 10**7)
    ledger.settle(none, nothing_needed(none))
    cut = declaration(2, conflict="c-3", at_ms=START_MS + 2 * 10**7)
    ledger.settle(cut, outcome(cut, draws=0))
    left = [each for each in FLEET if f"lease of {each[1]}" not in ended(ledger)]
    last = declaration(2, conflict="c-4", fleet=left, at_ms=START_MS + 3 * 10**7)
    ledger.settle(last, outcome(last, draws=2, spared=()))
    return ledger


def ended(ledger: Ledger) -> set[str]:
    """Return the leases of ``ledger`` that have ended."""
    return {event.lease for event in ledger.events() if isinstance(event, LeaseEnded)}
