"""The names of the kinds of resource, and which kind a word means. Imports nothing heavy."""

from __future__ import annotations

from typing import Final, NamedTuple

from quorate.views.exits import CommandError, Exit


class Called(NamedTuple):
    """The names of a kind; ``short`` are abbreviations that people may type."""

    name: str
    plural: str
    short: tuple[str, ...]


NODE: Final = Called("node", "nodes", ("no",))
DOMAIN: Final = Called("domain", "domains", ("dom", "fleet"))
POOL: Final = Called("pool", "pools", ("po",))
OWNER: Final = Called("owner", "owners", ("ow", "tenant", "tenants"))
BUDGET: Final = Called("budget", "budgets", ("bu",))
ENVELOPE: Final = Called("envelope", "envelopes", ("en", "env"))
CAP: Final = Called("cap", "caps", ("ca",))
RUN: Final = Called("run", "runs", ("ru", "job", "jobs"))
QUEUE: Final = Called("queue", "queue", ("q", "pending"))
RESERVATION: Final = Called("reservation", "reservations", ("rsv", "resv"))
OUTCOME: Final = Called("resolveroutcome", "resolveroutcomes", ("ro", "conflict", "conflicts"))
LEASE: Final = Called("lease", "leases", ("le",))
CLAIM: Final = Called("claim", "claims", ())
CHARGE: Final = Called("charge", "charges", ("ch",))
SYSTEM: Final = Called("system", "system", ("sys",))
TENANT: Final = Called("tenant", "tenants", ())

ALL: Final = (
    NODE,
    DOMAIN,
    POOL,
    OWNER,
    BUDGET,
    ENVELOPE,
    CAP,
    RUN,
    QUEUE,
    RESERVATION,
    OUTCOME,
    LEASE,
    CLAIM,
    CHARGE,
    SYSTEM,
)
"""The kinds that can be listed, without ``TENANT``, the administrators' view of an owner."""
_BY_NAME: Final[dict[str, Called]] = {
    name: kind for kind in ALL for name in (kind.name, kind.plural, *kind.short)
}


def kind_named(word: str) -> Called:
    """Return the kind that ``word`` means; raises ``CommandError`` with the nearest kind."""
    found = _BY_NAME.get(word.lower())
    if found is None:
        from difflib import get_close_matches  # noqa: PLC0415 - for a wrong word only

        near = get_close_matches(word.lower(), _BY_NAME, n=1)
        known = ", ".join(kind.plural for kind in ALL)
        hint = f"did you mean {near[0]}?" if near else f"there are: {known}"
        raise CommandError(Exit.USAGE, f"there is no kind {word!r}; {hint}")
    return found


def split_target(kind: str, names: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """Return kind and names of ``KIND NAME...``, or of ``KIND/NAME`` as printed by ``apply``."""
    if not names and "/" in kind:
        word, _, name = kind.partition("/")
        return word, (name,)
    return kind, names
