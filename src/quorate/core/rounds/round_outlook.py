"""Texts about a run in a pool of discipline ``rounds``: its share, and why it has no GPUs now."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from quorate.core.admission.hard_quota import HARD, too_many_runs, waiting
from quorate.core.lifecycle.follow import waits_for_upstream
from quorate.core.rounds.round_trial import Room, too_big
from quorate.model.amounts import SECOND_MS
from quorate.model.cause_text import round_text
from quorate.model.events import RoundShare
from quorate.model.refusal import Refusal, RefusalCode, sentence
from quorate.model.state.records import RunRecord
from quorate.model.state.state_view import StateView

_QUOTAS: Final = HARD | {RefusalCode.WAITING_FOR_QUOTA}
_HELD_BY_QUOTA: Final = "a quota of its owner, or of a parent, leaves it no GPUs"
"""The text does not name the owner: only permitted callers see the refusal, which names it."""
_TOO_BIG: Final = "it would not fit even if the pool were empty: "


def next_round_ms(view: StateView, pool: str, now_ms: int) -> int:
    """Return when the next round of ``pool`` begins; ``now_ms`` if the round is already due."""
    known = view.rounds.get(pool)
    return now_ms if known is None else max(now_ms, known.shared.until_ms)


def share_words(view: StateView, record: RunRecord) -> str:
    """Return a text that says for which part of its time a run should have GPUs of each flavor."""
    return _words(view, record, hindrance(view, record))


def _share(view: StateView, record: RunRecord) -> RoundShare | None:
    """Return a run's share in the current round of its pool, or None."""
    known = view.rounds.get(record.spec.pool)
    shares = () if known is None else known.shared.shares
    return next((each for each in shares if each.run == record.spec.name), None)


def _words(view: StateView, record: RunRecord, hindered: Refusal | None) -> str:
    share = _share(view, record)
    if share is None:
        return "its share is computed when the next round begins"
    shared = view.rounds[record.spec.pool].shared
    flavors = shared.flavors
    parts = [
        f"{ppm / 10_000:.3g} % on {flavor}"
        for flavor, ppm in zip(flavors, share.shares_ppm, strict=True)
        if ppm
    ]
    if not parts:
        why = "no envelope pays for it, or it cannot run on the GPUs of its pool"
        if any(share.rates):
            why = round_text(shared) or f"policy {shared.policy} gives it no GPUs in this round"
        elif hindered is not None:
            why = _HELD_BY_QUOTA if hindered.code in _QUOTAS else _TOO_BIG + sentence(hindered)
        return "; ".join(filter(None, (f"its share is 0: {why}", _spare(view, record))))
    measured = [f for place, f in enumerate(flavors) if share.measured >> place & 1]
    by = f"measured on {', '.join(measured)}" if measured else "as declared"
    words = (
        f"policy {shared.policy} gives it these parts of its time: {', '.join(parts)}; its rates "
        f"are {by}"
    )
    more = (
        round_text(shared),
        _spare(view, record),
        _beside(view, record),
        *_too_big_on(view, record),
    )
    return "; ".join(filter(None, (words, *more)))


def _too_big_on(view: StateView, record: RunRecord) -> Iterator[str]:
    """Yield a text for each flavor of which a run has no share because the run would not fit."""
    share, flavors = _share(view, record), view.rounds[record.spec.pool].shared.flavors
    rates = () if share is None else zip(flavors, share.rates, strict=True)
    for flavor in (f for f, rate in rates if not rate and f in record.spec.flavors):
        why = too_big(view, record.spec, flavor)
        if why is not None:
            yield f"it would not fit on {flavor} even if the pool were empty: {sentence(why)}"


def _spare(view: StateView, record: RunRecord) -> str:
    """Return a text if a run has GPUs of a flavor of which it has no share; else an empty text."""
    shared, share = view.rounds[record.spec.pool].shared, _share(view, record)
    grant = next((each for each in shared.grants if each.run == record.spec.name), None)
    if grant is None or share is None or grant.partner is not None:
        return ""
    place = shared.flavors.index(grant.flavor) if grant.flavor in shared.flavors else None
    if place is None or share.shares_ppm[place]:
        return ""
    is_meant = any(each.shares_ppm[place] for each in shared.shares)
    if not is_meant or not any(view.leases[name].ending is None for name in record.leases):
        return ""
    return (
        f"it has GPUs of {grant.flavor} in this round because runs with a share of this flavor "
        "could not use these GPUs"
    )


def _beside(view: StateView, record: RunRecord) -> str:
    """Return a text that names the run with which ``record`` shares GPUs now, or an empty text."""
    known = view.in_rounds[record.spec.name]
    if known.lease:
        return f"it shares the GPUs of run {view.leases[known.lease].fact.run}"
    partner = next((view.leases[name].fact.partner for name in record.leases), None)
    return "" if partner is None else f"it shares its GPUs with run {partner}"


def hindrance(view: StateView, record: RunRecord) -> Refusal | None:
    """Return why no policy could give a run a share of the current round.

    There are two possible reasons: a limit on running runs is reached, or the run would not fit
    even if the pool were empty. Payers are not checked. Return None if the run has a share, or if a
    policy could give it one.
    """
    share, run = _share(view, record), record.spec
    if share is None or any(share.shares_ppm) or any(share.rates):
        return None
    if record.started_ms is None:
        full = too_many_runs(view, run.owner)
        if full is not None:
            return waiting(view, run, full)
    refusals = [too_big(view, run, flavor) for flavor in run.flavors]
    if None in refusals:
        room = Room.empty(view, run.pool)
        refusals = [room.why_not(run, flavor) for flavor in run.flavors]
    return None if None in refusals else next(iter(refusals), None)


def between_rounds(view: StateView, record: RunRecord, now_ms: int) -> Refusal | None:
    """Return why a run in a pool of discipline ``rounds`` has no GPUs now; None if it has some.

    The refusal says when the next round begins. ``also`` says why the run can have no share at all,
    or is its last recorded refusal.
    """
    if record.leases or view.in_rounds[record.spec.name].lease:
        return None
    waits = waits_for_upstream(view, record.spec)
    if waits is not None:
        return waits
    pool, hindered = record.spec.pool, hindrance(view, record)
    wait_s = -(-(next_round_ms(view, pool, now_ms) - now_ms) // SECOND_MS)
    known = view.rounds.get(pool)
    number = 1 if known is None else known.shared.number + 1
    when = f"in {wait_s} s" if wait_s else "now"
    granted = known is not None and record.spec.name in known.waiting
    what = (
        "its granted GPUs are still in use by stopping runs"
        if granted
        else f"round {number} begins {when}"
    )
    return Refusal(
        code=RefusalCode.NEXT_ROUND,
        subject=f"pool {pool!r} shares its GPUs in rounds: {what}; "
        f"{_words(view, record, hindered)}",
        wanted=record.spec.gpus,
        also=hindered or record.refusal,
    )
