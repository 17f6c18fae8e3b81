"""The queue: the waiting runs with their order and their terms, as rows and documents. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from quorate.core.tenancy.owner_scores import Scores
from quorate.core.tenancy.queue_order import line_of
from quorate.documents.times import time_text
from quorate.model.state.upstreams import eligible_since_ms
from quorate.views import kind_names
from quorate.views.kinds.kind import Kind, Row, Tree
from quorate.views.kinds.kinds_work import plan_texts, run_trees
from quorate.views.runs.instant import Moment
from quorate.views.runs.position_view import TERM_COLUMNS, score_cell, term_cells, terms_tree
from quorate.views.runs.wait_reasons import reasons_now
from quorate.views.table import Column, right, wide
from quorate.views.word_forms import age, names


def queue_names(moment: Moment) -> list[str]:
    """Return the waiting runs in the order in which Quorate tries to start them."""
    return list(moment.outlook.queue)


def _queue_rows(moment: Moment, wanted: Sequence[str]) -> list[Row]:
    order, scores = moment.outlook.order, Scores(moment.view, moment.now_ms)
    reasons = reasons_now(moment, wanted)
    rows: list[Row] = []
    for name in wanted:
        record, reason = moment.view.runs[name], reasons[name]
        _, terms = scores.worst(line_of(record))
        starts, plan, planned = plan_texts(moment, record, reason)
        rows.append(
            (
                str(order.place_of(name) + 1),
                name,
                record.spec.owner,
                str(record.spec.gpus),
                names(record.spec.flavors),
                age(moment.now_ms - record.submitted_ms),
                score_cell(terms),
                starts,
                plan,
                "-" if reason.refusal is None else reason.refusal.code.value,
                reason.text(),
                "-" if reason.since_ms is None else time_text(reason.since_ms),
                planned,
                *term_cells(terms, eligible_since_ms(moment.view, record)),
            )
        )
    return rows


def _queue_trees(moment: Moment, wanted: Sequence[str]) -> list[Tree]:
    """Return the runs as ``get runs`` does, with position and terms under ``status.queue``."""
    order, scores = moment.outlook.order, Scores(moment.view, moment.now_ms)
    found = run_trees(moment, wanted)
    for name, tree in zip(wanted, found, strict=True):
        record = moment.view.runs[name]
        flavor, terms = scores.worst(line_of(record))
        since_ms = eligible_since_ms(moment.view, record)
        tree["status"]["queue"] = {
            "position": order.place_of(name) + 1,
            "flavor": flavor,
            **terms_tree(terms),
            "eligibleSince": None if since_ms is None else time_text(since_ms),
        }
    return found


QUEUE = Kind(
    called=kind_names.QUEUE,
    columns=(
        right("POSITION"),
        Column("NAME"),
        Column("OWNER"),
        right("GPUS"),
        Column("FLAVOR"),
        right("WAITING"),
        right("SCORE"),
        right("STARTS"),
        Column("PLAN"),
        Column("CODE"),
        Column("REASON"),
        wide("SINCE"),
        wide("PLANNED"),
        *TERM_COLUMNS,
    ),
    names=queue_names,
    rows=_queue_rows,
    trees=_queue_trees,
)
