"""Notices for owners and users, derived from the ledger (ADR-0021). Pure.

A notice depends on the events of one block, and on the constant fields of the runs and conflicts
that these events name. So a block always gives the same notices.
"""

from __future__ import annotations

from collections.abc import Sequence

from quorate.model.events import Event
from quorate.views.notices.notice import Known, Notice
from quorate.views.notices.notice_conflicts import conflict_notices
from quorate.views.notices.notice_runs import run_notices


def notices_of(first_seq: int, events: Sequence[Event], known: Known) -> list[Notice]:
    """Return the notices of the ``events`` of one block, in their order.

    ``first_seq`` is the sequence number of the first event.
    """
    numbered = list(enumerate(events, first_seq))
    contents = [*conflict_notices(numbered, known), *run_notices(numbered, known)]
    contents.sort(key=lambda each: each.seq)
    found: list[Notice] = []
    for each in contents:
        part = found[-1].part + 1 if found and found[-1].seq == each.seq else 0
        found.append(
            Notice(
                seq=each.seq,
                part=part,
                at_ms=events[each.seq - first_seq].at_ms,
                kind=each.kind,
                owner=each.owner,
                user=each.user,
                run=each.run,
                text=each.text,
                facts=each.facts,
            )
        )
    return found
