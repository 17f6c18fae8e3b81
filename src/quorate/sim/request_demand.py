"""Draws requests over a network: submissions, and commands about tokens and budgets.

The submissions have idempotency keys. The requests are drawn from a separate generator, so that all
other draws of a world stay the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from random import Random
from typing import Final

from msgspec.structs import replace

from quorate.core.commands import (
    Command,
    FallBack,
    IssueToken,
    Keyed,
    RemoveOwner,
    ReportBudget,
    RevokeToken,
    Submit,
)
from quorate.model.amounts import HOUR_MS, MINUTE_MS
from quorate.model.events import Allowance, TokenRole
from quorate.sim.demand import START_MS, TEAMS, Arrival, Size, Wish, one_in
from quorate.sim.random_world import World

_TENANTS: Final = ("", "", *TEAMS, "newt", "owl", "guest", "nobody")
_WISHES_PER_TOKEN: Final = 10
_WISHES_PER_REPORT: Final = 15
_SOURCE: Final = "accounting"
_AGAIN_AFTER_MS: Final = (MINUTE_MS, HOUR_MS, 6 * HOUR_MS, 26 * HOUR_MS)
"""Limits of the random delay before a request is repeated; each repetition draws one of the limits.
With the last limit, the key of the request may have been forgotten before the repetition."""


@dataclass(frozen=True, slots=True)
class Requests:
    """The submissions of some runs, by name, and the other requests."""

    submits: Mapping[str, Keyed]
    wishes: tuple[Wish, ...]


def draw_requests(chance: Random, size: Size, world: World) -> Requests:
    """Return submissions of some arrivals, repetitions of submissions, and other requests.

    The submissions have idempotency keys.
    """
    submits: dict[str, Keyed] = {}
    wishes: list[Wish] = []
    for arrival in world.arrivals:
        if not one_in(chance, 3):
            continue
        name = arrival.run.name
        first = Keyed(Submit(arrival.run), f"submit-{name}", _digest(chance))
        submits[name] = first
        if one_in(chance, 2):
            # The repetition comes after the first request, unless the first one arrives very late.
            after_ms = 30 * MINUTE_MS + chance.randrange(chance.choice(_AGAIN_AFTER_MS))
            wishes.append(Wish(arrival.at_ms + after_ms, _again(chance, first, arrival)))
    wishes += _token_wishes(chance, size, world.until_ms)
    wishes += _last_tokens(chance, world)
    wishes += _told_budgets(chance, size, world.until_ms)
    return Requests(submits, tuple(sorted(wishes, key=lambda wish: wish.at_ms)))


def _again(chance: Random, first: Keyed, arrival: Arrival) -> Keyed:
    """Return the same request, or a different request with the same key."""
    if not one_in(chance, 3):
        return first
    return Keyed(Submit(replace(arrival.run, user="somebody else")), first.key, _digest(chance))


def _token_wishes(chance: Random, size: Size, until_ms: int) -> list[Wish]:
    """Return requests that issue access tokens, some refused, and revoke the tokens later."""
    found: list[Wish] = []
    for number in range(2 + size.wishes // _WISHES_PER_TOKEN):
        at_ms = chance.randrange(START_MS, until_ms)
        issue = _issue(chance, f"token{number:03d}", at_ms)
        found.append(Wish(at_ms, issue))
        revoke: Command = RevokeToken(issue.token, "lost")
        if one_in(chance, 5):
            revoke = RevokeToken(f"{issue.token}-misspelt")
        found.append(Wish(at_ms + chance.randrange(12 * HOUR_MS), revoke))
    return found


def _last_tokens(chance: Random, world: World) -> Iterator[Wish]:
    """Yield requests for access tokens of tenants that other requests soon try to remove."""
    for number, wish in enumerate(world.wishes):
        if isinstance(wish.command, RemoveOwner):
            at_ms = wish.at_ms - chance.randrange(1, HOUR_MS)
            role = chance.choice((TokenRole.TENANT_ADMIN, TokenRole.USER))
            token, tenant = f"last{number:03d}", wish.command.name
            yield Wish(at_ms, IssueToken(token, _digest(chance), role, tenant, "user"))


def _told_budgets(chance: Random, size: Size, until_ms: int) -> Iterator[Wish]:
    """Yield an accounting system's reports about owners, and the ends of these reports."""
    for _ in range(2 + size.wishes // _WISHES_PER_REPORT):
        at_ms, owner = chance.randrange(START_MS, until_ms), chance.choice((*TEAMS, "nobody"))
        told = ReportBudget(owner, _SOURCE, _allowance(chance), _allowance(chance))
        yield Wish(at_ms, told)
        if one_in(chance, 3):
            yield Wish(at_ms + chance.randrange(HOUR_MS), told)
        if one_in(chance, 2):
            silent = FallBack(owner, _SOURCE, "no answer", is_linked=not one_in(chance, 3))
            yield Wish(at_ms + chance.randrange(12 * HOUR_MS), silent)


def _allowance(chance: Random) -> Allowance | None:
    if one_in(chance, 3):
        return None
    granted_ms = chance.choice((0, 1, 40, 4_000)) * HOUR_MS
    return Allowance(granted_ms, granted_ms * chance.randrange(-30, 101) // 100)


def _issue(chance: Random, token: str, at_ms: int) -> IssueToken:
    tenant = chance.choice(_TENANTS)
    usual = (TokenRole.TENANT_ADMIN, TokenRole.USER)
    role = chance.choice(usual if tenant else (TokenRole.ADMIN, TokenRole.AUDITOR))
    if one_in(chance, 8):
        role = chance.choice(tuple(TokenRole))
    return IssueToken(
        "token000" if one_in(chance, 8) else token,
        _digest(chance),
        role,
        tenant,
        "user",
        scopes=chance.choice(((), ("runs",))),
        expires_ms=chance.choice((None, at_ms - HOUR_MS, at_ms + 24 * HOUR_MS)),
    )


def _digest(chance: Random) -> str:
    return f"{chance.getrandbits(256):064x}"
