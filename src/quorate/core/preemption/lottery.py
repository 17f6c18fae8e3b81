"""The lottery: computes a seed that no party can choose, and draws that anyone can repeat.

docs/reference/lottery.md specifies every byte. So other programs can check a published outcome, as
tools/verify_lottery.py does. This module does not decide how many runs are drawn: a conflict passes
its tokens, and takes draws until they free enough GPUs.
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
"""The number of lotteries for which one committed chain has links."""
LINK_BYTES: Final = 32
DUMMY_DRAWS: Final = 1_000
"""The number of dummy draws over which the frequency of cuts is counted."""
_WORD: Final = 1 << 64

Tokens = Mapping[str, Iterable[str]]
"""The runs that entered a lottery, by owner."""


# --- The chain: fixed by the operator before any conflict was known ---------------------------


def chain_before(link: bytes) -> bytes:
    """Return the link before ``link``. This earlier link is public before ``link`` is revealed."""
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


def link_of(text: str) -> bytes | None:
    """Return the bytes of a link or seed; None if ``text`` is not 64 lower-case hex digits."""
    try:
        link = bytes.fromhex(text)
    except ValueError:
        return None
    return link if len(link) == LINK_BYTES and link.hex() == text else None


# --- The seed: what fixes every draw ----------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedParts:
    """The parts of a seed, in the order in which they are hashed.

    ``nonces`` has the nonces of the runs that entered, in the order of the runs' names. ``beacon``
    is reserved for a public beacon. It is always empty, because a ledger cannot commit to the
    source of a beacon yet.
    """

    scope: str
    reservation: str
    start_ms: int
    attempt: int
    preimage: bytes
    nonces: tuple[str, ...]
    beacon: str = ""


def scope_text(scope: Scope) -> str:
    """Return the text of ``scope`` that is hashed into a seed: a JSON array without spaces.

    The domains are in the declared order. Different scopes have different texts, whatever
    characters their names have.
    """
    fields = [scope.pool, scope.flavor, list(scope.domains), scope.limit]
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":"))


def seed_parts(declared: ConflictDeclared, preimage: bytes, beacon: str = "") -> SeedParts:
    """Return the parts of the seed of ``declared``, given the revealed ``preimage``."""
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
    """Return the seed: the SHA-256 hash of the parts, each after its length in eight bytes."""
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
        """Return a number from 0 to ``bound`` - 1; all numbers are equally likely.

        The first eight bytes of each block are a candidate. Candidates at or above the largest
        multiple of ``bound`` are skipped, because they would make small numbers more likely.
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
    """Return the runs that entered ``declared``, by owner; owners and runs are sorted by name."""
    held: dict[str, list[str]] = {}
    for token in sorted(declared.tokens, key=lambda token: (token.owner, token.run)):
        held.setdefault(token.owner, []).append(token.run)
    return {owner: tuple(runs) for owner, runs in held.items()}


def draw(seed: bytes, tokens: Tokens) -> Iterator[tuple[str, str]]:
    """Yield (owner, run) in the order of the draw, until all runs are drawn.

    An owner is drawn uniformly from the owners that remain. Then all runs of this owner are drawn
    uniformly, one by one. Then the next owner is drawn. Owners and runs are sorted by name first,
    so the order of ``tokens`` makes no difference.
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
    """Return each owner's probability of being drawn first, which is equal for all owners."""
    owners = [owner for owner, runs in tokens.items() if any(True for _ in runs)]
    return {owner: Fraction(1, len(owners)) for owner in owners}


def run_odds(tokens: Tokens) -> dict[str, Fraction]:
    """Return each run's probability of being drawn first.

    The result is the owner's probability, divided by the number of the owner's runs.
    """
    odds = first_draw_odds(tokens)
    found: dict[str, Fraction] = {}
    for owner, runs in tokens.items():
        held = list(runs)
        found.update((run, odds[owner] / len(held)) for run in held)
    return found


def dummy_seed(number: int) -> bytes:
    """Return a seed for dummy draws. No conflict can have this seed, because its tag differs."""
    return sha256(DUMMY_TAG + number.to_bytes(8, "big")).digest()


def cut_frequency(
    settle: Callable[[bytes], Iterable[str]], runs: Iterable[str], draws: int = DUMMY_DRAWS
) -> dict[str, int]:
    """Return in how many of ``draws`` dummy draws each of ``runs`` is a victim.

    ``settle`` returns the victims for one seed. The seeds are always the same, so the result
    changes only if the conflict changes.
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

    Only the two events are compared. ``core/audit/lottery_audit.py`` checks the declaration itself,
    against the history.
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
        faults.append(f"there are cuts or draws although the outcome is {resolved.outcome}")
    if resolved.beacon:
        # The ledger commits to no source of beacons, so a caller could have tried many beacons.
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
