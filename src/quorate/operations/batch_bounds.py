"""How much one request may have a service decide at once: the others wait meanwhile.

Runs that are submitted together are accepted together, or not at all, so that they are one decision
and one block, which no other request can come between. Deciding tries a run at each of its widths,
and costs about as much for each of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from quorate.model.closed_words import counted
from quorate.model.specs import Run
from quorate.operations.caller import Caller, Role
from quorate.views.exits import CommandError, Exit
from quorate.views.statuses import TOO_LARGE

if TYPE_CHECKING:
    from quorate.core.commands import Applied

WIDTHS_MAX: Final = 1_000
"""How many widths the runs of one request to a service have in all; deciding takes 1 s at most."""


def check_count(documents: int, widths_max: int | None) -> None:
    """Raise ``CommandError`` if so many ``documents`` are too many, before they are looked at."""
    if widths_max is not None and documents > widths_max:
        raise _too_large(
            f"documents: {documents:,} in one request, over {widths_max:,}; send them in parts"
        )


def check_widths(caller: Caller, specs: Iterable[Applied], widths_max: int | None) -> None:
    """Raise ``CommandError`` if deciding ``specs`` at once would hold up others for too long.

    A run counts as many as it has widths. Anything else counts one, and nothing for an admin, who
    may describe a whole fleet.
    """
    if widths_max is None:
        return
    least = 0 if caller.role is Role.ADMIN else 1
    sizes = [len(spec.widths()) if isinstance(spec, Run) else least for spec in specs]
    if sum(sizes) > widths_max:
        raise _too_large(
            f"documents: {counted(len(sizes), 'document')} with {sum(sizes):,} widths in all, over "
            f"{widths_max:,}, which is the most that is decided at once (a malleable run has one "
            "for each step, any other run has one); send them in parts, or use a larger "
            "spec.malleable.stepGPUs"
        )


def _too_large(text: str) -> CommandError:
    return CommandError(Exit.INVALID, text, fault=TOO_LARGE)
