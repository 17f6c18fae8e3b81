"""The ledger itself: lists its events, signs its end, and exports the whole ledger."""

from __future__ import annotations

import base64
import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, Final

import msgspec

from quorate.ledger.chain import GENESIS, Block, open_block
from quorate.ledger.checkpoint import write_checkpoint
from quorate.ledger.codec import event_to_json
from quorate.ledger.fold import replay
from quorate.model.events import Event
from quorate.model.state.state_view import StateView
from quorate.operations.answer_types import Answer
from quorate.operations.common_requests import Nothing
from quorate.operations.ledger.ledger_operations import ListEvents
from quorate.operations.operation import Operation
from quorate.operations.recent_blocks import Page, Recent
from quorate.operations.request_context import AnyContext, RequestContext
from quorate.operations.visible_events import Sight
from quorate.views.exits import UNKNOWN_NAME, CommandError, Exit
from quorate.views.runs.event_text import ABOUT, COLUMNS, Entry, entries, entry_tree, row
from quorate.views.table import table

EXPORT_FORMAT: Final = "quorate-export/1"


LOOKED_AT_MAX: Final = 100_000
"""The most events that are read for one page. The answer says where to continue."""
BACK_BLOCKS: Final = 128
"""The most blocks in one read while the ledger is read backwards from its end."""


def list_events(context: RequestContext, asked: ListEvents, operation: Operation) -> Answer:
    """Return events that the caller may see: the first ones from an event on, or the last ones."""
    del operation
    view = context.recorded
    wanted = _Wanted(view, Sight(view, context.caller), asked)
    found: Sequence[Entry]
    notes: tuple[str, ...] = ()
    if asked.first is not None:
        found, next_seq = _first_from(context, wanted, asked.first, asked.limit)
        if next_seq <= view.seq and not found:
            notes = (
                (f"no events match up to sequence {next_seq - 1}; continue with --from {next_seq}"),
            )
    else:
        found, notes = _last(context, wanted, asked.limit)
        next_seq = view.seq + 1
    told = (*context.aside(), *notes)
    return Answer(
        tree=lambda: {"items": [entry_tree(entry) for entry in found], "next": next_seq},
        lines=lambda wide: (
            [table(COLUMNS, [row(entry) for entry in found], show_wide=wide)] if found else []
        ),
        notes=told if found or notes else (*told, "no events match"),
    )


class _Wanted:
    """Selects the events that are requested and that the caller may see."""

    def __init__(self, view: StateView, sight: Sight, asked: ListEvents) -> None:
        self._sight = sight
        self._is_chosen, run = _chosen(view, sight, asked)
        self.is_about_one = asked.run is not None or asked.about is not None
        # No event about a run comes before the submission of the run.
        record = None if run is None else view.runs.get(run)
        self.first = 1 if record is None else record.seq

    def of(self, entries_: Iterable[Entry]) -> Iterator[Entry]:
        """Yield the selected events of ``entries_``, redacted for the caller."""
        for entry in entries_:
            if self._is_chosen(entry.event) and self._sight.sees(entry.event):
                yield replace(entry, event=self._sight.told(entry.event))


def _first_from(
    context: RequestContext, wanted: _Wanted, first: int, limit: int | None
) -> tuple[list[Entry], int]:
    """Return the first ``limit`` events from ``first`` on, and the event from which to continue."""
    end = context.recorded.seq
    if limit is None:
        # Only a user that opened the ledger's file may list all events at once. A service lists at
        # most one page.
        return list(wanted.of(_entries_from(context, first))), max(first, end + 1)
    looked_at = islice(_entries_from(context, first), LOOKED_AT_MAX)
    found = list(islice(wanted.of(looked_at), limit))
    if len(found) == limit:
        return found, found[-1].seq + 1
    return found, max(first, min(end, first - 1 + LOOKED_AT_MAX) + 1)


def _last(
    context: RequestContext, wanted: _Wanted, limit: int | None
) -> tuple[Sequence[Entry], tuple[str, ...]]:
    """Return the last ``limit`` events, and a note if earlier events were not searched."""
    if limit is None or wanted.is_about_one:
        # The requested events may be anywhere in the ledger, so it is read from the first possible
        # event on.
        return deque(wanted.of(_entries_from(context, wanted.first)), maxlen=limit), ()
    found: deque[Entry] = deque()
    looked_at = 0
    for page in _pages_back(context):
        entries_ = [
            Entry(seq, page.head, event) for seq, event in enumerate(page.events, page.first_seq)
        ]
        found.extendleft(reversed(list(wanted.of(entries_))))
        looked_at += len(entries_)
        if len(found) >= limit:
            return list(found)[-limit:], ()
        if looked_at >= LOOKED_AT_MAX and page.first_seq > 1:
            note = f"only the last {looked_at} events were read; for earlier ones use --from 1"
            return found, (note,)
    return found, ()


def _pages_back(context: RequestContext) -> Iterator[Page]:
    """Yield the blocks up to the end of the state, last block first."""
    height = context.store.height_at(context.recorded.seq)
    count = 1
    while height >= 1:
        lowest = max(1, height - count + 1)
        blocks = islice(context.store.blocks(from_height=lowest), height - lowest + 1)
        yield from reversed([Page(block) for block in blocks])
        height, count = lowest - 1, min(2 * count, BACK_BLOCKS)


def _entries_from(context: RequestContext, first: int) -> Iterator[Entry]:
    """Yield the events from event ``first`` on, up to the last event of the state.

    Blocks before ``first`` are not read, so the cost of a page does not depend on its position in
    the ledger.
    """
    end = context.recorded.seq
    if first > end:
        return
    recent = Recent(context.store)
    height = context.store.height_at(first)
    after = recent.page(height - 1).head if height > 1 else GENESIS
    for entry in entries(context.store.blocks(from_height=height), after=after):
        if entry.seq > end:
            return
        if entry.seq >= first:
            yield entry


def _chosen(
    view: StateView, sight: Sight, asked: ListEvents
) -> tuple[Callable[[Event], bool], str | None]:
    """Return a test for events about the requested resource, and the run of the resource or None.

    Raises ``CommandError`` if there is no such resource.
    """
    about = asked.about
    if asked.run is not None:
        if about is not None:
            raise CommandError(Exit.USAGE, "give either run or about")
        about = f"run/{asked.run.removeprefix('run/')}"
    if about is None:
        return lambda _: True, None
    kind, _, name = about.partition("/")
    is_about = ABOUT.get(kind)
    if is_about is None or not name:
        raise CommandError(
            Exit.USAGE, f"about: must be KIND/NAME with KIND one of {', '.join(ABOUT)}"
        )
    if not _is_there(view, sight, kind, name):
        raise CommandError(
            Exit.REFUSED,
            f"there is no {kind} {name!r}; list them: quorate get {kind}s",
            fault=UNKNOWN_NAME,
        )
    runs = {"run": name, "claim": name, "reservation": name.rpartition("@")[0]}
    return lambda event: is_about(event, name), runs.get(kind)


def _is_there(view: StateView, sight: Sight, kind: str, name: str) -> bool:
    match kind:
        case "node":
            return name in view.nodes
        case "resolveroutcome":
            return name in view.conflicts
        case "reservation":
            # A closed reservation is not in the state, but its events are in the ledger. So the
            # check is whether the caller may see the run of the reservation.
            return sight.sees_run(name.rpartition("@")[0])
        case _:
            return sight.sees_run(name)


def sign_checkpoint(context: AnyContext, asked: Nothing, operation: Operation) -> Answer:
    """Verify the chain up to the ledger's end, and return a signed checkpoint of this end."""
    del asked, operation
    if context.signer is None:
        raise CommandError(
            Exit.REFUSED,
            "this program has no signing key, so it cannot sign; put the ledger's key file beside "
            "the ledger, or sign on the machine that has the key: quorate ledger "
            "checkpoint",
            fault="no-key",
        )
    state, head = replay(context.store.blocks())
    text = write_checkpoint(context.signer(state, head, max(context.now_ms, state.at_ms)))
    return Answer(tree=lambda: msgspec.json.decode(text), lines=lambda _: text.splitlines())


def export_ledger(context: AnyContext, asked: Nothing, operation: Operation) -> Answer:
    """Return the whole ledger, a line of JSON for each block."""
    del asked, operation
    store = context.store

    def stream() -> Iterator[str]:
        return export_lines(store.blocks())

    def tree() -> list[Any]:
        return [json.loads(line) for line in stream()]

    return Answer(
        tree=tree, lines=lambda _: (line.removesuffix("\n") for line in stream()), stream=stream
    )


def export_lines(blocks: Iterable[Block]) -> Iterator[str]:
    """Yield one line of JSON for each block; each block is verified first."""
    head, at_ms = GENESIS, 0
    for block in blocks:
        events = open_block(block, after=head, not_before_ms=at_ms)
        head, at_ms = block.head, events[-1].at_ms
        shown = {
            "format": EXPORT_FORMAT,
            "height": block.height,
            "first_seq": block.first_seq,
            "count": block.count,
            "prev_hash": block.prev_hash.hex(),
            "hash": block.hash.hex(),
            "body": base64.b64encode(block.body).decode("ascii"),
            "events": [
                event_to_json(seq, event) for seq, event in enumerate(events, block.first_seq)
            ],
        }
        yield json.dumps(shown, separators=(",", ":"), ensure_ascii=False) + "\n"
