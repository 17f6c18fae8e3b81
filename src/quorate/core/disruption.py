"""Who may have others' work ended, when it could be, and how much of that a pool bears.

A reservation may ask for a conflict unless its run was itself cut a while ago, its owner has just
thrown away what others made room for or is beyond its own quotas, or the pool has lost enough work
today.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from quorate.core.admit import Admitted, admit
from quorate.core.conflicts import lost_gpu_ms
from quorate.core.goals import Start
from quorate.core.lottery import dummy_seed
from quorate.core.planning.entry import shares_of, slice_of
from quorate.core.planning.room import only_slice
from quorate.core.question import Prepared, matured
from quorate.core.quota import HARD, refuses_ever_so
from quorate.core.resolver import Resolver
from quorate.core.soft import bursting, why_no_conflict
from quorate.core.survey import Survey, survey_domains
from quorate.core.trial import Trial
from quorate.model.amounts import DAY_MS, hours_text
from quorate.model.events import Share, Slice
from quorate.model.records import RunRecord
from quorate.model.refusal import Refusal
from quorate.model.specs import Pool, Run
from quorate.model.view import StateView

BUDGET_PERCENT: Final = 1
"""How much of a pool's GPUs, all day, conflicts may cost where it says nothing."""
NO_HEADROOM: Final = "its owner's hard quota is what it waits for"


def may_call(
    view: StateView,
    record: RunRecord,
    now_ms: int,
    *,
    lost_gpu_ms: int = 0,
    flavor: str = "",
) -> str:
    """Return why ``record`` may not ask for a conflict at ``now_ms``; empty when it may.

    ``lost_gpu_ms`` is what that conflict is expected to cost, and ``flavor`` what it would be over,
    where that is known.
    """
    run = record.spec
    pool = view.pools[run.pool]
    if refuses_ever_so(view, run) is not None:
        return NO_HEADROOM
    until_ms = view.barred.get(run.owner, 0)
    if now_ms < until_ms:
        return f"{run.owner} had a run end that had just started at others' cost"
    if record.cut_ms is not None and now_ms < record.cut_ms + pool.pause_ms:
        return "it was itself cut within the cool-down"
    lost, budget = lost_today(view, pool.name, now_ms), disruption_budget(view, pool)
    if lost >= budget or lost + lost_gpu_ms > budget:
        return (
            f"pool {pool.name} has lost {hours_text(lost, up=True)} of {hours_text(budget)} "
            "GPU-hours to conflicts within a day"
            + (f", and this would cost {hours_text(lost_gpu_ms, up=True)}" if lost_gpu_ms else "")
        )
    return why_no_conflict(view, record, now_ms, flavor)


def lost_today(view: StateView, pool: str, now_ms: int) -> int:
    """Return the GPU-milliseconds of work that conflicts cost ``pool`` within the last day."""
    entries = view.losses.get(pool, ())
    return sum(gpu_ms for at_ms, gpu_ms in entries if at_ms > now_ms - DAY_MS)


def disruption_budget(view: StateView, pool: Pool) -> int:
    """Return how much work, in GPU-milliseconds, conflicts may cost ``pool`` in a day."""
    if pool.disruption_gpu_ms_per_day is not None:
        return pool.disruption_gpu_ms_per_day
    return view.pool_gpus(pool.name) * DAY_MS * BUDGET_PERCENT // 100


@dataclass(frozen=True, slots=True)
class Foreseen:
    """A conflict that would work at ``start_ms``; ``lost_gpu_ms`` is what it may cost.

    ``slice`` and ``shares`` are where the run would start then, some of it perhaps on what is free
    elsewhere, and who would pay for it there.
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
) -> Foreseen | None:
    """Return the first conflict from ``now_ms`` on that would make room for ``run`` in ``place``.

    None where ending all that may be ended is never enough. What runs now counts, as if it went on:
    it may be drawn from when it has run for its pool's minimum, or at once if it began past
    ``made_ms``. ``reservation`` is the run's own.
    """
    survey, goal, resolver = _asked(
        view,
        run,
        place,
        now_ms,
        has_executor=has_executor,
        reservation=reservation,
    )
    at_ms = _first_enough(view, survey, resolver, made_ms, now_ms)
    if at_ms is None:
        return None
    enters = matured(view, at_ms, made_ms)
    lost = _expected_loss(view, run, resolver, enters, at_ms)
    if lost is None:
        return None
    # With all of them gone: whoever pays then pays there, and perhaps nowhere else.
    # In the place itself if it can: what is free there need not be made free elsewhere.
    emptied = goal.left_in(resolver.view_without(resolver.tokens(enters)), at_ms)
    there = only_slice(emptied, run.pool, place)
    answer = admit(there, goal.run, at_ms, has_executor=has_executor)
    if not isinstance(answer, Admitted):
        answer = admit(emptied, goal.run, at_ms, has_executor=has_executor)
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
) -> tuple[Survey, Start, Resolver]:
    """Return what runs in ``place``, the start that is wanted there, and how it stands."""
    domains = tuple(sorted(domain for domain, _ in place.domains))
    survey = survey_domains(view, run.pool, place.flavor, domains)
    burst = bursting(view)
    trial = Trial(view, reservation, whole=burst is not None)
    goal = Start.of(
        trial.without(survey.going),
        run,
        place.flavor,
        domains,
        now_ms,
        has_executor=has_executor,
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
    """Return whether a hard quota forbids ``run`` in ``place`` even if all there had ended.

    Then no conflict would help, and it is not room that is missing. What a run needs at least, for
    which ``may_call`` asks, knows neither its spares nor the place.
    """
    _, goal, resolver = _asked(
        view,
        run,
        place,
        now_ms,
        has_executor=has_executor,
        reservation=reservation,
    )
    emptied = resolver.view_without(resolver.tokens(lambda _: True))
    answer = admit(goal.left_in(emptied, now_ms), goal.run, now_ms, has_executor=has_executor)
    return isinstance(answer, Refusal) and answer.code in HARD


def conflict_start_ms(  # noqa: PLR0913 - as foresee_conflict
    view: StateView,
    run: Run,
    place: Slice,
    *,
    made_ms: int,
    now_ms: int,
    has_executor: bool = False,
    reservation: str = "",
) -> int | None:
    """Return when the first conflict that would work is, from ``now_ms`` on."""
    found = foresee_conflict(
        view,
        run,
        place,
        made_ms=made_ms,
        now_ms=now_ms,
        has_executor=has_executor,
        reservation=reservation,
    )
    return None if found is None else found.start_ms


def _first_enough(
    view: StateView, survey: Survey, resolver: Resolver, made_ms: int, now_ms: int
) -> int | None:
    """Return the first instant at which enough has run long enough, by halving."""
    if not resolver.short:
        return now_ms

    def enough(at_ms: int) -> bool:
        return resolver.suffices(resolver.tokens(matured(view, at_ms, made_ms)))

    ripe = {
        record.since_ms + view.pools[record.spec.pool].least_runtime_ms
        for record in (view.runs[name] for name in survey.runs)
        if record.since_ms is not None
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


def _expected_loss(
    view: StateView,
    run: Run,
    resolver: Resolver,
    enters: Callable[[RunRecord], bool],
    at_ms: int,
) -> int | None:
    """Return what a conflict may cost: the cuts, and whoever one dummy draw would end.

    None where a draw would not get there: a start is searched for within bounds, and beside more
    room the search may take another way.
    """
    ended = list(resolver.cuts)
    if resolver.short:
        tokens = resolver.tokens(enters)
        most = view.pools[run.pool].collateral_max * resolver.short
        entered = resolver.entrants(tokens, most)
        if entered is None:
            return None
        owners = {token.run: view.runs[token.run].spec.owner for token in entered[0]}
        drawn = Prepared(resolver, tuple(entered[0]), entered[1], owners).draw(dummy_seed(0))
        if drawn is None:
            return None
        ended += drawn.victims
    return sum(lost_gpu_ms(view, cut, at_ms) for cut in ended)
