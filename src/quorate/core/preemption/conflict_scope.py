"""The cause, scope and goal of a conflict, and the resolver of the conflict in a state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from quorate.core.commands import Resolve
from quorate.core.preemption.cut_order import Burst, Candidate
from quorate.core.preemption.cut_trial import Trial
from quorate.core.preemption.goals import Count, Goal, Start
from quorate.core.preemption.lottery import draw
from quorate.core.preemption.money_limits import CAP, Limit, gpus_over, payers_of, survey_limit
from quorate.core.preemption.resolver import Drawn, Resolver
from quorate.core.preemption.run_age import last_start_ms
from quorate.core.preemption.scope_survey import Survey, survey_domains
from quorate.core.preemption.soft_quota import bursting
from quorate.core.profile.firm_places import younger_by_conflict
from quorate.model.events import ConflictCause, ConflictDeclared, Scope
from quorate.model.specs import DEFAULT_POOL, CapId
from quorate.model.state.records import RunRecord
from quorate.model.state.state_view import StateView


@dataclass(frozen=True, slots=True)
class Question:
    """A conflict: its cause, its scope, and its goal.

    The goal is one of three: room for ``reservation``, ``gpus`` free GPUs in ``scope``, or use
    within a limit. ``since_ms`` is when the conflict was first declared. Owners of runs that
    started later could know of the conflict.
    """

    cause: ConflictCause
    scope: Scope
    reservation: str = ""
    gpus: int = 0
    since_ms: int | None = None

    def resolver(
        self,
        view: StateView,
        now_ms: int,
        *,
        has_executor: bool = False,
        burst: Burst | None = None,
    ) -> Resolver | None:
        """Return the resolver of the conflict in ``view``; None if its goal no longer exists.

        If ``burst`` is None, ``soft_quota.is_burst`` decides whether a run is burst.
        """
        burst = burst or bursting(view)
        scope = self.scope
        if self.cause is ConflictCause.TIGHTENED:
            limit = Limit.of(scope.limit)
            over = gpus_over(view, limit)
            return _resolver(survey_limit(view, limit), Count(over), view, now_ms, burst)
        if self.cause is ConflictCause.RESERVATION and self.reservation not in view.reservations:
            return None
        if self.cause is ConflictCause.BY_HAND and scope.limit:
            limit = Limit.of(scope.limit)
            cap = view.caps.get(CapId(limit.key))
            if cap is None or cap.retired:
                return None
            # Leases in pools of rounds are left out: a run that was cut there would start again in
            # the next round.
            survey = survey_limit(view, limit, skips_rounds=True)
            return _resolver(survey, Count(self.gpus), view, now_ms, burst)
        survey = survey_domains(
            view,
            scope.pool,
            scope.flavor,
            scope.domains,
            counts_beyond=self.cause is ConflictCause.RESERVATION,
        )
        if self.cause is ConflictCause.BY_HAND:
            return _resolver(survey, Count(self.gpus), view, now_ms, burst)
        record = view.reservations[self.reservation]
        trial = Trial(view, self.reservation, whole=burst is not None)
        goal = Start.of(
            trial.without(survey.going),
            view.runs[record.made.run].spec,
            scope.flavor,
            scope.domains,
            now_ms,
            has_executor=has_executor,
            own=self.reservation,
            without=younger_by_conflict(view, self.reservation),
        )
        return Resolver(
            survey, goal, trial, now_ms=now_ms, reservation=self.reservation, burst=burst
        )

    def enters(self, view: StateView, at_ms: int) -> Callable[[RunRecord], bool]:
        """Return a function that says whether a run may be drawn at ``at_ms``.

        A run may be drawn after its pool's minimum runtime. A run that started after the
        reservation was made, or after the conflict was first declared, may be drawn at once,
        because its owner could know of the conflict.
        """
        warned = []
        if self.reservation:
            warned.append(view.reservations[self.reservation].made.at_ms)
        if self.since_ms is not None:
            # A run that started in the same millisecond may have started because of the conflict.
            warned.append(self.since_ms - 1)
        return matured(view, at_ms, min(warned, default=None))


def _resolver(
    survey: Survey, goal: Goal, view: StateView, now_ms: int, burst: Burst | None
) -> Resolver:
    trial = Trial(view, whole=burst is not None)
    return Resolver(survey, goal, trial, now_ms=now_ms, burst=burst)


def matured(view: StateView, at_ms: int, made_ms: int | None) -> Callable[[RunRecord], bool]:
    """Return a function that says whether a run is old enough at ``at_ms`` to be drawn.

    A run is old enough if it has run for its pool's minimum runtime, or started after ``made_ms``.
    Hand-over, swap, growth and the next round do not restart its age.
    """

    def enters(record: RunRecord) -> bool:
        started_ms = last_start_ms(view, record)
        assert started_ms is not None, record
        least_ms = view.pools[record.spec.pool].least_runtime_ms
        is_late = made_ms is not None and started_ms > made_ms
        return is_late or at_ms - started_ms >= least_ms

    return enters


def question_of(declared: ConflictDeclared) -> Question:
    """Return the conflict of the event ``declared``."""
    gpus = declared.deficit if declared.cause is ConflictCause.BY_HAND else 0
    return Question(declared.cause, declared.scope, declared.reservation, gpus)


def for_reservation(view: StateView, reservation: str) -> Question:
    """Return the conflict that makes room for ``reservation`` in its planned domains."""
    record = view.reservations[reservation]
    pool = view.runs[record.made.run].spec.pool
    domains = tuple(sorted(domain for domain, _ in record.slice.domains))
    scope = Scope(pool, record.slice.flavor, domains)
    return Question(ConflictCause.RESERVATION, scope, reservation)


def for_limit(view: StateView, limit: Limit) -> Question:
    """Return the conflict that brings use back within ``limit``.

    If all runs under the limit are in one pool, the conflict's scope is in this pool. Otherwise the
    scope is in the default pool.
    """
    survey = survey_limit(view, limit)
    pools = {view.runs[run].spec.pool for run in survey.runs}
    flavors = {view.envelopes[payer].spec.flavor for payer in payers_of(view, limit)}
    pool = pools.pop() if len(pools) == 1 else DEFAULT_POOL
    flavor = flavors.pop() if len(flavors) == 1 else ""
    return Question(ConflictCause.TIGHTENED, Scope(pool, flavor, (), str(limit)))


def by_hand(view: StateView, command: Resolve) -> Question:
    """Return the conflict that ``command`` asks for.

    If ``command`` names a cap, the cap must exist.
    """
    if not command.cap:
        scope = Scope(command.pool, command.flavor, tuple(sorted(set(command.domains))))
    else:
        scope = for_limit(view, Limit(CAP, command.cap)).scope
    return Question(ConflictCause.BY_HAND, scope, gpus=command.gpus)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A conflict that has enough cuts and tokens: its resolver and the lottery's entrants."""

    resolver: Resolver
    tokens: tuple[Candidate, ...]
    size_max: int
    owners: Mapping[str, str]

    def draw(self, seed: bytes) -> Drawn | None:
        """Return the result of the draws of ``seed``; None if no draw is needed."""
        if not self.resolver.short:
            return None
        held: dict[str, list[str]] = {}
        for token in self.tokens:
            held.setdefault(self.owners[token.run], []).append(token.run)
        return self.resolver.draw(self.tokens, draw(seed, held))


def prepare(view: StateView, question: Question, resolver: Resolver, at_ms: int) -> Prepared | int:
    """Return the conflict with its entrants at ``at_ms``.

    If all cuts and draws together are not enough, return how many GPUs are still missing.
    """
    if not resolver.short:
        return Prepared(resolver, (), 0, {})
    tokens = resolver.tokens(question.enters(view, at_ms))
    most = view.pools[question.scope.pool].collateral_max * resolver.short
    entered = resolver.entrants(tokens, most)
    if entered is None:
        return resolver.short_without(tokens)
    found, size_max = entered
    found.sort(key=lambda token: token.run)
    owners = {token.run: view.runs[token.run].spec.owner for token in found}
    return Prepared(resolver, tuple(found), size_max, owners)
