"""The subject of a conflict, and the resolver for it in a state."""

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
from quorate.core.preemption.scope_survey import Survey, survey_domains
from quorate.core.preemption.soft_quota import bursting
from quorate.model.events import ConflictCause, ConflictDeclared, Scope
from quorate.model.specs import DEFAULT_POOL
from quorate.model.state.records import RunRecord
from quorate.model.state.state_view import StateView


@dataclass(frozen=True, slots=True)
class Question:
    """The goal of a conflict: room for ``reservation``, ``gpus`` in ``scope``, or a limit kept.

    ``since_ms`` is when the question first arose: owners of runs that began later could know of it.
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
        """Return the resolver of the question in ``view``; None if the question is obsolete.

        Without ``burst``, a run is burst if its owner is beyond a share that a quota states.
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
            if limit.key not in view.caps:
                return None
            return _resolver(survey_limit(view, limit), Count(self.gpus), view, now_ms, burst)
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
        )
        return Resolver(
            survey, goal, trial, now_ms=now_ms, reservation=self.reservation, burst=burst
        )

    def enters(self, view: StateView, at_ms: int) -> Callable[[RunRecord], bool]:
        """Return which runs may be drawn at ``at_ms``: those that have run long enough.

        Runs that started after the reservation was made, or after the question first arose, may be
        drawn at once: their owners could know of it.
        """
        warned = []
        if self.reservation:
            warned.append(view.reservations[self.reservation].made.at_ms)
        if self.since_ms is not None:
            # A run that started within the same millisecond may have started because of it.
            warned.append(self.since_ms - 1)
        return matured(view, at_ms, min(warned, default=None))


def _resolver(
    survey: Survey, goal: Goal, view: StateView, now_ms: int, burst: Burst | None
) -> Resolver:
    trial = Trial(view, whole=burst is not None)
    return Resolver(survey, goal, trial, now_ms=now_ms, burst=burst)


def matured(view: StateView, at_ms: int, made_ms: int | None) -> Callable[[RunRecord], bool]:
    """Return which runs have run for their pool's minimum by ``at_ms``, or began after ``made_ms``.

    A run's age is its running time: hand-over, swap and growth do not change it.
    """

    def enters(record: RunRecord) -> bool:
        assert record.since_ms is not None, record
        least_ms = view.pools[record.spec.pool].least_runtime_ms
        is_late = made_ms is not None and record.since_ms > made_ms
        return is_late or at_ms - record.since_ms >= least_ms

    return enters


def question_of(declared: ConflictDeclared) -> Question:
    """Return the question that ``declared`` is about."""
    gpus = declared.deficit if declared.cause is ConflictCause.BY_HAND else 0
    return Question(declared.cause, declared.scope, declared.reservation, gpus)


def for_reservation(view: StateView, reservation: str) -> Question:
    """Return the scope of a conflict that makes room for ``reservation`` in its planned place."""
    record = view.reservations[reservation]
    pool = view.runs[record.made.run].spec.pool
    domains = tuple(sorted(domain for domain, _ in record.slice.domains))
    scope = Scope(pool, record.slice.flavor, domains)
    return Question(ConflictCause.RESERVATION, scope, reservation)


def for_limit(view: StateView, limit: Limit) -> Question:
    """Return the question of bringing use back within ``limit``.

    Its pool is that of the runs under the limit if they are in one pool; else the default pool.
    """
    survey = survey_limit(view, limit)
    pools = {view.runs[run].spec.pool for run in survey.runs}
    flavors = {view.envelopes[payer].spec.flavor for payer in payers_of(view, limit)}
    pool = pools.pop() if len(pools) == 1 else DEFAULT_POOL
    flavor = flavors.pop() if len(flavors) == 1 else ""
    return Question(ConflictCause.TIGHTENED, Scope(pool, flavor, (), str(limit)))


def by_hand(view: StateView, command: Resolve) -> Question:
    """Return the question of ``command``; the cap that it names, if any, must exist."""
    if not command.cap:
        scope = Scope(command.pool, command.flavor, tuple(sorted(set(command.domains))))
    else:
        scope = for_limit(view, Limit(CAP, command.cap)).scope
    return Question(ConflictCause.BY_HAND, scope, gpus=command.gpus)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A conflict that can be resolved: the resolver with its cuts, and the lottery's entrants."""

    resolver: Resolver
    tokens: tuple[Candidate, ...]
    size_max: int
    owners: Mapping[str, str]

    def draw(self, seed: bytes) -> Drawn | None:
        """Return the runs that ``seed`` ends; None if no draw is needed."""
        if not self.resolver.short:
            return None
        held: dict[str, list[str]] = {}
        for token in self.tokens:
            held.setdefault(self.owners[token.run], []).append(token.run)
        return self.resolver.draw(self.tokens, draw(seed, held))


def prepare(view: StateView, question: Question, resolver: Resolver, at_ms: int) -> Prepared | int:
    """Return the conflict with its entrants at ``at_ms``, or how many GPUs no end can free."""
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
