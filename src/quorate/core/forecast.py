"""Forecast: when a run that cannot start now will, found and not guessed.

The first instant at which cover and pack both hold, in the state expected then, without delaying
any reservation made before. docs/adr/0012-reservations.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from msgspec import Struct

from quorate.core.admit import Admitted, admit, cover_request
from quorate.core.layout import pack_request
from quorate.core.outlook import Outlook
from quorate.core.promises import take_out
from quorate.core.steps import Steps
from quorate.core.timeline import Timeline
from quorate.model.events import Share, Slice
from quorate.model.specs import Run
from quorate.model.view import StateView

ATTEMPT_STEPS: Final = 25
"""How many steps of searching one attempt to start counts for at least."""


class Found(Struct, frozen=True):
    """A start that is expected to work: when, where and paid by whom."""

    start_ms: int
    slice: Slice
    shares: tuple[Share, ...]


def slice_of(admitted: Admitted) -> Slice:
    """Return where ``admitted`` goes: GPUs by domain, spares included, in pack order."""
    domains: dict[str, int] = {}
    for group in admitted.plan.groups:
        spares = sum(mask.bit_count() for _, mask in group.spare_slots)
        domains[group.domain] = domains.get(group.domain, 0) + group.gpus + spares
    return Slice(admitted.flavor, admitted.width, tuple(domains.items()))


def shares_of(admitted: Admitted) -> tuple[Share, ...]:
    """Return who pays how much of ``admitted``, in cover order."""
    found: dict[tuple[object, ...], Share] = {}
    for leg in admitted.legs:
        key = (leg.payer, leg.tier, leg.hold_ms)
        known = found.get(key)
        gpus = leg.gpus + (0 if known is None else known.gpus)
        found[key] = Share(leg.payer, leg.tier, gpus, leg.hold_ms)
    return tuple(found.values())


def find_start(  # noqa: PLR0913 - whose start, and beside which promises
    view: StateView,
    run: Run,
    now_ms: int,
    *,
    exempt: str = "",
    before_seq: int | None = None,
    own_seq: int | None = None,
    not_before_ms: int = 0,
    after_ms: int | None = None,
    has_executor: bool,
) -> Found | None:
    """Return the first start that is expected to work, or None when nothing known leads to one.

    Reservations from ``before_seq`` on were made later and give way; ``exempt`` is the run's own,
    made at ``own_seq``, whose money must not be counted as taken (``view`` has its hold released).
    With ``after_ms`` only what is expected to happen after that leads to one.
    """
    outlook = Outlook.of(view, now_ms, exempt=exempt, before_seq=before_seq, own_seq=own_seq)
    pool, least = view.pools[run.pool], run.widths()[-1]
    asks = [
        (
            pack_request(run, pool, flavor, least),
            cover_request(view, run, flavor, now_ms, has_executor=has_executor),
        )
        for flavor in run.flavors
    ]
    timeline = Timeline.of(view, outlook, asks)
    duration_ms = asks[0][1].duration_ms
    # However many instants there are, a forecast searches no longer than a start may.
    steps = Steps()
    instants = timeline.instants()
    if after_ms is not None:
        instants = (at_ms for at_ms in instants if at_ms > after_ms)
    for at_ms in _from(not_before_ms, instants):
        if not steps.spend(ATTEMPT_STEPS):
            return None
        state = timeline.at(at_ms)
        room = take_out(state, outlook, run, at_ms, at_ms + duration_ms)
        answer = admit(room, run, at_ms, has_executor=has_executor, asked_ms=now_ms, steps=steps)
        if isinstance(answer, Admitted):
            return Found(at_ms, slice_of(answer), shares_of(answer))
    return None


def _from(first_ms: int, instants: Iterable[int]) -> Iterator[int]:
    """Yield ``instants`` from ``first_ms`` on, and that one itself if any came before it."""
    held = False
    for at_ms in instants:
        if at_ms < first_ms:
            held = True
            continue
        if held and at_ms > first_ms:
            yield first_ms
        held = False
        yield at_ms
    if held:
        yield first_ms
