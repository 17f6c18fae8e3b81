"""Lists of things, one thing, and everything about one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from quorate.answers.closed_reservations import closed_reservations
from quorate.answers.exits import UNKNOWN_NAME, CommandError, Exit
from quorate.answers.hints import nearest_name
from quorate.answers.kind import Kind
from quorate.answers.kinds import KIND_OF
from quorate.answers.kinds_plans import RESERVATION
from quorate.answers.kinds_tenants import tenant_portraits
from quorate.answers.moment import Moment
from quorate.answers.portrait import PORTRAITS, plain_portrait
from quorate.answers.table import table
from quorate.answers.timeline import ABOUT, entries
from quorate.documents import API_VERSION
from quorate.operations.answer import Answer
from quorate.operations.asked import MORE, PAGE_MAX, GetSystem, GetThing, ListRuns, ListThings
from quorate.operations.desk import Desk
from quorate.operations.etags import etag_of
from quorate.operations.operation import Operation
from quorate.operations.past import as_it_was
from quorate.operations.visibility import visible
from quorate.operations.visible_events import Sight

_PART: Final = re.compile("[/@]")
"""Where a part of a name ends; what is before it will do."""
_DIGITS_MAX: Final = 9
"""How long the number of a reservation may be."""


def list_things(desk: Desk, asked: ListThings, operation: Operation) -> Answer:
    """Return the things of a kind, a page of them where a limit is given."""
    kind = KIND_OF[operation.about]
    moment = _moment(desk, kind, asked.names, asked.at)
    names = select(desk, moment, kind, asked.names)
    newest = False
    if isinstance(asked, ListRuns):
        newest = asked.newest
        if asked.owner is not None or asked.phase is not None:
            names = _matching(moment, names, asked)
    names, more = page(names, asked.limit, asked.cursor, newest=newest)
    if more and asked.limit == PAGE_MAX:
        desk.notes.append(MORE)
    return listed(desk, moment, kind, names, more)


def listed(desk: Desk, moment: Moment, kind: Kind, names: Sequence[str], more: str) -> Answer:
    """Return ``names`` as a list."""

    def tree() -> dict[str, Any]:
        found = {"apiVersion": API_VERSION, "kind": "List", "items": kind.trees(moment, names)}
        return found | ({"next": more} if more else {})

    def lines(wide: bool) -> list[str]:  # noqa: FBT001 - as every answer is asked
        return [table(kind.columns, kind.rows(moment, names), show_wide=wide)] if names else []

    notes = (*desk.notes, *(() if names else (kind.nothing,)))
    return Answer(tree=tree, lines=lines, notes=notes)


def get_thing(desk: Desk, asked: GetThing, operation: Operation) -> Answer:
    """Return one thing as a document."""
    kind = KIND_OF[operation.about]
    moment = _moment(desk, kind, (asked.name,), asked.at)
    names = select(desk, moment, kind, (asked.name,))
    found = listed(desk, moment, kind, names, "")
    if len(names) > 1:
        return found
    etag = etag_of(moment.view, kind.name, names[0]) if asked.at is None else ""
    return Answer(
        tree=lambda: kind.trees(moment, names)[0],
        lines=found.lines,
        notes=found.notes,
        etag=etag,
    )


def get_system(desk: Desk, asked: GetSystem, operation: Operation) -> Answer:
    """Return the System document."""
    return get_thing(desk, GetThing(name=operation.about, at=asked.at), operation)


def describe_system(desk: Desk, asked: GetSystem, operation: Operation) -> Answer:
    """Return everything about the System, in words."""
    return describe_thing(desk, GetThing(name=operation.about, at=asked.at), operation)


def describe_thing(desk: Desk, asked: GetThing, operation: Operation) -> Answer:
    """Return everything about one thing, in words."""
    kind = KIND_OF[operation.about]
    moment = _moment(desk, kind, (asked.name,), asked.at)
    sections: list[str] = []
    names = select(desk, moment, kind, (asked.name,))
    if operation.about == "tenant":
        sections, names = tenant_portraits(moment, names), []
    for name in names:
        is_about, portrait = ABOUT.get(kind.name), PORTRAITS.get(kind.name)
        if portrait is None:
            parts: Sequence[str] = plain_portrait(moment, kind, name)
        else:
            timeline = []
            if is_about is not None:
                sight = Sight(moment.view, desk.caller)
                timeline = [
                    replace(each, event=sight.told(each.event))
                    for each in entries(desk.store.blocks())
                    if each.seq <= moment.seq
                    and is_about(each.event, name)
                    and sight.sees(each.event)
                ]
            parts = portrait(moment, name, timeline)
        sections.append("\n\n".join(parts))
    return Answer(
        tree=lambda: {"kind": kind.name, "name": asked.name, "sections": sections},
        lines=lambda _: ["\n\n".join(sections)],
        notes=tuple(desk.notes),
    )


def _moment(desk: Desk, kind: Kind, names: Sequence[str], at: str | None) -> Moment:
    """Return the state that is asked about, with the reservations of ``names`` that are over.

    The state forgets those; they are read from the ledger, which is as long as it is.
    """
    moment = desk.moment if at is None else as_it_was(desk, at)
    if kind.name != RESERVATION.name:
        return moment
    over = {name for name in names if _is_over(moment, name)}
    if not over:
        return moment
    history = (each for each in entries(desk.store.blocks()) if each.seq <= moment.seq)
    return replace(moment, closed=closed_reservations(history, over))


def _is_over(moment: Moment, name: str) -> bool:
    """Return whether ``name`` is that of a reservation that was made and is over."""
    run, _, number = name.rpartition("@")
    record = moment.view.runs.get(run)
    if record is None or name in moment.view.reservations or not moment.veil.shows_run(run):
        return False
    if not number.isascii() or not number.isdecimal() or len(number) > _DIGITS_MAX:
        return False
    return int(number) <= record.reservations_ever


def select(desk: Desk, moment: Moment, kind: Kind, names: Sequence[str]) -> list[str]:
    """Return the names that exist of those asked for, all where none is.

    What is before a ``/`` or ``@`` will do. What may not be seen is not there.
    """
    known = visible(moment.view, desk.caller, kind, kind.names(moment))
    if not names:
        return known
    found = _called(known, names)
    missing = [name for name, called in found.items() if not called]
    if missing:
        # Only of the first it is said what it may have been meant to be: to find that takes long.
        near = nearest_name(missing[0], known)
        listing = f"list them: quorate get {kind.plural}"
        first = listing if near is None else f"did you mean {near!r}?"
        told = [f"there is no {kind.name} {name!r}; {listing}" for name in missing[1:]]
        raise CommandError(
            Exit.REFUSED,
            f"there is no {kind.name} {missing[0]!r}; {first}",
            *told,
            fault=UNKNOWN_NAME,
        )
    return list(dict.fromkeys(name for called in found.values() for name in called))


def _called(known: Sequence[str], names: Sequence[str]) -> dict[str, list[str]]:
    """Return for each of ``names`` those of ``known`` that it calls, in one pass over them."""
    found: dict[str, list[str]] = {name: [] for name in names}
    for each in known:
        if each in found:
            found[each].append(each)
        # A reservation is called after its run: RUN@1.
        for match in _PART.finditer(each):
            if each[: match.start()] in found:
                found[each[: match.start()]].append(each)
    return found


def _matching(moment: Moment, names: Sequence[str], asked: ListRuns) -> list[str]:
    """Return the runs of ``names``, which may be seen, of the owner and in the phase asked for."""
    owner, phase = asked.owner, asked.phase
    records = [moment.view.runs[name] for name in names]
    # An owner that was removed still has runs that are over. One that may not be seen is not there.
    if not (
        owner is None
        or (owner in moment.view.owners and moment.veil.shows_owner(owner))
        or any(record.spec.owner == owner for record in records)
    ):
        raise CommandError(
            Exit.REFUSED,
            f"there is no owner {owner!r}; list them: quorate get owners",
            fault=UNKNOWN_NAME,
        )
    return [
        record.spec.name
        for record in records
        if (owner is None or record.spec.owner == owner)
        and (phase is None or record.phase.value.lower() == phase.lower())
    ]


def page(
    names: list[str], limit: int | None, cursor: str | None, *, newest: bool = False
) -> tuple[list[str], str]:
    """Return the page after ``cursor``, and the cursor of the next one where there is more."""
    if cursor is not None:
        if cursor not in names:
            raise CommandError(
                Exit.REFUSED,
                f"cursor: {cursor!r} is not in the list any more; begin again without it",
                fault="stale-cursor",
            )
        names = names[names.index(cursor) + 1 :]
    if limit is None or len(names) <= limit:
        return names, ""
    if newest:
        return names[-limit:], ""
    return names[:limit], names[limit - 1]
