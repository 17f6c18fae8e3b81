"""The kinds of thing that can be listed, by every name people use for them."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Final

from quorate.answers.exits import CommandError, Exit
from quorate.answers.kind import Kind
from quorate.answers.kinds_claims import CLAIM
from quorate.answers.kinds_fleet import DOMAIN, NODE, POOL, SYSTEM
from quorate.answers.kinds_money import BUDGET, CAP, CHARGE, ENVELOPE
from quorate.answers.kinds_owners import OWNER
from quorate.answers.kinds_plans import OUTCOME, RESERVATION
from quorate.answers.kinds_queue import QUEUE
from quorate.answers.kinds_tenants import TENANT
from quorate.answers.kinds_work import LEASE, RUN

KINDS: Final = (
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
_BY_NAME: Final[dict[str, Kind]] = {
    name: kind for kind in KINDS for name in (kind.name, kind.plural, *kind.short)
}

KIND_OF: Final[dict[str, Kind]] = {kind.name: kind for kind in (*KINDS, TENANT)}
"""Every kind by its own name; a tenant is an owner as administrators see it."""


def kind_named(word: str) -> Kind:
    """Return the kind that ``word`` means; raises ``CommandError`` that names the nearest."""
    found = _BY_NAME.get(word.lower())
    if found is None:
        near = get_close_matches(word.lower(), _BY_NAME, n=1)
        known = ", ".join(kind.plural for kind in KINDS)
        hint = f"did you mean {near[0]}?" if near else f"there are: {known}"
        raise CommandError(Exit.USAGE, f"there is no kind {word!r}; {hint}")
    return found


def split_target(kind: str, names: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """Return kind and names of ``KIND NAME...`` or of ``KIND/NAME``, as ``apply`` prints it."""
    if not names and "/" in kind:
        word, _, name = kind.partition("/")
        return word, (name,)
    return kind, names
