"""What the operations on notices give."""

from __future__ import annotations

from quorate.operations.common_responses import Given, Tree


class Notice(Given, kw_only=True, frozen=True):
    """One notice: docs/notices.md has the kinds and their ``facts``.

    ``id`` names it in its ledger for ever. ``user`` is empty where it is for those who answer for
    the owner, ``run`` where it is about none, or about several.
    """

    id: str
    seq: int
    part: int
    at: str
    kind: str
    owner: str
    user: str
    run: str
    text: str
    facts: Tree


class Notices(Given, kw_only=True, frozen=True):
    """Notices in order; ask from ``next`` to read on."""

    items: tuple[Notice, ...]
    next: int
