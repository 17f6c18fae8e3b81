"""Explanations, forecasts and effects with the names that whoever asks may be told. Pure."""

from __future__ import annotations

from dataclasses import replace

from msgspec.structs import replace as replace_fields

from quorate.answers.cause_text import WITHHELD
from quorate.answers.veil import OTHERS, Veil
from quorate.core.commands import Wiped
from quorate.core.contest import Contest
from quorate.core.cuts import Candidate
from quorate.core.effect import Effect
from quorate.core.explain import Explanation, Remedy
from quorate.core.plan import Forecast
from quorate.core.quota_holders import QuotaInTheWay
from quorate.core.resolver import Drawn
from quorate.core.standing import Standing
from quorate.model.refusal import Refusal


def veiled_explanation(found: Explanation, veil: Veil) -> Explanation:
    """Return ``found`` with the names that may be told."""
    if veil.seen is None:
        return found
    return replace(
        found,
        refusal=None if found.refusal is None else veil.refusal(found.refusal),
        standing=None if found.standing is None else _standing(found.standing, veil),
        quotas=tuple(_quota(each, veil) for each in found.quotas),
        reservation=None if found.reservation is None else veil.promise(found.reservation),
        parked=veil.text(found.parked),
        remedies=tuple(_remedy(each, veil) for each in found.remedies),
    )


def _standing(found: Standing, veil: Veil) -> Standing:
    ahead = tuple(replace(each, owner=veil.owner(each.owner)) for each in found.ahead)
    return replace(found, ahead=ahead)


def _quota(found: QuotaInTheWay, veil: Veil) -> QuotaInTheWay:
    holders = tuple(each for each in found.holders if veil.shows_run(each.run))
    hidden = len(found.holders) - len(holders)
    return replace(found, holders=holders, others=found.others + hidden)


def _remedy(found: Remedy, veil: Veil) -> Remedy:
    """Return a remedy; the claim that a node is to be wiped after may be another's."""
    trial = found.trial
    if not isinstance(trial, Wiped) or trial.claim is None or veil.shows_run(trial.claim):
        return found
    effect = found.effect.replace(f"after claim {trial.claim},", "after a claim of others,")
    command = found.command[: found.command.index("--after")]
    return replace(found, effect=effect, command=command)


def veiled_forecast(found: Forecast, veil: Veil) -> Forecast:
    """Return ``found`` with the names that may be told.

    Who would enter a conflict that is not declared is nobody's to know but theirs.
    """
    if veil.seen is None:
        return found
    contest = found.contest
    if isinstance(contest, Contest):
        contest = _contest(contest, veil)
    elif isinstance(contest, Refusal):
        contest = veil.refusal(contest)
    return replace(
        found,
        cause=None if found.cause is None else veil.cause(found.cause),
        parked=_parked(found, veil),
        overdue=tuple(veil.runs(found.overdue)),
        refusal=None if found.refusal is None else veil.refusal(found.refusal),
        remedies=tuple(_remedy(each, veil) for each in found.remedies),
        contest=contest,
        dangers=tuple(
            replace(each, reservation=each.reservation and veil.run(each.reservation))
            for each in found.dangers
        ),
    )


def _parked(found: Forecast, veil: Veil) -> str:
    """Return why a run has no reservation: in it are its pool, its quotas and what it follows."""
    follow = found.run.follow
    upstreams = () if follow is None else follow.after
    return found.parked if all(map(veil.shows_run, upstreams)) else WITHHELD


def _contest(found: Contest, veil: Veil) -> Contest:
    sample = found.sample
    return replace(
        found,
        cuts=tuple(_cut(each, veil) for each in found.cuts),
        entrants=tuple(
            replace(each, owner=veil.owner(each.owner), run=veil.run(each.run))
            for each in found.entrants
        ),
        sample=None if sample is None else _drawn(sample, veil),
        sure=frozenset(run for run in found.sure if veil.shows_run(run)),
    )


def _drawn(found: Drawn, veil: Veil) -> Drawn:
    return Drawn(
        cuts=tuple(_cut(each, veil) for each in found.cuts),
        victims=tuple(_cut(each, veil) for each in found.victims),
        draws=tuple((veil.owner(owner), veil.run(run)) for owner, run in found.draws),
        spared=frozenset(run for run in found.spared if veil.shows_run(run)),
    )


def _cut(found: Candidate, veil: Veil) -> Candidate:
    if veil.shows_run(found.run):
        return found
    return replace_fields(found, run=OTHERS, leases=(OTHERS,), pledges=())


def veiled_effect(found: Effect, veil: Veil) -> tuple[Effect, int]:
    """Return ``found`` for the runs that may be named, and how much more there is for others."""

    def shown(names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(name for name in names if veil.shows_run(name))

    told = Effect(
        places=tuple(each for each in found.places if veil.shows_run(each.run)),
        starts=tuple(each for each in found.starts if veil.shows_run(each.run)),
        shrunk=tuple(each for each in found.shrunk if veil.shows_run(each.run)),
        grown=tuple(each for each in found.grown if veil.shows_run(each.run)),
        stopped=shown(found.stopped),
        started=shown(found.started),
        handed=tuple(each for each in found.handed if veil.shows_run(each.run)),
        causes=tuple((run, veil.cause(c)) for run, c in found.causes if veil.shows_run(run)),
        stops=tuple(each for each in found.stops if veil.shows_run(each.run)),
        risks=tuple(each for each in found.risks if veil.shows_run(each.run)),
        recalled=tuple(each for each in found.recalled if veil.shows_run(each[0])),
    )
    return told, _size(found) - _size(told)


def _size(effect: Effect) -> int:
    parts = (effect.places, effect.starts, effect.shrunk, effect.grown, effect.stopped)
    more = (effect.started, effect.handed, effect.risks, effect.recalled)
    return sum(map(len, parts)) + sum(map(len, more))
