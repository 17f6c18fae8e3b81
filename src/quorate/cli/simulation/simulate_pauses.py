"""``quorate simulate`` with pauses: a simulation is saved in a file and resumed."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import click

from quorate.adapters.key_file import create_lottery_secret, lottery_path
from quorate.adapters.stores.store_memory import MemoryStore
from quorate.adapters.stores.store_urls import create_store, ledger_path, open_store
from quorate.cli.progress import Progress
from quorate.cli.sources import STDIN, must_be_new, read_bytes
from quorate.ports.store_port import EventStore
from quorate.sim.play_checkpoint import (
    Checkpoint,
    HashedReads,
    checkpoint_bytes,
    read_checkpoint,
)
from quorate.sim.scenario import Scenario
from quorate.sim.scenario_play import FleetStage, Stage, StrictStage, staged
from quorate.sim.simulation import LOTTERY_SECRET
from quorate.views.exits import CommandError, Exit

_SECOND_MS = 1_000


@dataclass(frozen=True, slots=True)
class Pauses:
    """The options of pauses.

    ``kept`` is the file to write at a pause; without it, Ctrl-C ends the simulation. ``resumed`` is
    the checkpoint to resume from. ``at_s`` is the simulated time of a pause.
    """

    kept: str | None
    resumed: Checkpoint | None
    at_s: float | None


def pauses_of(kept: str | None, resume: str | None, at_s: float | None) -> Pauses:
    """Return the options of pauses; raises ``ScenarioError`` and ``CommandError``.

    A resumed simulation is saved in the file that it was resumed from, unless ``kept`` names
    another file.
    """
    if kept is not None and kept != resume:
        must_be_new(kept)
    resumed = None if resume is None else read_checkpoint(read_bytes(resume))
    kept = kept or resume
    if at_s is not None and kept is None:
        raise click.UsageError("--pause-at needs a file: add --checkpoint FILE")
    return Pauses(kept, resumed, at_s)


def played(asked: Scenario, pauses: Pauses, opened: ExitStack) -> Stage | None:
    """Return the finished simulation; None if it was paused and saved in the file.

    If a ledger records the simulation, the caller's ``opened`` closes this ledger. Raises
    ``CommandError`` if Ctrl-C paused the simulation.
    """
    _refuse(asked, pauses)
    reads = HashedReads(read_bytes)
    with Progress("jobs") as progress, _interrupts(is_heeded=pauses.kept is not None) as seen:
        stage = _staged(asked, pauses, reads, opened)
        while stage.go_on():
            progress.show(stage.done(), stage.jobs_seen())
            if isinstance(stage, FleetStage) and (seen or stage.is_at_pause()):
                _keep(asked, pauses, stage, reads)
                break
        else:
            return stage
    if seen:
        raise CommandError(Exit.INTERRUPTED, _paused_line(pauses, stage))
    click.echo(_paused_line(pauses, stage), err=True)
    return None


def _staged(
    asked: Scenario, pauses: Pauses, reads: HashedReads, opened: ExitStack
) -> StrictStage | FleetStage:
    """Return the simulation at its beginning, or at the point where it was paused."""
    resumed = pauses.resumed

    def made() -> EventStore:
        if resumed is not None:
            reads.must_equal(resumed.files)  # All files were read; nothing has been written yet.
        if asked.record is None:
            assert resumed is not None, "called only if there is a ledger"
            return MemoryStore(resumed.blocks or ())
        store = _recorded(asked.record) if resumed is None else open_store(asked.record)
        return opened.enter_context(closing(store))

    has_ledger = asked.record is not None or resumed is not None
    saved = None if resumed is None else resumed.play
    stage = staged(asked, reads, made if has_ledger else None, saved)
    if isinstance(stage, FleetStage) and pauses.at_s is not None:
        stage.pause_ms = stage.play.start_ms + round(pauses.at_s * _SECOND_MS)
        if stage.pause_ms <= stage.play.now_ms:
            raise click.UsageError(
                "--pause-at must be later than the time of the resumed simulation"
            )
    return stage


def _recorded(url: str) -> EventStore:
    """Create a ledger with its lottery's secret beside it, and return its store.

    A command needs this secret to draw the ledger's lotteries again.
    """
    lottery = lottery_path(ledger_path(url))
    with ExitStack() as undo:
        create_lottery_secret(lottery, LOTTERY_SECRET)
        undo.callback(lottery.unlink)
        store = create_store(url)
        undo.pop_all()
    return store


def _refuse(asked: Scenario, pauses: Pauses) -> None:
    """Raise ``UsageError`` if the simulation cannot be paused."""
    if asked.strict and pauses.kept is not None:
        raise click.UsageError(
            "a strict simulation cannot be paused; remove --checkpoint and --pause-at"
        )
    if pauses.kept is not None and STDIN in (asked.trace, asked.throughputs):
        raise click.UsageError(
            "a simulation of a trace from standard input cannot be paused; save the trace in a file"
        )


def _keep(asked: Scenario, pauses: Pauses, stage: FleetStage, reads: HashedReads) -> None:
    """Write the checkpoint; an older checkpoint in the file is replaced atomically."""
    assert pauses.kept is not None, "called only if there is a file"
    play = stage.play
    blocks = None if asked.record is not None else tuple(play.store.blocks())
    kept = Checkpoint(scenario=asked, files=reads.files, play=play.saved(), blocks=blocks)
    path = Path(pauses.kept)
    draft = path.with_name(f"{path.name}.new")
    try:
        draft.write_bytes(checkpoint_bytes(kept))
        draft.replace(path)
    except OSError as error:
        raise CommandError(
            Exit.UNUSABLE, f"{path} cannot be written: {error.strerror}; check path and space"
        ) from None


def _paused_line(pauses: Pauses, stage: FleetStage) -> str:
    play = stage.play
    hours = (play.now_ms - play.start_ms) / 3_600_000
    return (
        f"paused after {hours:.6g} simulated hours, when {play.came} of {len(play.jobs)} jobs had "
        f"arrived; resume with: quorate simulate --resume {pauses.kept}"
    )


@contextmanager
def _interrupts(*, is_heeded: bool) -> Iterator[list[int]]:
    """Yield a list that gets an entry at the first Ctrl-C; the second Ctrl-C ends the program.

    If ``is_heeded`` is false, the first Ctrl-C ends the program.
    """
    seen: list[int] = []
    if not is_heeded:
        yield seen
        return
    before = signal.getsignal(signal.SIGINT)

    def note(number: int, _: FrameType | None) -> None:
        seen.append(number)
        signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, note)
    try:
        yield seen
    finally:
        signal.signal(signal.SIGINT, before)
