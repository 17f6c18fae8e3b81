"""Amounts, times and places as text for people. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Final

from quorate.documents.times import time_text
from quorate.model.amounts import (
    DAY_MS,
    HOUR_MS,
    MINUTE_MS,
    SECOND_MS,
    nearest,
    parts_that_add_up,
)
from quorate.model.closed_words import counted
from quorate.model.events import Allowance, Slots
from quorate.model.refusal import Refusal, RefusalCode, Shortage, sentence
from quorate.model.selector import Selector
from quorate.model.state.free_slots import ordinals

_HUNDREDTH_MS = HOUR_MS // 100
_UNITS = (("d", DAY_MS), ("h", HOUR_MS), ("m", MINUTE_MS), ("s", SECOND_MS))

IF_DECLARED: Final = "if running work ends when declared"
"""The words for the condition on which every planned start without a conflict depends."""


def hours(gpu_ms: int) -> str:
    """Return GPU-milliseconds as hours with two decimals, rounded half up."""
    return _hundredths_text(nearest(gpu_ms, _HUNDREDTH_MS) // _HUNDREDTH_MS)


def told_text(gpu: Allowance | None, node: Allowance | None) -> str:
    """Return the hours that an accounting system reports as left, by kind of hours."""
    told = ((gpu, "GPU-hours"), (node, "node-hours"))
    return " and ".join(
        f"{hours(each.left_ms)} of {hours(each.granted_ms)} {what} left"
        for each, what in told
        if each is not None
    )


def hours_that_add_up(parts: Sequence[int]) -> list[str]:
    """Return ``parts`` in hours with two decimals, so that they add up to the rounded sum."""
    return [hours(part) for part in parts_that_add_up(parts, _HUNDREDTH_MS)]


def _hundredths_text(hundredths: int) -> str:
    sign = "-" if hundredths < 0 else ""
    return f"{sign}{abs(hundredths) // 100}.{abs(hundredths) % 100:02d}"


def age(ms: int) -> str:
    """Return a length of time in its largest unit: ``45s``, ``3h``, ``12d``."""
    unit, unit_ms = next((each for each in _UNITS if ms >= each[1]), _UNITS[-1])
    return f"{max(0, ms) // unit_ms}{unit}"


def countdown(ms: int) -> str:
    """Return a length of time in its two largest units: ``45s``, ``3h 12m``, ``2d``.

    Rounded up to the smaller unit, so that a countdown never ends early.
    """
    for (unit, unit_ms), (below, below_ms) in pairwise(_UNITS):
        steps = -(-max(0, ms) // below_ms)
        if steps * below_ms >= unit_ms:
            whole, rest = divmod(steps * below_ms, unit_ms)
            return f"{whole}{unit} {rest // below_ms}{below}" if rest else f"{whole}{unit}"
    return f"{-(-max(0, ms) // SECOND_MS)}s"


def exact_length(ms: int) -> str:
    """Return a length of time to the millisecond: ``45s``, ``3h 12m``, ``1d 0.250s``."""
    found, left = [], ms
    for unit, unit_ms in _UNITS[:-1]:
        count, left = divmod(left, unit_ms)
        found += [f"{count}{unit}"] if count else []
    seconds, rest = divmod(left, SECOND_MS)
    if rest:
        found.append(f"{seconds}.{rest:03d}s")
    elif seconds or not found:
        found.append(f"{seconds}s")
    return " ".join(found)


def until(at_ms: int, now_ms: int) -> str:
    """Return an instant and the time until then: ``2027-01-15T08:00:00Z (in 3h 12m)``."""
    left = f"in {countdown(at_ms - now_ms)}" if at_ms > now_ms else "now"
    return f"{time_text(at_ms)} ({left})"


def odds_text(odds: Fraction) -> str:
    """Return a probability as a fraction and in percent: ``1/6 (16.7 %)``."""
    if odds == 1:
        return "1 (100 %)"
    tenths = (2000 * odds.numerator + odds.denominator) // (2 * odds.denominator)
    return f"{odds} ({tenths // 10}.{tenths % 10} %)"


def percent(part: int, whole: int) -> str:
    """Return ``part`` of ``whole`` in percent with one decimal, rounded half up."""
    tenths = (2000 * part + whole) // (2 * whole)
    return f"{tenths // 10}.{tenths % 10} %"


def since(at_ms: int, now_ms: int) -> str:
    """Return an instant and how long ago it was, or the time until then."""
    if at_ms > now_ms:
        return f"{time_text(at_ms)} (in {age(at_ms - now_ms)})"
    return f"{time_text(at_ms)} ({age(now_ms - at_ms)} ago)"


def names(found: Iterable[str], *, most: int | None = None) -> str:
    """Return names joined by commas, or ``-``; after ``most`` names, how many more there are."""
    listed = list(found)
    if not listed:
        return "-"
    if most is None or len(listed) <= most:
        return ",".join(listed)
    return f"{','.join(listed[:most])}+{len(listed) - most}"


def selector(labels: Selector | Mapping[str, str]) -> str:
    """Return a selector as ``label=value`` pairs."""
    pairs = labels.items() if isinstance(labels, Mapping) else labels
    return names(f"{label}={value}" for label, value in pairs)


def slots(pairs: Slots, *, most: int | None = None) -> str:
    """Return nodes with the ordinals of their slots: ``n1[0-7],n2[0,3]``."""
    return names((f"{node}[{_ranges(ordinals(mask))}]" for node, mask in pairs), most=most)


def gpus_on_nodes(pairs: Slots, *, most: int | None = None) -> str:
    """Return nodes with the number of their GPUs, not which ones: ``n1*8,n2*2``."""
    return names((f"{node}*{mask.bit_count()}" for node, mask in pairs), most=most)


def _ranges(numbers: Sequence[int]) -> str:
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1] = [runs[-1][0], number]
        else:
            runs.append([number])
    return ",".join("-".join(map(str, each)) for each in runs)


def gpus(count: int) -> str:
    """Return ``count`` with its unit."""
    return counted(count, "GPU")


def refusal_lines(refusal: Refusal) -> list[str]:
    """Return a refusal as its sentence, then one line for each number behind it."""
    lines = [f"{sentence(refusal)} ({refusal.code})"]
    lines += [f"  {shortage(each, refusal.code)}" for each in refusal.shortages]
    if refusal.remedy:
        lines.append(f"  {refusal.remedy}")
    if refusal.also is not None and refusal.code is not RefusalCode.WAITING_FOR_QUOTA:
        # For a run that waits for a quota, ``also`` is about the same quota, and is left out.
        first, *rest = refusal_lines(refusal.also)
        lines += [f"also: {first}", *rest]
    return lines


_SHORT_OF: Final = {
    RefusalCode.INSUFFICIENT_FUNDS: " paid for",
    RefusalCode.BORROW_LIMIT: " paid for",
    RefusalCode.INSUFFICIENT_CAPACITY: " free",
    RefusalCode.NO_SINGLE_DOMAIN: " free",
    RefusalCode.FUNDS_ELSEWHERE: " free",
}
"""Maps a code to the kind of GPUs that a place lacks: GPUs that are paid for, or free GPUs.

A code that is not in the map leaves the kind open: the place may lack both.
"""


def shortage(found: Shortage, code: RefusalCode) -> str:
    """Return how much of a request a place has, or a payer can pay; ``code`` says what is short."""
    limit = f" ({found.limit})" if found.limit else ""
    if found.wanted and not found.short:
        return f"{found.where}: {gpus(found.wanted)} fit ({found.available} free){limit}"
    if found.wanted:
        have = f"{found.available} of {gpus(found.wanted)}{_SHORT_OF.get(code, '')}"
        return f"{found.where}: {have}, {found.short} short{limit}"
    return f"{found.where}: can pay {gpus(found.available)}{limit}"


def bar(used: int, total: int, *, out: int = 0, width: int = 20) -> str:
    """Return a bar of ``width`` marks: ``#`` used, ``x`` out of service, ``.`` free.

    A part above zero has at least one mark, and a bar is full only if nothing is free.
    """
    least_free = int(used + out < total)
    marks = min(_marks(used, total, width), width - least_free - int(out > 0))
    crossed = min(_marks(out, total, width), width - least_free - marks)
    return "[" + "#" * marks + "." * (width - marks - crossed) + "x" * crossed + "]"


def _marks(part: int, total: int, width: int) -> int:
    return 0 if total == 0 else max(part * width // total, int(part > 0))


def one_line(text: str) -> str:
    """Return ``text`` with every unprintable character escaped."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)
