"""An owner's shares over time, as lines for people or as a tree. Pure."""

from __future__ import annotations

from quorate.core.tenancy.share_history import ShareHistory
from quorate.core.tenancy.share_score import ONE
from quorate.documents.times import time_text
from quorate.views.kinds.kind import Tree
from quorate.views.numbers import share_number
from quorate.views.table import Column, right, table
from quorate.views.word_forms import percent

_COLUMNS = (Column("SINCE"), Column("FLAVOR"), right("SHARE"), right("TARGET"))


def shares_tree(owner: str, found: ShareHistory) -> Tree:
    """Return the shares of ``owner`` for programs, with the present targets."""
    return {
        "owner": owner,
        "from": time_text(found.edges_ms[0]),
        "until": time_text(found.edges_ms[-1]),
        "stepsMs": list(found.edges_ms[:-1]),
        "flavors": [
            {
                "flavor": each.flavor,
                "gpus": each.gpus,
                "target": share_number(each.terms.target),
                "effectiveTarget": share_number(each.terms.effective),
                "shares": [share_number(share) for share in each.shares],
            }
            for each in found.flavors
        ],
    }


def shares_lines(found: ShareHistory) -> list[str]:
    """Return the shares for people: a row for each time step and flavor."""
    rows = [
        (
            time_text(begin_ms),
            each.flavor,
            percent(each.shares[step], ONE),
            percent(each.terms.effective, ONE),
        )
        for step, begin_ms in enumerate(found.edges_ms[:-1])
        for each in found.flavors
    ]
    return [table(_COLUMNS, rows)] if rows else ["the owner has had no GPUs in this period"]
