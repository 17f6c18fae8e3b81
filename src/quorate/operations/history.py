"""The ledger itself: its events listed, its end signed, the whole of it exported."""

from __future__ import annotations

import base64
import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import islice
from typing import Any, Final

import msgspec

from quorate.answers.exits import UNKNOWN_NAME, CommandError, Exit
from quorate.answers.table import table
from quorate.answers.timeline import ABOUT, COLUMNS, Entry, entries, entry_tree, row
from quorate.ledger.chain import GENESIS, Block, open_block
from quorate.ledger.checkpoint import write_checkpoint
from quorate.ledger.codec import event_to_json
from quorate.ledger.fold import replay
from quorate.model.events import Event
from quorate.model.view import StateView
from quorate.operations.answer import Answer
from quorate.operations.asked import Nothing
from quorate.operations.asked_ledger import ListEvents
from quorate.operations.desk import AnyDesk, Desk
from quorate.operations.operation import Operation
from quorate.operations.recent import Recent
from quorate.operations.visible_events import Sight

EXPORT_FORMAT: Final = "quorate-export/1"


def list_events(desk: Desk, asked: ListEvents, operation: Operation) -> Answer:
    """Return events that may be seen: the first from one on, else the last ones."""
    del operation
    view = desk.recorded
    sight = Sight(view, desk.caller)
    is_chosen = _chosen(view, sight, asked)
    chosen = (
        replace(entry, event=sight.told(entry.event))
        for entry in _entries_from(desk, asked.first or 1)
        if is_chosen(entry.event) and sight.sees(entry.event)
    )
    found = (
        deque(chosen, maxlen=asked.limit)
        if asked.first is None
        else list(islice(chosen, asked.limit))
    )
    told = desk.aside()
    return Answer(
        tree=lambda: [entry_tree(entry) for entry in found],
        lines=lambda wide: (
            [table(COLUMNS, [row(entry) for entry in found], show_wide=wide)] if found else []
        ),
        notes=told if found else (*told, "there are no such events"),
    )


def _entries_from(desk: Desk, first: int) -> Iterator[Entry]:
    """Yield the events from the sequence ``first`` on that the state knows.

    Blocks before it are not read: a page costs what is on it, wherever it is.
    """
    end = desk.recorded.seq
    if first > end:
        return
    recent = Recent(desk.store)
    height = recent.height_of(first) if first > 1 else 1
    after = recent.page(height - 1).head if height > 1 else GENESIS
    for entry in entries(desk.store.blocks(from_height=height), after=after):
        if entry.seq > end:
            return
        if entry.seq >= first:
            yield entry


def _chosen(view: StateView, sight: Sight, asked: ListEvents) -> Callable[[Event], bool]:
    """Return whether an event is about what was asked for; raises where there is no such thing."""
    about = asked.about
    if asked.run is not None:
        if about is not None:
            raise CommandError(Exit.USAGE, "give either run or about")
        about = f"run/{asked.run.removeprefix('run/')}"
    if about is None:
        return lambda _: True
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
    return lambda event: is_about(event, name)


def _is_there(view: StateView, sight: Sight, kind: str, name: str) -> bool:
    match kind:
        case "node":
            return name in view.nodes
        case "resolveroutcome":
            return name in view.conflicts
        case "reservation":
            # One that is over is not kept, and what happened to it is: so its run decides.
            return sight.sees_run(name.rpartition("@")[0])
        case _:
            return sight.sees_run(name)


def sign_checkpoint(desk: AnyDesk, asked: Nothing, operation: Operation) -> Answer:
    """Return a signed checkpoint of the ledger's end, whose chain is verified to get there."""
    del asked, operation
    if desk.signer is None:
        raise CommandError(
            Exit.REFUSED,
            "the signing key is not here, so nothing can be signed; give the program that holds "
            "the ledger its key file, or sign on the machine that has it: quorate ledger "
            "checkpoint",
            fault="no-key",
        )
    state, head = replay(desk.store.blocks())
    text = write_checkpoint(desk.signer(state, head, max(desk.now_ms, state.at_ms)))
    return Answer(tree=lambda: msgspec.json.decode(text), lines=lambda _: text.splitlines())


def export_ledger(desk: AnyDesk, asked: Nothing, operation: Operation) -> Answer:
    """Return the whole ledger, a line of JSON for each block."""
    del asked, operation
    store = desk.store

    def stream() -> Iterator[str]:
        return export_lines(store.blocks())

    def tree() -> list[Any]:
        return [json.loads(line) for line in stream()]

    return Answer(
        tree=tree, lines=lambda _: (line.removesuffix("\n") for line in stream()), stream=stream
    )


def export_lines(blocks: Iterable[Block]) -> Iterator[str]:
    """Yield one line of JSON for each block, each verified before it is shown."""
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
