"""What to type for those who want to delete something: the ledger keeps it, and it is retired."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

DELETING: Final = ("delete", "remove", "rm", "destroy")
"""The words that people try."""
_RETIRING: Final = {
    "node": "quorate node drain NAME",
    "run": "quorate cancel NAME",
    "owner": "quorate admin tenant delete NAME",
    "tenant": "quorate admin tenant delete NAME",
    "budget": "quorate patch budget NAME --set spec.envelopes[ENVELOPE].end=TIME",
    "claim": "quorate release NAME",
    "context": "quorate context delete NAME",
    "token": "quorate token revoke ID",
}
_PAGE: Final = "docs/reference/documents.md#retiring"


def retiring_hint(words: Sequence[str]) -> str:
    """Return what to type in the place of ``words``, which begin with one of ``DELETING``."""
    kind = words[1].partition("/")[0].lower().removesuffix("s") if len(words) > 1 else ""
    if kind in _RETIRING:
        return f"to retire a {kind}: {_RETIRING[kind]}"
    if kind == "pool":
        return "a pool stays, and takes no work once no node belongs to it"
    return f"nothing is deleted from the ledger; how each kind is retired: {_PAGE}"
