"""Decides whether a run may call a conflict, when the conflict would work, and what it may cost.

A run may not call a conflict in these cases:

- The run waits for its owner's hard quota, or its owner is beyond its soft quotas.
- The run was itself cut within the cool-down, or its last start was refused.
- A run of the same owner ended shortly after a conflict had made room for it.
- The pool allows no conflicts.
- The disruption account of the run's owner does not cover the worst draw.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from quorate.core.admission.admit import Admitted, admit
from quorate.core.admission.hard_quota import HARD, refuses_ever_so
from quorate.core.preemption.conflict_scope import matured
from quorate.core.preemption.conflicts import lost_gpu_ms
from quorate.core.preemption.cut_order import Candidate
from quorate.core.preemption.cut_trial import Trial
from quorate.core.preemption.disruption_account import Account, account_of
from quorate.core.preemption.goals import Start
from quorate.core.preemption.lottery import draw, dummy_seed
from quorate.core.preemption.resolver import Resolver
from quorate.core.preemption.run_age import last_start_ms
from quorate.core.preemption.scope_survey import Survey, survey_domains
from quorate.core.preemption.soft_quota import bursting, why_no_conflict
from quorate.core.profile.firm_places import younger_by_conflict
from quorate.core.profile.plan_entry import shares_of, slice_of
from quorate.core.profile.reservations import is_cleared
from quorate.core.profile.room_left import only_slice
from quorate.model.amounts import hours_text
from quorate.model.closed_words import Word
from quorate.model.events import Share, Slice
from quorate.model.refusal import Refusal
from quorate.model.specs import Run
from quorate.model.state.records import RunRecord
from quorate.model.state.state_view import StateView

_NO_HEADROOM: Final = "it waits for its owner's hard quota"
_FIRST_OWNERS: Final = 3
"""How many owners are tried as the first drawn owner, to estimate the worst loss."""
_DUMMY_DRAWS: Final = 4
"""How many dummy draws are tried, too, to estimate the worst loss."""


class CallBar(Word):
    """The reason why a run may not call a conflict."""

    HEADROOM = "headroom"
    THREW_AWAY = "threw-away"
    COOL_DOWN = "cool-down"
    UNSTARTED = "unstarted"
    NO_CONFLICTS = "no-conflicts"
    ACCOUNT = "account"
    SOFT_QUOTA = "soft-quota"


@dataclass(frozen=True, slots=True)
class CallRefusal:
    """Why a run may not call a conflict now. ``text`` is the reason, without instants.

    ``account`` is set if the owner's disruption account does not cover ``costs_gpu_ms``.
    ``covered_ms`` is when the account will cover this cost, or None if it never will.
    """

    bar: CallBar
    text: str
    account: Account | None = None
    costs_gpu_ms: int = 0
    covered_ms: int | None = None


def may_call(  # noqa: PLR0911 - one answer per bar
    view: StateView,
    record: RunRecord,
    now_ms: int,
    *,
    lost_gpu_ms: int = 0,
    flavor: str = "",
) -> CallRefusal | None:
    """Return why the run of ``record`` may not call a conflict at ``now_ms``; None if it may.

    ``lost_gpu_ms`` is the work that the conflict may cost. ``flavor`` is the flavor of the
    conflict's scope, or empty if the flavor is not known yet.
    """
    run = record.spec
    pool = view.pools[run.pool]
    if refuses_ever_so(view, run) is not None:
        return CallRefusal(CallBar.HEADROOM, _NO_HEADROOM)
    until_ms = view.barred.get(run.owner, 0)
    if now_ms < until_ms:
        text = f"a run of {run.owner} ended shortly after conflicts had made room for it"
        return CallRefusal(CallBar.THREW_AWAY, text)
    if record.cut_ms is not None and now_ms < record.cut_ms + pool.pause_ms:
        return CallRefusal(CallBar.COOL_DOWN, "it was itself cut within the cool-down")
    if record.unstarted is not None:
        return CallRefusal(
            CallBar.UNSTARTED, "its last start was refused after it had received its GPUs"
        )
    if not pool.conflict_rate_ppm:
        return CallRefusal(CallBar.NO_CONFLICTS, f"pool {pool.name} has a disruptionRate of 0")
    account = account_of(view, run.owner, pool.name, now_ms)
    kept_gpu_ms = _kept_gpu_ms(view, record, now_ms) if lost_gpu_ms else 0
    if not account.covers(lost_gpu_ms + kept_gpu_ms):
        return _not_covered(run, account, lost_gpu_ms, kept_gpu_ms)
    soft = why_no_conflict(view, record, now_ms, flavor)
    return CallRefusal(CallBar.SOFT_QUOTA, soft) if soft else None


def _kept_gpu_ms(view: StateView, record: RunRecord, now_ms: int) -> int:
    """Return what the owner's earlier starts by conflict in the same pool may still cost.

    The owner's account keeps this amount for these starts, so that a conflict for a later run of
    the owner does not use it up.
    """
    mine = None if record.reservation is None else view.reservations[record.reservation]
    foreseen = (
        foresee_conflict(
            view,
            view.runs[other.made.run].spec,
            other.slice,
            made_ms=other.made.at_ms,
            now_ms=max(now_ms, other.planned_start_ms),
            reservation=name,
            is_firm=True,
        )
        for name, other in view.reservations.items()
        if other.by_conflict
        and other.planned_start_ms is not None
        and not is_cleared(view, other)
        and (mine is None or other.seq < mine.seq)
        and view.runs[other.made.run].spec.owner == record.spec.owner
        and view.runs[other.made.run].spec.pool == record.spec.pool
    )
    return sum(each.lost_gpu_ms for each in foreseen if each is not None)


def _not_covered(run: Run, account: Account, lost_gpu_ms: int, kept_gpu_ms: int) -> CallRefusal:
    costs = lost_gpu_ms + kept_gpu_ms
    covered_ms = account.covered_at_ms(costs)
    lacks = f"the disruption account of {run.owner} in pool {run.pool}"
    if account.has < 0:
        lacks += f" is {hours_text(-account.has, up=True)} GPU-hours overdrawn"
    else:
        lacks += f" has {hours_text(account.has)} GPU-hours"
    if kept_gpu_ms:
        lacks += f", and this conflict and earlier ones may cost {hours_text(costs, up=True)}"
    elif costs:
        lacks += f", and this conflict may cost {hours_text(costs, up=True)}"
    if costs > account.size:
        lacks += f", more than the account can hold ({hours_text(account.size)})"
    elif covered_ms is None:
        lacks += f"; the account is not refilled, because {run.owner} has no share of the pool"
    return CallRefusal(CallBar.ACCOUNT, lacks, account, costs, covered_ms)


@dataclass(frozen=True, slots=True)
class Foreseen:
    """A conflict that would make enough room at ``start_ms``.

    ``lost_gpu_ms`` is the work that the worst draw would end. ``slice`` has the GPUs by domain with
    which the run would start. Some of these GPUs may be free ones outside the scope. ``shares`` are
    the run's payers.
    """

    start_ms: int
    deficit: int
    short: int
    lost_gpu_ms: int
    slice: Slice
    shares: tuple[Share, ...]


def foresee_conflict(  # noqa: PLR0913 - whose start, where, and beside which promises
    view: StateView,
    run: Run,
    place: Slice,
    *,
    made_ms: int,
    now_ms: int,
    has_executor: bool = False,
    reservation: str = "",
    is_firm: bool = False,
    if_short: bool = False,
) -> Foreseen | None:
    """Return the first conflict from ``now_ms`` on that would make room for ``run`` in ``place``.

    Return None if ending all work that may be ended is never enough. All running runs are assumed
    to continue. A run may be drawn after it has run for its pool's minimum runtime. A run that
    started after ``made_ms`` may be drawn immediately.

    ``reservation`` is the reservation of ``run`` itself; its room is treated as free. If
    ``is_firm``, the conflict is for this reservation. Then younger starts by a conflict are
    ignored, too, because they take only what ``reservation`` leaves. With ``if_short``, also return
    None if ``run`` can start in ``place`` without a conflict.
    """
    survey, goal, resolver = _asked(
        view,
        run,
        place,
        now_ms,
        has_executor=has_executor,
        reservation=reservation,
        is_firm=is_firm,
    )
    if if_short and not resolver.deficit:
        return None
    at_ms = _first_enough(view, survey, resolver, made_ms, now_ms)
    if at_ms is None:
        return None
    enters = matured(view, at_ms, made_ms)
    lost = _worst_loss(view, run, resolver, enters, at_ms)
    if lost is None:
        return None
    # The start is searched for in the state without all these tokens, because the run's payers may
    # pay for no other GPUs than those of the tokens. The search begins in ``place``, to use the
    # free GPUs of ``place``.
    emptied = goal.left_in(resolver.view_without(resolver.tokens(enters)), at_ms)
    there = only_slice(emptied, run.pool, place)
    # The payers must pay when the cut leases have ended.
    lead_ms = view.pools[run.pool].grace_max_ms if has_executor else 0
    paid_ms = at_ms + lead_ms
    answer = admit(there, goal.run, paid_ms, has_executor=has_executor)
    if not isinstance(answer, Admitted):
        answer = admit(emptied, goal.run, paid_ms, has_executor=has_executor)
    if not isinstance(answer, Admitted):
        return None
    paid = shares_of(answer.legs)
    return Foreseen(at_ms, resolver.deficit, resolver.short, lost, slice_of(answer), paid)


def _asked(  # noqa: PLR0913 - as foresee_conflict
    view: StateView,
    run: Run,
    place: Slice,
    now_ms: int,
    *,
    has_executor: bool,
    reservation: str,
    is_firm: bool,
) -> tuple[Survey, Start, Resolver]:
    """Return the survey of ``place``, the goal to start ``run`` in ``place``, and the resolver."""
    domains = tuple(sorted(domain for domain, _ in place.domains))
    survey = survey_domains(view, run.pool, place.flavor, domains, counts_beyond=True)
    burst = bursting(view)
    trial = Trial(view, reservation, whole=burst is not None)
    goal = Start.of(
        trial.without(survey.going),
        run,
        place.flavor,
        domains,
        now_ms,
        has_executor=has_executor,
        own=reservation if is_firm else "",
        without=younger_by_conflict(view, reservation) if is_firm else (),
    )
    return (
        survey,
        goal,
        Resolver(survey, goal, trial, now_ms=now_ms, reservation=reservation, burst=burst),
    )


def is_for_headroom(  # noqa: PLR0913 - as foresee_conflict
    view: StateView,
    run: Run,
    place: Slice,
    *,
    now_ms: int,
    has_executor: bool = False,
    reservation: str = "",
) -> bool:
    """Return whether a hard quota forbids ``run`` in ``place`` even if no other work is there.

    If so, the run lacks headroom and not room, and no conflict helps. ``may_call`` checks quotas
    only for the fewest nodes that the run needs in any place, without its spares.
    """
    _, goal, resolver = _asked(
        view,
        run,
        place,
        now_ms,
        has_executor=has_executor,
        reservation=reservation,
        is_firm=True,
    )
    emptied = resolver.view_without(resolver.tokens(lambda _: True))
    answer = admit(goal.left_in(emptied, now_ms), goal.run, now_ms, has_executor=has_executor)
    return isinstance(answer, Refusal) and answer.code in HARD


def _first_enough(
    view: StateView, survey: Survey, resolver: Resolver, made_ms: int, now_ms: int
) -> int | None:
    """Return the first instant at which enough runs may be drawn, by bisection; or None."""
    if not resolver.short:
        return now_ms

    def enough(at_ms: int) -> bool:
        return resolver.suffices(resolver.tokens(matured(view, at_ms, made_ms)))

    ripe = {
        started_ms + view.pools[record.spec.pool].least_runtime_ms
        for record in (view.runs[name] for name in survey.runs)
        if (started_ms := last_start_ms(view, record)) is not None
    }
    instants = [now_ms, *sorted(at_ms for at_ms in ripe if at_ms > now_ms)]
    if not enough(instants[-1]):
        return None
    low, high = -1, len(instants) - 1
    while high - low > 1:
        middle = (low + high) // 2
        if enough(instants[middle]):
            high = middle
        else:
            low = middle
    return instants[high]


def _worst_loss(
    view: StateView,
    run: Run,
    resolver: Resolver,
    enters: Callable[[RunRecord], bool],
    at_ms: int,
) -> int | None:
    """Return the work that a conflict may cost: the largest loss over several orders of draws.

    In some orders, an owner with the most to lose is drawn first, and its runs in the order of
    their losses. In other orders, runs that are enough by themselves come last. A few dummy draws
    are tried, too. A draw that costs more is possible, but rare. Return None if one of these orders
    does not reach the goal, because the search for a start is bounded.
    """
    if not resolver.short:
        return _loss(view, resolver.cuts, at_ms)
    most = view.pools[run.pool].collateral_max * resolver.short
    entered = resolver.entrants(resolver.tokens(enters), most)
    if entered is None:
        return None
    tokens, _ = entered
    held: dict[str, list[str]] = {}
    for token in tokens:
        held.setdefault(view.runs[token.run].spec.owner, []).append(token.run)
    worst = 0
    losses = {token.run: lost_gpu_ms(view, token, at_ms) for token in tokens}
    enough = {token.run for token in tokens if sum(token.room.values()) >= resolver.short}
    orders = [list(draw(dummy_seed(number), held)) for number in range(_DUMMY_DRAWS)]
    orders += _costly_orders(held, losses, enough)
    for order in dict.fromkeys(map(tuple, orders)):
        drawn = resolver.draw(tokens, order)
        if drawn is None:
            return None
        worst = max(worst, _loss(view, (*drawn.cuts, *drawn.victims), at_ms))
    return worst


def _costly_orders(
    held: Mapping[str, Sequence[str]], losses: Mapping[str, int], enough: Container[str]
) -> Iterator[list[tuple[str, str]]]:
    """Yield orders of draws, as (owner, run), that are likely to cost the most."""
    totals = {owner: sum(losses[run] for run in runs) for owner, runs in held.items()}
    owners = sorted(held, key=lambda owner: (-totals[owner], owner))
    for number, first in enumerate(owners[:_FIRST_OWNERS]):
        in_order = [first, *owners[:number], *owners[number + 1 :]]
        for last in ((), enough):
            yield [
                (owner, run)
                for owner in in_order
                for run in sorted(held[owner], key=lambda run: (run in last, -losses[run], run))
            ]


def _loss(view: StateView, ended: Sequence[Candidate], at_ms: int) -> int:
    return sum(lost_gpu_ms(view, cut, at_ms) for cut in ended)
