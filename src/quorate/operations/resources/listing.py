"""Lists of resources, single resources, and descriptions of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from quorate.documents import API_VERSION
from quorate.operations.answer_types import Answer
from quorate.operations.array_names import with_tasks
from quorate.operations.common_requests import MORE, PAGE_MAX
from quorate.operations.etags import etag_of
from quorate.operations.fleet.run_reports import progress_in
from quorate.operations.operation import Operation
from quorate.operations.past_state import as_it_was
from quorate.operations.request_context import RequestContext
from quorate.operations.resources.list_pages import (
    check_phase,
    first_of_queue,
    is_first_page,
    matching,
    page,
    page_of_runs,
)
from quorate.operations.resources.resource_operations import (
    GetSystem,
    GetThing,
    ListRuns,
    ListThings,
)
from quorate.operations.unknown_names import array_tasks, newest_runs
from quorate.operations.visibility import visible
from quorate.operations.visible_events import Sight
from quorate.views.csv_text import to_csv
from quorate.views.exits import UNKNOWN_NAME, CommandError, Exit
from quorate.views.hints import nearest_name
from quorate.views.kinds.kind import Kind
from quorate.views.kinds.kind_table import KIND_OF
from quorate.views.kinds.kinds_claims import CLAIM
from quorate.views.kinds.kinds_plans import RESERVATION
from quorate.views.kinds.kinds_queue import QUEUE
from quorate.views.kinds.kinds_tenants import describe_tenants
from quorate.views.kinds.kinds_work import RUN
from quorate.views.runs.array_view import array_sections
from quorate.views.runs.closed_reservations import closed_reservations
from quorate.views.runs.describe import DESCRIPTIONS, describe_other
from quorate.views.runs.event_text import ABOUT, entries
from quorate.views.runs.instant import Moment
from quorate.views.runs.wait_view import wait_of
from quorate.views.table import table

_PART: Final = re.compile("[/@]")
"""The separators of the parts of a name. A request may give only the first part of a name."""
_DIGITS_MAX: Final = 9
"""The most digits in the number of a reservation."""


def list_things(context: RequestContext, asked: ListThings, operation: Operation) -> Answer:
    """Return the resources of a kind, or a page of them if the request has a limit."""
    kind = KIND_OF[operation.about]
    moment = _moment(context, kind, asked.names, asked.at)
    named = asked.names
    if isinstance(asked, ListRuns):
        check_phase(asked.phase)
        is_chosen = asked.owner is not None or asked.phase is not None
        is_grouped = asked.grouped and kind.name == RUN.name and not is_chosen
        named = with_tasks(moment.view, context.caller, named, keep_arrays=is_grouped)
    if kind.name == RUN.name and isinstance(asked, ListRuns) and not named:
        names, more = page_of_runs(context, moment, asked)
    elif kind.name == QUEUE.name and is_first_page(asked):
        names, more = first_of_queue(context, moment, asked.limit)
    else:
        names = select(context, moment, kind, named)
        newest = False
        if isinstance(asked, ListRuns):
            newest = asked.newest
            if asked.owner is not None or asked.phase is not None:
                names = matching(moment, names, asked)
        names, more = page(names, asked.limit, asked.cursor, newest=newest)
    if more and asked.limit == PAGE_MAX:
        context.notes.append(MORE)
    return listed(context, moment, kind, names, more)


def listed(
    context: RequestContext, moment: Moment, kind: Kind, names: Sequence[str], more: str
) -> Answer:
    """Return ``names`` as a list."""

    def tree() -> dict[str, Any]:
        found = {"apiVersion": API_VERSION, "kind": "List", "items": kind.trees(moment, names)}
        return found | ({"next": more} if more else {})

    def lines(wide: bool) -> list[str]:  # noqa: FBT001 - as every answer is asked
        return [table(kind.columns, kind.rows(moment, names), show_wide=wide)] if names else []

    def csv() -> str:
        rows = [[None if cell == "-" else cell for cell in row] for row in kind.rows(moment, names)]
        return to_csv([column.title for column in kind.columns], rows)

    notes = (*context.notes, *(() if names else (kind.nothing,)))
    return Answer(tree=tree, lines=lines, csv=csv, notes=notes)


def get_thing(context: RequestContext, asked: GetThing, operation: Operation) -> Answer:
    """Return one resource as a document."""
    kind = KIND_OF[operation.about]
    moment = _moment(context, kind, (asked.name,), asked.at)
    named: tuple[str, ...] = (asked.name,)
    if kind.name == RUN.name:
        named = with_tasks(moment.view, context.caller, named, keep_arrays=True)
    names = select(context, moment, kind, named)
    found = listed(context, moment, kind, names, "")
    if len(names) > 1:
        return found
    etag = etag_of(moment.view, kind.name, names[0]) if asked.at is None else ""
    return Answer(
        tree=lambda: kind.trees(moment, names)[0],
        lines=found.lines,
        csv=found.csv,
        notes=found.notes,
        etag=etag,
    )


def get_system(context: RequestContext, asked: GetSystem, operation: Operation) -> Answer:
    """Return the System document."""
    return get_thing(context, GetThing(name=operation.about, at=asked.at), operation)


def describe_system(context: RequestContext, asked: GetSystem, operation: Operation) -> Answer:
    """Return the description of the System, for people."""
    return describe_thing(context, GetThing(name=operation.about, at=asked.at), operation)


def describe_thing(context: RequestContext, asked: GetThing, operation: Operation) -> Answer:
    """Return the description of one resource, for people."""
    kind = KIND_OF[operation.about]
    moment = _moment(context, kind, (asked.name,), asked.at)
    sections: list[str] = []
    named: tuple[str, ...] = (asked.name,)
    if kind.name == RUN.name:
        named = with_tasks(moment.view, context.caller, named, keep_arrays=True)
    names = select(context, moment, kind, named)
    if operation.about == "tenant":
        sections, names = describe_tenants(moment, names), []
    for name in names:
        is_about, describe = ABOUT.get(kind.name), DESCRIPTIONS.get(kind.name)
        if kind.name == RUN.name and name in moment.view.arrays:
            parts: Sequence[str] = array_sections(moment, name)
        elif describe is None:
            parts = describe_other(moment, kind, name)
        else:
            timeline = []
            if is_about is not None:
                sight = Sight(moment.view, context.caller)
                timeline = [
                    replace(each, event=sight.told(each.event))
                    for each in entries(context.store.blocks())
                    if each.seq <= moment.seq
                    and is_about(each.event, name)
                    and sight.sees(each.event)
                ]
            if kind.name in {RUN.name, CLAIM.name}:
                moment = _with_history(context, moment, name, is_now=asked.at is None)
            parts = describe(moment, name, timeline)
        sections.append("\n\n".join(parts))
    return Answer(
        tree=lambda: {"kind": kind.name, "name": asked.name, "sections": sections},
        lines=lambda _: ["\n\n".join(sections)],
        notes=tuple(context.notes),
    )


def _with_history(context: RequestContext, moment: Moment, name: str, *, is_now: bool) -> Moment:
    """Return ``moment`` with the waits of a run, and its reported progress."""
    record = moment.view.runs[name]
    wait = wait_of(context.store, record, upto_seq=moment.seq, now_ms=moment.now_ms)
    progress = progress_in(context, record) if is_now else None
    return replace(
        moment, waits={name: wait}, progress={} if progress is None else {name: progress}
    )


def _moment(context: RequestContext, kind: Kind, names: Sequence[str], at: str | None) -> Moment:
    """Return the requested state, and add those closed reservations that ``names`` lists.

    Closed reservations are not in the state, so they are read from the whole ledger.
    """
    moment = context.moment if at is None else as_it_was(context, at)
    if kind.name != RESERVATION.name:
        return moment
    over = {name for name in names if _is_over(moment, name)}
    if not over:
        return moment
    history = (each for each in entries(context.store.blocks()) if each.seq <= moment.seq)
    return replace(moment, closed=closed_reservations(history, over))


def _is_over(moment: Moment, name: str) -> bool:
    """Return whether ``name`` is the name of a closed reservation."""
    run, _, number = name.rpartition("@")
    record = moment.view.runs.get(run)
    if record is None or name in moment.view.reservations or not moment.redaction.shows_run(run):
        return False
    if not number.isascii() or not number.isdecimal() or len(number) > _DIGITS_MAX:
        return False
    return int(number) <= record.reservations_ever


def select(context: RequestContext, moment: Moment, kind: Kind, names: Sequence[str]) -> list[str]:
    """Return those of ``names`` that exist; all resources if no name is given.

    The part of a name before ``/`` or ``@`` is enough. Hidden resources are treated as missing.
    """
    if not names or kind.called_by is None:
        among = kind.names(moment)
    else:
        among = [each for name in names for each in kind.called_by(moment, name)]
    known = visible(moment.view, context.caller, kind, among)
    if not names:
        return known
    found = _called(known, names)
    missing = [name for name, called in found.items() if not called]
    if missing:
        # Only the first missing name gets a suggestion, because searching for one takes long.
        tasks = None
        if kind is RUN:
            tasks = array_tasks(moment.view, context.caller, missing[0])
        near = nearest_name(missing[0], _hinted(context, moment, kind, known))
        listing = f"list them: quorate get {kind.plural}"
        first = tasks or (listing if near is None else f"did you mean {near!r}?")
        told = [f"there is no {kind.name} {name!r}; {listing}" for name in missing[1:]]
        raise CommandError(
            Exit.REFUSED,
            f"there is no {kind.name} {missing[0]!r}; {first}",
            *told,
            fault=UNKNOWN_NAME,
        )
    return list(dict.fromkeys(name for called in found.values() for name in called))


def _hinted(
    context: RequestContext, moment: Moment, kind: Kind, known: Sequence[str]
) -> Sequence[str]:
    """Return the names with which an unknown name is compared.

    For runs, the names are only those of the last runs, because there may be too many runs.
    """
    if kind.called_by is None:
        return known
    return newest_runs(moment.view, context.caller, kind.name)


def _called(known: Sequence[str], names: Sequence[str]) -> dict[str, list[str]]:
    """Return, for each of ``names``, the names in ``known`` that it matches.

    ``known`` is read only once.
    """
    found: dict[str, list[str]] = {name: [] for name in names}
    for each in known:
        if each in found:
            found[each].append(each)
        # A reservation's name begins with its run's name: RUN@1.
        for match in _PART.finditer(each):
            if each[: match.start()] in found:
                found[each[: match.start()]].append(each)
    return found
