"""Previews conflicts: the cuts of a conflict, and the runs in its lottery with their odds.

A preview only uses dummy seeds, which no conflict can have. So a preview does not reveal which runs
the real draw will end. This module also reads the results of settled conflicts from their events.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice
from typing import Final

from quorate.core.preemption.conflict_scope import Question, prepare, question_of
from quorate.core.preemption.conflicts import (
    asked_again,
    entered,
    has_dodger,
    lost_gpu_ms,
    not_resolvable,
)
from quorate.core.preemption.cut_order import Candidate
from quorate.core.preemption.lottery import (
    DUMMY_DRAWS,
    cut_frequency,
    draw,
    dummy_seed,
    first_draw_odds,
    run_odds,
    tokens_by_owner,
)
from quorate.core.preemption.resolver import Drawn, Resolver
from quorate.model.events import ConflictDeclared, ConflictResolved, CutStep, Scope
from quorate.model.refusal import Refusal
from quorate.model.state.state_view import StateView

_FIRST_DRAWS: Final = 64
"""The number of draws that are computed before the first check whether the draws are enough."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entrant:
    """A run with a token.

    ``odds`` is the probability that the run is drawn first, and ``owner_odds`` the probability that
    its owner is drawn first. ``cut`` is the number of dummy draws in which the run is a victim.
    """

    owner: str
    run: str
    gpus: int
    odds: Fraction
    owner_odds: Fraction
    cut: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Contest:
    """The preview of a conflict that is settled at ``at_ms``.

    ``deficit`` is the number of missing GPUs, and ``short`` the number of GPUs that are still
    missing after the structural ``cuts``. If GPUs are still missing after the cuts, tokens of up to
    ``size_max`` GPUs enter the lottery. ``draws`` is the number of dummy draws over which
    ``Entrant.cut`` was counted, and ``sample`` is the first of these draws. ``sure`` are the runs
    of ``cuts`` that are cut in all dummy draws; a draw may make another cut unnecessary.
    ``lost_gpu_ms`` is the work that the sample would cost.
    """

    conflict: str
    scope: Scope
    at_ms: int
    deficit: int
    short: int
    size_max: int
    cuts: tuple[Candidate, ...]
    entrants: tuple[Entrant, ...]
    draws: int
    sample: Drawn | None
    sure: frozenset[str]
    lost_gpu_ms: int


def foresee(
    view: StateView,
    question: Question,
    at_ms: int,
    *,
    has_executor: bool = False,
    draws: int = DUMMY_DRAWS,
) -> Contest | Refusal | None:
    """Return the preview of the conflict ``question`` at ``at_ms``; None if no GPUs are missing.

    Return a refusal if too few GPUs come free even when all work ends that may be ended then.
    """
    resolver = question.resolver(view, at_ms, has_executor=has_executor)
    if resolver is None or not resolver.deficit:
        return None
    prepared = prepare(view, question, resolver, at_ms)
    if isinstance(prepared, int):
        return not_resolvable(question, resolver.deficit, prepared)
    held: dict[str, list[str]] = {}
    for token in prepared.tokens:
        held.setdefault(prepared.owners[token.run], []).append(token.run)
    entry = _Entry(resolver, prepared.tokens, held)
    return _contest(view, question.scope, at_ms, entry, prepared.size_max, draws=draws)


def foresee_declared(
    view: StateView,
    declared: ConflictDeclared,
    now_ms: int,
    *,
    has_executor: bool = False,
    draws: int = DUMMY_DRAWS,
) -> Contest | Refusal | None:
    """Return the preview of an open conflict, whose entrants are fixed but whose cuts are not.

    If the fixed entrants are not enough, or an owner has ended an entrant and started other runs,
    return the preview of the conflict that will be declared instead.
    """
    question, at_ms = question_of(declared), max(declared.due_ms, now_ms)
    resolver = question.resolver(view, at_ms, has_executor=has_executor)
    if resolver is None or not resolver.deficit:
        return None
    tokens = entered(view, declared, resolver)
    if resolver.short and (
        has_dodger(view, declared, resolver, tokens) or not resolver.suffices(tokens)
    ):
        again = asked_again(view, declared)
        return foresee(view, again, at_ms, has_executor=has_executor, draws=draws)
    entry = _Entry(resolver, tuple(tokens), tokens_by_owner(declared))
    return _contest(
        view,
        declared.scope,
        at_ms,
        entry,
        declared.size_max,
        conflict=declared.conflict,
        draws=draws,
    )


@dataclass(frozen=True, slots=True)
class _Entry:
    """The resolver, the tokens, and the runs that entered the lottery, by owner."""

    resolver: Resolver
    tokens: Sequence[Candidate]
    held: Mapping[str, Sequence[str]]

    def draw(self, seed: bytes) -> Drawn:
        """Return the runs that ``seed`` ends; compute draws part by part until they are enough."""
        source, sequence = draw(seed, self.held), list[tuple[str, str]]()
        while True:
            more = list(islice(source, max(_FIRST_DRAWS, len(sequence))))
            sequence += more
            found = self.resolver.draw(self.tokens, sequence)
            if found is not None:
                return found
            assert more, "all tokens together were found to be enough"


def _contest(  # noqa: PLR0913 - the parts of one answer
    view: StateView,
    scope: Scope,
    at_ms: int,
    entry: _Entry,
    size_max: int,
    *,
    conflict: str = "",
    draws: int,
) -> Contest:
    resolver = entry.resolver
    entrants: tuple[Entrant, ...] = ()
    sample: Drawn | None = None
    sure = frozenset(cut.run for cut in resolver.cuts)
    if resolver.short:
        sample = entry.draw(dummy_seed(0))
        entrants, sure = _entrants(entry, draws, sure)
    ended = resolver.cuts if sample is None else (*sample.cuts, *sample.victims)
    return Contest(
        conflict=conflict,
        scope=scope,
        at_ms=at_ms,
        deficit=resolver.deficit,
        short=resolver.short,
        size_max=size_max if resolver.short else 0,
        cuts=resolver.cuts,
        entrants=entrants,
        draws=draws if resolver.short else 0,
        sample=sample,
        sure=sure,
        lost_gpu_ms=sum(lost_gpu_ms(view, cut, at_ms) for cut in ended),
    )


def _entrants(
    entry: _Entry, draws: int, cut: frozenset[str]
) -> tuple[tuple[Entrant, ...], frozenset[str]]:
    """Return the entrants, sorted by owner and run; and the runs that are cut in every draw."""
    gpus = {token.run: token.gpus for token in entry.tokens}
    owners, odds = first_draw_odds(entry.held), run_odds(entry.held)
    always = set(cut)

    def victims(seed: bytes) -> Iterator[str]:
        drawn = entry.draw(seed)
        always.intersection_update(each.run for each in drawn.cuts)
        return (victim.run for victim in drawn.victims)

    counts = cut_frequency(victims, odds, draws)
    entrants = tuple(
        Entrant(
            owner=owner,
            run=run,
            gpus=gpus.get(run, 0),
            odds=odds[run],
            owner_odds=owners[owner],
            cut=counts[run],
        )
        for owner, runs in sorted(entry.held.items())
        for run in sorted(runs)
    )
    return entrants, frozenset(always)


# --- The results of a conflict --------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Ordeal:
    """The result of a settled conflict for one run that entered the conflict or was cut by it.

    ``steps`` has the step and the GPUs of each cut of the run; ``steps`` is empty if the run was
    not cut. ``odds`` is the probability that the run would be drawn first, or None if the run had
    no token. ``entrants`` is the number of runs that had a token.
    """

    declared: ConflictDeclared
    resolved: ConflictResolved
    steps: tuple[tuple[CutStep, int], ...]
    odds: Fraction | None
    owner_odds: Fraction | None
    entrants: int
    was_spared: bool


def ordeals_of(view: StateView, run: str) -> list[Ordeal]:
    """Return the settled conflicts that ``run`` entered or was cut by, oldest first."""
    return list(_ordeals(view, run))


def _ordeals(view: StateView, run: str) -> Iterator[Ordeal]:
    for record in view.conflicts.values():
        declared, resolved = record.declared, record.resolved
        if resolved is None:
            continue
        steps = tuple((cut.step, cut.gpus) for cut in resolved.cuts if cut.run == run)
        entered = any(token.run == run for token in declared.tokens)
        if not steps and not (entered and resolved.draws):
            continue
        held = tokens_by_owner(declared)
        owner = view.runs[run].spec.owner
        yield Ordeal(
            declared=declared,
            resolved=resolved,
            steps=steps,
            odds=run_odds(held).get(run),
            owner_odds=first_draw_odds(held).get(owner) if entered else None,
            entrants=len(declared.tokens),
            was_spared=any(each.run == run and each.spared for each in resolved.draws),
        )
