"""Explanations, forecasts and effects with only the names that the caller may see. Pure."""

from __future__ import annotations

from dataclasses import replace

from msgspec.structs import replace as replace_fields

from quorate.core.admission.quota_holders import QuotaInTheWay
from quorate.core.commands import Wiped
from quorate.core.explain.change_effect import Effect
from quorate.core.explain.explanation import Explanation, Remedy
from quorate.core.explain.start_plan import Forecast
from quorate.core.preemption.conflict_preview import Contest
from quorate.core.preemption.cut_order import Candidate
from quorate.core.preemption.resolver import Drawn
from quorate.core.tenancy.queue_position import Standing
from quorate.model.refusal import Refusal
from quorate.model.specs import Run
from quorate.model.task_arrays import upstreams_of
from quorate.views.redaction.legacy_causes import WITHHELD
from quorate.views.redaction.redaction import OTHERS, Redaction


def redacted_explanation(found: Explanation, redaction: Redaction) -> Explanation:
    """Return ``found`` with only the names that the caller may see."""
    if redaction.seen is None:
        return found
    return replace(
        found,
        refusal=None if found.refusal is None else redaction.refusal(found.refusal),
        standing=None if found.standing is None else _standing(found.standing, redaction),
        quotas=tuple(_quota(each, redaction) for each in found.quotas),
        reservation=None if found.reservation is None else redaction.promise(found.reservation),
        parked=_parked(found.parked, redaction.view.runs[found.run].spec, redaction),
        remedies=tuple(_remedy(each, redaction) for each in found.remedies),
    )


def _standing(found: Standing, redaction: Redaction) -> Standing:
    ahead = tuple(replace(each, owner=redaction.owner(each.owner)) for each in found.ahead)
    return replace(found, ahead=ahead)


def _quota(found: QuotaInTheWay, redaction: Redaction) -> QuotaInTheWay:
    holders = tuple(each for each in found.holders if redaction.shows_run(each.run))
    hidden = len(found.holders) - len(holders)
    return replace(found, holders=holders, others=found.others + hidden)


def _remedy(found: Remedy, redaction: Redaction) -> Remedy:
    """Return a remedy without the name of a claim of another tenant."""
    trial = found.trial
    if not isinstance(trial, Wiped) or trial.claim is None or redaction.shows_run(trial.claim):
        return found
    effect = found.effect.replace(f"after claim {trial.claim},", "after a claim of others,")
    command = found.command[: found.command.index("--after")]
    return replace(found, effect=effect, command=command)


def redacted_forecast(found: Forecast, redaction: Redaction) -> Forecast:
    """Return ``found`` with only the names that the caller may see.

    Before a conflict is declared, only the owners of the runs that would enter its lottery may see
    these runs.
    """
    if redaction.seen is None:
        return found
    contest = found.contest
    if isinstance(contest, Contest):
        contest = _contest(contest, redaction)
    elif isinstance(contest, Refusal):
        contest = redaction.refusal(contest)
    return replace(
        found,
        cause=None if found.cause is None else redaction.cause(found.cause),
        parked=_parked(found.parked, found.run, redaction),
        overdue=tuple(redaction.runs(found.overdue)),
        refusal=None if found.refusal is None else redaction.refusal(found.refusal),
        remedies=tuple(_remedy(each, redaction) for each in found.remedies),
        contest=contest,
        dangers=tuple(
            replace(each, reservation=each.reservation and redaction.run(each.reservation))
            for each in found.dangers
        ),
    )


def _parked(text: str, run: Run, redaction: Redaction) -> str:
    """Return ``text``, the reason why ``run`` has no reservation, if the caller may see it.

    The result is ``WITHHELD`` if ``run`` follows a run that the caller may not see.
    """
    upstreams = (each.name for each in upstreams_of(run))
    return text if all(map(redaction.shows_run, upstreams)) else WITHHELD


def _contest(found: Contest, redaction: Redaction) -> Contest:
    sample = found.sample
    return replace(
        found,
        cuts=tuple(_cut(each, redaction) for each in found.cuts),
        entrants=tuple(
            replace(each, owner=redaction.owner(each.owner), run=redaction.run(each.run))
            for each in found.entrants
        ),
        sample=None if sample is None else _drawn(sample, redaction),
        sure=frozenset(run for run in found.sure if redaction.shows_run(run)),
    )


def _drawn(found: Drawn, redaction: Redaction) -> Drawn:
    return Drawn(
        cuts=tuple(_cut(each, redaction) for each in found.cuts),
        victims=tuple(_cut(each, redaction) for each in found.victims),
        draws=tuple((redaction.owner(owner), redaction.run(run)) for owner, run in found.draws),
        spared=frozenset(run for run in found.spared if redaction.shows_run(run)),
    )


def _cut(found: Candidate, redaction: Redaction) -> Candidate:
    if redaction.shows_run(found.run):
        return found
    return replace_fields(found, run=OTHERS, leases=(OTHERS,), pledges=())


def redacted_effect(found: Effect, redaction: Redaction) -> tuple[Effect, int]:
    """Return ``found`` with only runs that may be named, and how many entries were left out."""

    def shown(names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(name for name in names if redaction.shows_run(name))

    told = Effect(
        places=tuple(each for each in found.places if redaction.shows_run(each.run)),
        starts=tuple(each for each in found.starts if redaction.shows_run(each.run)),
        shrunk=tuple(each for each in found.shrunk if redaction.shows_run(each.run)),
        grown=tuple(each for each in found.grown if redaction.shows_run(each.run)),
        stopped=shown(found.stopped),
        started=shown(found.started),
        handed=tuple(each for each in found.handed if redaction.shows_run(each.run)),
        causes=tuple(
            (run, redaction.cause(c)) for run, c in found.causes if redaction.shows_run(run)
        ),
        stops=tuple(each for each in found.stops if redaction.shows_run(each.run)),
        risks=tuple(each for each in found.risks if redaction.shows_run(each.run)),
        recalled=tuple(each for each in found.recalled if redaction.shows_run(each[0])),
    )
    return told, _size(found) - _size(told)


def _size(effect: Effect) -> int:
    parts = (effect.places, effect.starts, effect.shrunk, effect.grown, effect.stopped)
    more = (effect.started, effect.handed, effect.risks, effect.recalled)
    return sum(map(len, parts)) + sum(map(len, more))
