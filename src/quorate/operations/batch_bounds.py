"""Limits of what one request to a service may decide at once, because other requests wait.

Runs that are submitted together are accepted together or not at all. So they are one decision and
one block, and no other request is decided meanwhile. A decision tries each run at each of its
widths, and each width costs about the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from quorate.model.closed_words import counted
from quorate.model.specs import Run
from quorate.model.task_arrays import indexes_of
from quorate.operations.caller import Caller, Role
from quorate.views.exits import CommandError, Exit
from quorate.views.statuses import TOO_LARGE

if TYPE_CHECKING:
    from quorate.core.commands import Applied

WIDTHS_MAX: Final = 1_000
"""The most widths that all runs of one request to a service may have together. A decision about so
many widths takes at most one second."""
LARGE: Final = 100
"""A request with more widths or documents than this waits until smaller requests are decided."""


def check_count(documents: int, widths_max: int | None) -> None:
    """Raise ``CommandError`` if there are too many ``documents``."""
    if widths_max is not None and documents > widths_max:
        raise _too_large(
            f"documents: {documents:,} in one request, over {widths_max:,}; send them in parts"
        )


def is_large(documents: Iterable[object]) -> bool:
    """Return whether deciding ``documents``, which are not checked yet, takes long.

    A document that declares its widths in the expected form is counted once for each width. Any
    other document is counted once.
    """
    left = LARGE
    for document in documents:
        left -= _widths_of(document)
        if left < 0:
            return True
    return False


def _widths_of(document: object) -> int:
    spec = document.get("spec") if isinstance(document, Mapping) else None
    if not isinstance(spec, Mapping):
        return 1
    array = spec.get("array")
    tasks = _tasks_of(array.get("tasks")) if isinstance(array, Mapping) else 1
    return tasks * _steps_of(spec.get("malleable"))


def _tasks_of(text: object) -> int:
    try:
        return len(indexes_of(str(text).partition("%")[0]))
    except ValueError:
        return 1


def _steps_of(malleable: object) -> int:
    if not isinstance(malleable, Mapping):
        return 1
    least, most, step = (malleable.get(f"{each}GPUs") for each in ("minTotal", "maxTotal", "step"))
    if not (isinstance(least, int) and isinstance(most, int) and isinstance(step, int)):
        return 1
    return max(1, (most - least) // max(1, step) + 1)


def check_widths(caller: Caller, specs: Iterable[Applied], widths_max: int | None) -> None:
    """Raise ``CommandError`` if deciding ``specs`` at once would block other requests for too long.

    A run is counted once for each of its widths. Any other document is counted once. If an admin
    sent it, it is not counted, because an admin may describe a whole fleet.
    """
    if widths_max is None:
        return
    least = 0 if caller.role is Role.ADMIN else 1
    sizes = [len(spec.widths()) if isinstance(spec, Run) else least for spec in specs]
    if sum(sizes) > widths_max:
        raise _too_large(
            f"documents: {counted(len(sizes), 'document')} with {sum(sizes):,} widths in all, over "
            f"{widths_max:,}, the limit for one request (a malleable run has one "
            "width for each step, any other run has one width); send them in parts, or use a "
            "larger spec.malleable.stepGPUs"
        )


def too_long(command: object, started: int) -> CommandError:
    """Return the error for ``command``, whose decision was stopped after ``started`` starts."""
    documents = len(getattr(command, "specs", ()))
    return _too_large(
        f"documents: deciding {documents:,} in one request would make other requests wait too "
        f"long, and was stopped after {counted(started, 'start')}; nothing was recorded; send "
        "them in parts of "
        f"at most {LARGE}, each of which is recorded as a whole or not at all"
    )


def _too_large(text: str) -> CommandError:
    return CommandError(Exit.INVALID, text, fault=TOO_LARGE)
