"""Likely starts of waiting runs, as lines for people or as a tree. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from quorate.core.explain.likely_starts import LikelyStart
from quorate.documents.times import time_text
from quorate.views.kinds.kind import Tree
from quorate.views.redaction.redaction import Redaction
from quorate.views.runs.plan_words import PLAN_WORDS
from quorate.views.table import Column, table
from quorate.views.word_forms import odds_text, until

_COLUMNS = (Column("NAME"), Column("PLAN"), Column("START"), Column("P50"), Column("P90"))


def starts_tree(found: Sequence[LikelyStart], redaction: Redaction, now_ms: int) -> Tree:
    """Return likely starts for programs."""
    return {"asOf": time_text(now_ms), "items": [_tree(each, redaction) for each in found]}


def _tree(found: LikelyStart, redaction: Redaction) -> Tree:
    likely = found.quantiles
    return {
        "run": found.run,
        "planState": found.state.value,
        "plannedStart": time_text(found.start_ms),
        "p50Start": None if likely is None else time_text(likely.p50_ms),
        "p90Start": None if likely is None else time_text(likely.p90_ms),
        "byConflict": found.by_conflict,
        "odds": [
            {"owner": redaction.owner(owner), "odds": str(odds)} for owner, odds in found.odds
        ],
    }


def starts_lines(found: Sequence[LikelyStart], redaction: Redaction, now_ms: int) -> list[str]:
    """Return likely starts for people: a row for each run, then the odds of conflicts."""
    if not found:
        return ["no waiting run has a planned start"]

    def cell(at_ms: int | None) -> str:
        return "-" if at_ms is None else until(at_ms, now_ms)

    rows = [
        (
            each.run,
            PLAN_WORDS[each.state],
            until(each.start_ms, now_ms),
            cell(None if each.quantiles is None else each.quantiles.p50_ms),
            cell(None if each.quantiles is None else each.quantiles.p90_ms),
        )
        for each in found
    ]
    return [
        table(_COLUMNS, rows),
        *(
            f"{each.run}: drawn first: "
            + ", ".join(f"{redaction.owner(owner)} {odds_text(odds)}" for owner, odds in each.odds)
            for each in found
            if each.odds
        ),
    ]
