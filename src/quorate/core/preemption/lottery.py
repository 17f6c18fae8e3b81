"""The lottery: a seed that no party could choose, and draws that anyone can repeat.

Specified byte for byte in docs/reference/lottery.md, so that a second implementation can check a
published outcome without this one; tools/verify_lottery.py is one. This module does not know the
purpose of a draw: a conflict passes its tokens and stops taking draws when it has enough.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from hashlib import sha256
from typing import Final

from quorate.model.events import (
    ConflictDeclared,
    ConflictOutcome,
    ConflictResolved,
    CutStep,
    Scope,
)

CHAIN_TAG: Final = b"quorate-lottery-chain/1\0"
SEED_TAG: Final = b"quorate-lottery-seed/1"
DRAW_TAG: Final = b"quorate-lottery-draw/1\0"
DUMMY_TAG: Final = b"quorate-lottery-dummy/1\0"
CHAIN_LENGTH: Final = 100_000
"""How many lotteries one committed chain serves."""
LINK_BYTES: Final = 32
DUMMY_DRAWS: Final = 1_000
"""How many dummy draws a cut frequency is counted over."""
_WORD: Final = 1 << 64

Tokens = Mapping[str, Iterable[str]]
"""The runs that entered, by their owners."""


# --- The chain: fixed by the operator before any conflict was known ---------------------------


def chain_before(link: bytes) -> bytes:
    """Return the link before ``link``: the last public one before ``link`` is revealed."""
    return sha256(CHAIN_TAG + link).digest()


def chain_back(link: bytes, count: int) -> bytes:
    """Return the link that is ``count`` links before ``link``."""
    digest, tag = sha256, CHAIN_TAG
    for _ in range(count):
        link = digest(tag + link).digest()
    return link


def chain_link(secret: bytes, number: int, *, length: int = CHAIN_LENGTH) -> bytes:
    """Return link ``number`` of the chain that ends in ``secret``; link 0 is the commitment.

    Link ``number`` is ``secret`` hashed ``length - number`` times, so early links cost the most.
    """
    assert 0 <= number <= length, (number, length)
    return chain_back(secret, length - number)


def leads_to(link: bytes, number: int, anchor: bytes) -> bool:
    """Return whether ``link`` is link ``number`` of the chain whose link 0 is ``anchor``.

    Costs ``number`` hashes.
    """
    for _ in range(number):
        link = chain_before(link)
    return link == anchor


def link_of(text: str) -> bytes | None:
    """Return the bytes of the link or seed ``text``; None unless it is 64 lower-case hex digits."""
    try:
        link = bytes.fromhex(text)
    except ValueError:
        return None
    return link if len(link) == LINK_BYTES and link.hex() == text else None


# --- The seed: what fixes every draw ----------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedParts:
    """All parts of a seed, in the order in which they are hashed.

    ``nonces`` are those of the runs that entered, in the order of their names. ``beacon`` is empty:
    the field is reserved for a public beacon, once its source can be committed to.
    """

    scope: str
    reservation: str
    start_ms: int
    attempt: int
    preimage: bytes
    nonces: tuple[str, ...]
    beacon: str = ""


def scope_text(scope: Scope) -> str:
    """Return the text of ``scope`` that goes into a seed: a JSON array of its fields, no spaces.

    Different scopes have different texts, whatever characters their names have; the domains are in
    the declared order.
    """
    fields = [scope.pool, scope.flavor, list(scope.domains), scope.limit]
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":"))


def seed_parts(declared: ConflictDeclared, preimage: bytes, beacon: str = "") -> SeedParts:
    """Return the parts of the seed of ``declared``, once ``preimage`` is revealed."""
    in_order = sorted(declared.tokens, key=lambda token: token.run)
    return SeedParts(
        scope=scope_text(declared.scope),
        reservation=declared.reservation,
        start_ms=declared.due_ms,
        attempt=declared.attempt,
        preimage=preimage,
        nonces=tuple(token.nonce for token in in_order),
        beacon=beacon,
    )


def seed_of(parts: SeedParts) -> bytes:
    """Return the seed: SHA-256 over the parts, each behind its length as eight bytes."""
    fields = [
        SEED_TAG,
        parts.scope.encode(),
        parts.reservation.encode(),
        str(parts.start_ms).encode(),
        str(parts.attempt).encode(),
        parts.preimage,
        str(len(parts.nonces)).encode(),
        *(nonce.encode() for nonce in parts.nonces),
        parts.beacon.encode(),
    ]
    digest = sha256()
    for field in fields:
        digest.update(len(field).to_bytes(8, "big"))
        digest.update(field)
    return digest.digest()


# --- The draws --------------------------------------------------------------------------------


class Draws:
    """Uniform numbers from a seed: SHA-256 in counter mode, with rejection sampling."""

    __slots__ = ("_counter", "_seed")

    def __init__(self, seed: bytes) -> None:
        self._seed = seed
        self._counter = 0

    def below(self, bound: int) -> int:
        """Return a number from 0 to ``bound`` - 1, each exactly as likely as the others.

        The first eight bytes of a block are one candidate; those at or above the largest multiple
        of ``bound`` would favour small numbers and are passed over.
        """
        assert 0 < bound < _WORD, bound
        limit = _WORD - _WORD % bound
        while True:
            block = sha256(DRAW_TAG + self._seed + self._counter.to_bytes(8, "big")).digest()
            self._counter += 1
            candidate = int.from_bytes(block[:8], "big")
            if candidate < limit:
                return candidate % bound


def tokens_by_owner(declared: ConflictDeclared) -> dict[str, tuple[str, ...]]:
    """Return the runs that entered ``declared``, by owner; both in the order of their names."""
    held: dict[str, list[str]] = {}
    for token in sorted(declared.tokens, key=lambda token: (token.owner, token.run)):
        held.setdefault(token.owner, []).append(token.run)
    return {owner: tuple(runs) for owner, runs in held.items()}


def draw(seed: bytes, tokens: Tokens) -> Iterator[tuple[str, str]]:
    """Yield (owner, run) in the order of the draw, until the caller has enough or all are drawn.

    An owner is drawn uniformly from those that remain; it yields its runs, drawn uniformly from
    those it has left, until it has none; then the next owner is drawn. Names are in the order of
    their characters, so the order in which ``tokens`` lists them makes no difference.
    """
    draws = Draws(seed)
    held = {owner: sorted(runs) for owner, runs in tokens.items()}
    owners = sorted(owner for owner, runs in held.items() if runs)
    while owners:
        owner = owners.pop(draws.below(len(owners)))
        left = held[owner]
        while left:
            yield owner, left.pop(draws.below(len(left)))


# --- Odds: what can be said before the draw ---------------------------------------------------


def first_draw_odds(tokens: Tokens) -> dict[str, Fraction]:
    """Return the probability of each owner to be drawn first: equal for all that entered."""
    owners = [owner for owner, runs in tokens.items() if any(True for _ in runs)]
    return {owner: Fraction(1, len(owners)) for owner in owners}


def run_odds(tokens: Tokens) -> dict[str, Fraction]:
    """Return the probability of each run to be drawn first: its owner's, divided among its runs."""
    odds = first_draw_odds(tokens)
    found: dict[str, Fraction] = {}
    for owner, runs in tokens.items():
        held = list(runs)
        found.update((run, odds[owner] / len(held)) for run in held)
    return found


def dummy_seed(number: int) -> bytes:
    """Return a seed for dummy draws, which no conflict can have: its tag is different."""
    return sha256(DUMMY_TAG + number.to_bytes(8, "big")).digest()


def cut_frequency(
    settle: Callable[[bytes], Iterable[str]], runs: Iterable[str], draws: int = DUMMY_DRAWS
) -> dict[str, int]:
    """Return in how many of ``draws`` dummy draws each of ``runs`` is a victim.

    ``settle`` gives the victims of one seed. The seeds are always the same ones, so the answer
    changes only with the conflict.
    """
    assert draws > 0, draws
    counts = dict.fromkeys(runs, 0)
    for number in range(draws):
        for run in set(settle(dummy_seed(number))):
            assert run in counts, run
            counts[run] += 1
    return counts


# --- Checking a published outcome -------------------------------------------------------------


def check_draws(declared: ConflictDeclared, resolved: ConflictResolved) -> list[str]:
    """Return the faults of a published outcome, as sentences; empty if it is correct.

    Judged from the two events alone. To check the declaration itself takes the history:
    ``core/audit/lottery_audit.py``.
    """
    assert declared.conflict == resolved.conflict, (declared.conflict, resolved.conflict)
    faults = []
    runs = [token.run for token in declared.tokens]
    if len(set(runs)) < len(runs):
        faults.append("a run entered with more than one token")
    if any(token.gpus > declared.size_max for token in declared.tokens):
        faults.append(f"a token is larger than {declared.size_max} GPUs, the declared maximum")
    is_cleared = resolved.outcome is ConflictOutcome.CLEARED
    if not is_cleared and (resolved.cuts or resolved.draws):
        faults.append(f"it has cuts or draws although its outcome is {resolved.outcome}")
    if resolved.beacon:
        # No beacon is committed to beforehand, so the drawing party could have tried many.
        faults.append("a beacon is shown, but beacons are not in use")
    drawn = [each.run for each in resolved.draws]
    victims = {each.run for each in resolved.draws if not each.spared}
    if {cut.run for cut in resolved.cuts if cut.step is CutStep.LOTTERY} != victims:
        faults.append("the lottery's cuts are not exactly the runs that were drawn and not spared")
    if strangers := sorted(set(drawn) - set(runs)):
        faults.append(f"a run was drawn that did not enter: {', '.join(strangers)}")
    if resolved.draws:
        faults += _seed_faults(declared, resolved)
    elif resolved.preimage or resolved.seed:
        faults.append("no token was drawn, but a preimage or a seed is shown")
    return faults


def _seed_faults(declared: ConflictDeclared, resolved: ConflictResolved) -> list[str]:
    """Return the faults of the preimage, the seed and the sequence of draws."""
    preimage = link_of(resolved.preimage)
    if preimage is None or chain_before(preimage).hex() != declared.commitment:
        return ["the preimage does not hash to the commitment of the declaration"]
    seed = seed_of(seed_parts(declared, preimage, resolved.beacon))
    if seed.hex() != resolved.seed:
        return [f"the seed does not follow from its parts, {seed.hex()}"]
    shown = [(each.owner, each.run) for each in resolved.draws]
    sequence = list(draw(seed, tokens_by_owner(declared)))
    if shown != sequence[: len(shown)]:
        return ["the draws are not the beginning of the sequence that the seed gives"]
    return []
