"""Resolves a conflict in the plain way: cuts one candidate, tries admission, and repeats.

This is the baseline of ``resolver``. Both take the same candidates in the same order, and end the
same candidates.
"""

from __future__ import annotations

from quorate.core.preemption.conflict_scope import Question
from quorate.core.preemption.cut_order import Candidate, Cutter
from quorate.core.preemption.cut_trial import Trial
from quorate.core.preemption.goals import Start
from quorate.core.preemption.lottery import draw, dummy_seed
from quorate.core.preemption.scope_survey import survey_domains
from quorate.model.state.state import State


def scan_resolve(state: State, question: Question, now_ms: int) -> list[Candidate]:
    """Return the candidates that end; admission is tried after every cut and every draw."""
    scope = question.scope
    survey = survey_domains(state, scope.pool, scope.flavor, scope.domains)
    trial = Trial(state, question.reservation)
    run = state.runs[state.reservations[question.reservation].made.run].spec
    goal = Start.of(
        trial.without(()),
        run,
        scope.flavor,
        scope.domains,
        now_ms,
        has_executor=False,
    )

    def packs(cut: list[Candidate]) -> bool:
        view = trial.without(name for item in cut for name in item.leases)
        return not goal.missing(lambda: view)

    cutter = Cutter(survey)
    cut: list[Candidate] = []
    for candidate in (*cutter.spares(), *cutter.steps()):
        cut.append(candidate)
        if packs(cut):
            break
    tokens = {t.run: t for t in cutter.tokens({n for c in cut for n in c.leases}, lambda _: True)}
    held: dict[str, list[str]] = {}
    for name in tokens:
        held.setdefault(state.runs[name].spec.owner, []).append(name)
    first = len(cut)
    for _, name in draw(dummy_seed(1), held):
        if packs(cut):
            break
        cut.append(tokens[name])
    for place in range(len(cut) - 1, first - 1, -1):
        if packs(cut[:place] + cut[place + 1 :]):
            cut.pop(place)
    return cut
