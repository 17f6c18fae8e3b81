"""Parses the causes that old events have as text, to find the runs that they refer to. Pure.

A cause is parsed as a whole or not at all. If a cause cannot be parsed, Quorate does not know whose
names it contains. So a reader who may not see everything gets no part of such a cause.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

WITHHELD: Final = "(withheld: it may name others)"
"""Replaces a text whose references are not known, for a reader who may not see everything."""

_NAME: Final = r"[A-Za-z0-9][A-Za-z0-9._:@/-]*"
_NAMES: Final = rf"{_NAME}(?:, {_NAME})*"
_GPUS: Final = r"[0-9]+ GPUs?"
_HOURS: Final = r"[0-9]+(?:\.[0-9]+)?"

# The sentences that ``sentence`` made about a run with a reservation. An owner named in such a
# sentence is the run's owner, or an ancestor whose quota blocks the run. Every run and every
# reservation is a regex group of its own.
_WHY: Final = (
    r"it can start sooner",
    rf"conflict {_NAME} makes room for it",
    rf"(?P<moved>reservation {_NAME}), made before it, has moved",
    rf"no budget line that {_NAME} may spend matches this work",
    rf"budgets can pay [0-9]+ of {_GPUS}, [0-9]+ short",
    rf"borrowing is limited to {_GPUS}, [0-9]+ of {_GPUS} unpaid",
    rf"no node of the pool has flavor {_NAME} and matches the run's selector",
    rf"nodes are short by [0-9]+ of {_GPUS}",
    rf"no single domain has {_GPUS} free, the best is [0-9]+ short",
    (
        rf"room is free only where (?:nobody|no envelope) pays for {_NAME}; "
        rf"(?:elsewhere|where (?:somebody|one) does), nodes are short by [0-9]+ of {_GPUS}"
    ),
    rf"no way to pay for {_GPUS} was found within the search limit",
    (
        rf'waiting for quota headroom: tenant "{_NAME}" has [0-9]+ of [0-9]+ [a-z_]*'
        r"(?:, [0-9]+ more wanted)?"
    ),
    (
        r"(?:it would not be gone in time: room is kept for|it would not end before the planned "
        rf"starts of) (?P<kept>{_NAMES})(?: and [0-9]+ more)?[,:] [0-9]+ of {_GPUS} short"
    ),
    rf"it was cut by conflict {_NAME}, made by hand, and stays away for one notice",
    rf"conflict {_NAME}, called by hand, cut it; it waits for one notice period",
    rf"waiting for (?P<awaited>run {_NAME}) to complete",
    rf"(?P<failed>run {_NAME}), which this run follows, did not complete",
)
_NO_CONFLICT: Final = (
    r"none is needed",
    r"none would make room now",
    r"its owner's hard quota is what it waits for",
    r"it was itself cut within the cool-down",
    rf"{_NAME} had a run end that had just started at others' cost",
    rf"{_NAME} has used [0-9]+ % of its budget",
    rf"it would take {_NAME} beyond its target share of {_NAME}(?: or {_NAME})*",
    (
        rf"pool {_NAME} has lost {_HOURS} of {_HOURS} GPU-hours to conflicts within a day"
        rf"(?:, and this would cost {_HOURS})?"
    ),
    (
        r"ending all (?:work )?that may be ended for "
        rf"(?P<reserved>reservation {_NAME}), {_NAME} in "
        rf"(?:pool {_NAME}|{_NAMES}) leaves [0-9]+ of {_GPUS} short"
    ),
)
_CAUSE: Final = re.compile(
    rf"(?:{'|'.join(_WHY)})"
    rf"(?:; overdue: (?P<overdue>{_NAMES}))?"
    rf"(?:; no conflict: (?:{'|'.join(_NO_CONFLICT)}))?"
)
_KINDS: Final = {
    "moved": "reservation",
    "kept": "",
    "awaited": "run",
    "failed": "run",
    "overdue": "",
    "reserved": "reservation",
}
"""Maps each regex group to the word that precedes the name in the group.

The word is empty if the group is a list of names without such a word.
"""

Called = Callable[[str, Sequence[str]], str]
"""Takes the word before a name, which is empty for a list, and the names; returns the new text."""


def with_references(cause: str, called: Called) -> str:
    """Return ``cause`` with its references to runs and reservations replaced by ``called``.

    If ``cause`` cannot be parsed, return ``WITHHELD``.
    """
    if not cause:
        return cause
    found = _CAUSE.fullmatch(cause)
    if found is None:
        return WITHHELD
    said, end = "", 0
    spans = sorted((found.span(group), word) for group, word in _KINDS.items() if found[group])
    for (first, last), word in spans:
        names = cause[first:last].removeprefix(f"{word} ").split(", ")
        said += cause[end:first] + called(word, names)
        end = last
    return said + cause[end:]
