"""Owners as rows and documents, with the state of their soft quotas. Pure.

Shares are computed for each flavor: an owner has a share of each flavor whose GPUs its runs have or
had.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from quorate.core.tenancy.owner_scores import Scores, budget_used, target_ppm
from quorate.core.tenancy.share_score import ONE, Terms
from quorate.documents import render
from quorate.model.amounts import PPM
from quorate.model.specs import Owner
from quorate.model.state.records import Phase
from quorate.views import kind_names
from quorate.views.kinds.kind import Kind, Row, Tree
from quorate.views.money.report_view import report_lines, report_tree
from quorate.views.numbers import share_number
from quorate.views.runs.instant import Moment, runs_by_owner
from quorate.views.runs.position_view import (
    budget_line,
    score_text,
    target_text,
    terms_tree,
    used_text,
)
from quorate.views.table import Column, right, table, wide
from quorate.views.word_forms import names, percent


def owner_gpus(moment: Moment, name: str) -> int:
    """Return how many GPUs the owner's runs have now."""
    leases = moment.view.owner_leases.get(name, ())
    return sum(moment.view.leases[lease].gpus for lease in leases)


def _target(moment: Moment, owner: Owner) -> str:
    target = target_ppm(moment.view, owner) * ONE // PPM
    return target_text(target, is_stated=owner.quota.fair_share_target_ppm is not None)


def _shares(moment: Moment, name: str, scores: Scores) -> dict[str, Terms]:
    """Return the terms of the owner's share of each flavor whose GPUs its runs have or had."""
    flavors = (flavor for flavor in moment.view.flavors() if (name, flavor) in moment.view.meters)
    return {flavor: scores.of(name, flavor) for flavor in flavors}


def _by_flavor(parts: Iterable[tuple[str, int]]) -> str:
    return names(f"{flavor} {percent(part, ONE)}" for flavor, part in parts)


def _threshold(moment: Moment, name: str) -> str:
    crossed = moment.view.thresholds.get(name, 0)
    return f"{crossed} %" if crossed else "-"


@dataclass(frozen=True, slots=True)
class _Known:
    """Values that are computed once for all owners in a listing."""

    scores: Scores
    running: dict[str, list[str]]
    pending: dict[str, list[str]]

    @classmethod
    def of(cls, moment: Moment, wanted: Sequence[str]) -> _Known:
        """Return the values for the owners ``wanted``."""
        runs = runs_by_owner(moment, wanted, (Phase.RUNNING, Phase.PENDING))
        scores = Scores(moment.view, moment.now_ms)
        return cls(scores, runs[Phase.RUNNING], runs[Phase.PENDING])


def _owner_rows(moment: Moment, wanted: Sequence[str]) -> list[Row]:
    known = _Known.of(moment, wanted)
    return [_owner_row(moment, name, known) for name in wanted]


def _owner_row(moment: Moment, name: str, known: _Known) -> Row:
    owner = moment.view.owners[name]
    shares = _shares(moment, name, known.scores)
    return (
        name,
        names(owner.parents),
        names(moment.view.owner_budgets.get(name, ())),
        str(len(known.running[name])),
        str(len(known.pending[name])),
        str(owner_gpus(moment, name)),
        names(moment.view.children.get(name, ())),
        _target(moment, owner),
        _by_flavor((flavor, terms.instant) for flavor, terms in shares.items()),
        _by_flavor((flavor, terms.decayed) for flavor, terms in shares.items()),
        used_text(budget_used(moment.view, owner, moment.now_ms)),
        _threshold(moment, name),
    )


def _owner_trees(moment: Moment, wanted: Sequence[str]) -> list[Tree]:
    known = _Known.of(moment, wanted)
    return [_owner_tree(moment, name, known) for name in wanted]


def _owner_tree(moment: Moment, name: str, known: _Known) -> Tree:
    owner = moment.view.owners[name]
    used = budget_used(moment.view, owner, moment.now_ms)
    status = {
        "children": list(moment.view.children.get(name, ())),
        "budgets": list(moment.view.owner_budgets.get(name, ())),
        "running": known.running[name],
        "pending": known.pending[name],
        "activeGPUs": owner_gpus(moment, name),
        "target": share_number(target_ppm(moment.view, owner) * ONE // PPM),
        "targetStated": owner.quota.fair_share_target_ppm is not None,
        "budgetUsed": None if used is None else share_number(used),
        "budgetReport": report_tree(moment.view.reports.get(name)),
        "thresholdCrossed": moment.view.thresholds.get(name),
        "shares": [
            {"flavor": flavor, **terms_tree(terms)}
            for flavor, terms in _shares(moment, name, known.scores).items()
        ],
    }
    return {**render(owner), "status": status}


OWNER = Kind(
    called=kind_names.OWNER,
    columns=(
        Column("NAME"),
        Column("PARENTS"),
        Column("BUDGETS"),
        right("RUNNING"),
        right("PENDING"),
        right("GPUS"),
        wide("CHILDREN"),
        right("TARGET", wide=True),
        wide("NOW"),
        wide("LATELY"),
        right("USED", wide=True),
        right("THRESHOLD", wide=True),
    ),
    names=lambda moment: sorted(moment.view.owners),
    rows=_owner_rows,
    trees=_owner_trees,
)

_SHARE_COLUMNS = (
    Column("FLAVOR"),
    right("NOW"),
    right("LATELY"),
    right("SHARE"),
    right("TARGET"),
    right("EFFECTIVE"),
    right("SCORE"),
)


def shares_text(moment: Moment, name: str) -> str:
    """Return an owner's target, its shares by flavor, and its budget of hours.

    The text also has the threshold that the owner's usage crossed last. Shares and budgets only
    order the queue; they stop no run.
    """
    owner, scores = moment.view.owners[name], Scores(moment.view, moment.now_ms)
    shares = _shares(moment, name, scores)
    lines = [f"target share: {_target(moment, owner)}"]
    report = moment.view.reports.get(name)
    lines.append(budget_line(name, budget_used(moment.view, owner, moment.now_ms), report))
    lines += report_lines(report, moment.now_ms)
    lines.append(f"last threshold crossed: {_threshold(moment, name)}")
    rows = [
        (
            flavor,
            percent(terms.instant, ONE),
            percent(terms.decayed, ONE),
            percent(terms.share, ONE),
            percent(terms.target, ONE),
            percent(terms.effective, ONE),
            score_text(terms.score),
        )
        for flavor, terms in shares.items()
    ]
    return "\n".join([*lines, table(_SHARE_COLUMNS, rows)] if rows else lines)
