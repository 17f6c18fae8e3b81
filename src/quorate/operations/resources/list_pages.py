"""Pages of lists: of runs, of the queue, and of names that are all in memory.

The cost of a page of runs, or of the first waiting runs, grows with the page and not with the list.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

from quorate.model.state.records import Phase
from quorate.model.state.run_table import RunQuery
from quorate.operations.array_names import arrays_once
from quorate.operations.request_context import RequestContext
from quorate.operations.resources.resource_operations import ListRuns, ListThings
from quorate.operations.visibility import seen_by
from quorate.views.exits import UNKNOWN_NAME, CommandError, Exit
from quorate.views.runs.instant import Moment


def page_of_runs(context: RequestContext, moment: Moment, asked: ListRuns) -> tuple[list[str], str]:
    """Return the page of runs after the cursor, and the next page's cursor: empty if there is none.

    Few runs are read besides the returned ones, even if there are many more.
    """
    runs, seen = moment.view.runs, seen_by(moment.view, context.caller)
    owners = seen
    if asked.owner is not None:
        owners = frozenset((asked.owner,)) if seen is None else seen & {asked.owner}
        is_known = asked.owner in moment.view.owners and moment.redaction.shows_owner(asked.owner)
        if not is_known and next(runs.listed(RunQuery(owners=owners)), None) is None:
            raise _no_owner(asked.owner)
    phase = None
    if asked.phase is not None:
        phase = next(p for p in Phase if p.value.lower() == asked.phase.lower())
    query = RunQuery(owners=owners, phase=phase, is_newest_first=asked.newest)
    if asked.cursor is not None:
        record = runs.get(asked.cursor)
        if record is None or not query.matches(record):
            raise _stale(asked.cursor)
        if asked.newest:
            query = replace(query, before_seq=record.seq)
        else:
            query = replace(query, after_seq=record.seq)
    limit = asked.limit
    listed_names = runs.listed(query)
    found = (
        arrays_once(moment.view, listed_names, query)
        if asked.grouped
        else ((name, name) for name in listed_names)
    )
    entries_read = list(islice(found, None if limit is None else limit + 1))
    is_more = limit is not None and len(entries_read) > limit
    shown = entries_read[:limit]
    names = [name for name, _ in shown]
    return names[::-1] if asked.newest else names, shown[-1][1] if is_more else ""


def is_first_page(asked: ListThings) -> bool:
    """Return whether the request asks for the first resources, without a filter."""
    plain = ListRuns(limit=asked.limit, at=asked.at)
    return asked.limit is not None and asked == plain


def first_of_queue(
    context: RequestContext, moment: Moment, limit: int | None
) -> tuple[list[str], str]:
    """Return the first ``limit`` waiting runs, and the next page's cursor: empty if there is none.

    Only the first part of the queue is ordered, even if many more runs wait.
    """
    seen, runs = seen_by(moment.view, context.caller), moment.view.runs
    mine = (name for name in moment.outlook.order if seen is None or runs[name].spec.owner in seen)
    return page(list(islice(mine, None if limit is None else limit + 1)), limit, None)


def check_phase(phase: str | None) -> None:
    """Raise ``CommandError`` if ``phase`` is neither None nor a phase, in upper or lower case."""
    names = [each.value for each in Phase]
    if phase is not None and phase.lower() not in map(str.lower, names):
        raise CommandError(
            Exit.USAGE, f"phase: there is no phase {phase!r}; use one of {', '.join(names)}"
        )


def _no_owner(owner: str) -> CommandError:
    return CommandError(
        Exit.REFUSED,
        f"there is no owner {owner!r}; list them: quorate get owners",
        fault=UNKNOWN_NAME,
    )


def _stale(cursor: str) -> CommandError:
    return CommandError(
        Exit.REFUSED,
        f"cursor: {cursor!r} is no longer in the list; start again without a cursor",
        fault="stale-cursor",
    )


def matching(moment: Moment, names: Sequence[str], asked: ListRuns) -> list[str]:
    """Return the runs of ``names`` with the requested owner and phase.

    The caller must be allowed to see all of ``names``.
    """
    owner, phase = asked.owner, asked.phase
    records = [moment.view.runs[name] for name in names]
    # An owner that was removed may still have runs that are over. A hidden owner is treated as
    # missing.
    if not (
        owner is None
        or (owner in moment.view.owners and moment.redaction.shows_owner(owner))
        or any(record.spec.owner == owner for record in records)
    ):
        raise _no_owner(owner)
    return [
        record.spec.name
        for record in records
        if (owner is None or record.spec.owner == owner)
        and (phase is None or record.phase.value.lower() == phase.lower())
    ]


def page(
    names: list[str], limit: int | None, cursor: str | None, *, newest: bool = False
) -> tuple[list[str], str]:
    """Return the page after ``cursor``, and the next page's cursor: empty if there is none.

    If ``newest``, return the page before ``cursor``.
    """
    if cursor is not None:
        if cursor not in names:
            raise _stale(cursor)
        at = names.index(cursor)
        names = names[:at] if newest else names[at + 1 :]
    if limit is None or len(names) <= limit:
        return names, ""
    if newest:
        return names[-limit:], names[-limit]
    return names[:limit], names[limit - 1]
