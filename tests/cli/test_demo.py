"""The demo prints the same story every time, and leaves no process running."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import sys
import time
from collections.abc import Iterator
from decimal import Decimal
from difflib import unified_diff
from pathlib import Path

import pytest

from tests.bounds import started, until
from tests.cli.shell import ROOT, process
from tools.demo_transcript import TRANSCRIPT, masked, play, victim_of

pytestmark = pytest.mark.slow
SECONDS_MAX = 60


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("a folder")


@pytest.fixture(scope="module")
def transcript(folder: Path) -> str:
    return play(folder)


def processes_of(folder: Path) -> Iterator[str]:
    """Yield the command lines of processes that work in ``folder`` or name it in an argument."""
    for entry in Path("/proc").glob("[0-9]*"):
        if entry.name == str(os.getpid()):
            continue
        try:
            words = entry.joinpath("cmdline").read_bytes() + entry.joinpath("environ").read_bytes()
            place = entry.joinpath("cwd").readlink()
        except OSError:
            continue
        if str(folder).encode() in words or place.is_relative_to(folder):
            yield words.replace(b"\0", b" ").decode(errors="replace")


def all_end(folder: Path) -> None:
    """Return when no process works in ``folder``; killed processes may need a moment to end."""
    until(lambda: not list(processes_of(folder)), "all end", tell=lambda: [*processes_of(folder)])


def test_the_story_is_the_one_that_is_checked_in(transcript: str) -> None:
    written = masked((ROOT / TRANSCRIPT).read_text(encoding="utf-8")).splitlines()
    difference = list(unified_diff(written, masked(transcript).splitlines(), "docs", "now", n=1))
    assert not difference, "\n".join(
        [*difference, "if that is right: python -m tools.demo_transcript"]
    )


def test_nothing_is_left_running(transcript: str, folder: Path) -> None:
    assert transcript
    all_end(folder)


def test_the_victim_is_the_same_wherever_it_is_named(transcript: str) -> None:
    victim, owner = victim_of(transcript)
    text = " ".join(transcript.split())
    assert f"{victim}:4(Lottery)" in text
    assert f"1 Cleared 1 1 {victim} The same victim: {victim}." in text
    assert f"Who was cut? {victim} of {owner}, by lot" in text
    assert f"the outcome of the lottery: {victim} of {owner} becomes" in text
    assert re.search(rf"{victim} received the stop signal, and saved step \d+", text)


def test_work_goes_on_from_its_checkpoint(transcript: str) -> None:
    before, after = transcript.split("$ quorate node fail a1")
    reached = int(re.findall(r"^pretrain step (\d+), ", before, re.MULTILINE)[-1])
    found = re.search(
        r"goes on from its checkpoint of step (\d+), .*\npretrain step (\d+), .*\n"
        r"pretrain step (\d+), ",
        after,
    )
    assert found is not None
    saved, first, second = map(int, found.groups())
    # Work may have been done between the last look at the log and the failure. The demo itself
    # compares the checkpoint with all work that was done.
    assert saved > 0
    assert reached > 0
    assert (first, second) == (saved + 1, saved + 2)


def test_the_bill_adds_up(transcript: str) -> None:
    table = transcript.partition("$ quorate get charges\n")[2].partition("\n\n")[0].splitlines()
    *rows, total = [Decimal(line.split()[-1]) for line in table[1:]]
    assert len(rows) == 5
    assert sum(rows) == total > 0
    answer = transcript.partition("  Who paid?\n")[2].splitlines()[0]
    *parts, whole = [Decimal(number) for number in re.findall(r"\d+\.\d{3}", answer)]
    used_ms = re.search(r"^ {2}(\d+) GPU-milliseconds$", transcript, re.MULTILINE)
    assert used_ms is not None
    assert sum(parts) == whole == Decimal(used_ms[1]) / 1_000


def test_a_pipe_gets_plain_lines(transcript: str) -> None:
    assert "\x1b" not in transcript
    assert max(map(len, transcript.splitlines())) < 300


@pytest.mark.soak
def test_what_it_proposes_to_type_at_the_end_works(transcript: str, folder: Path) -> None:
    tail = transcript.partition("Try these commands:\n")[2].splitlines()
    assert len(tail) == 4
    for line in tail[1:]:
        assert process(folder / "demo", *line.split()[1:]).code == 0


def test_a_folder_that_exists_is_left_alone(tmp_path: Path) -> None:
    again = process(tmp_path, "demo", "--dir", ".")
    assert (again.code, "exists already" in again.err) == (1, True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.soak
def test_what_does_not_go_as_told_ends_it_with_a_message_and_nothing_left(tmp_path: Path) -> None:
    said = process(tmp_path, "demo", "--dir", "demo", env={"PATH": ""})
    assert (said.code, said.err) == (4, "error: the demo needs tail; install it\n")
    assert "$ quorate apply" in said.out
    all_end(tmp_path)


@pytest.mark.soak
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_broken_off_on_a_terminal_it_clears_up(tmp_path: Path, number: signal.Signals) -> None:
    screen, side = pty.openpty()
    environ = {**os.environ, "TERM": "xterm", "NO_COLOR": ""}
    with started(
        [sys.executable, "-m", "quorate", "demo", "--dir", "demo"],
        cwd=tmp_path,
        env=environ,
        stdin=side,
        stdout=side,
        stderr=side,
        start_new_session=True,
    ) as demo:
        os.close(side)
        # The fleet was redrawn while work ran.
        seen = _read_until(screen, b"pretrain begins\r\n", b"\x1b[J")
        assert b"us-west/c1/A" in seen
        assert len(list(processes_of(tmp_path))) > 1
        demo.send_signal(number)
        _read_until(screen, b"interrupted")
        assert demo.wait(SECONDS_MAX) == 130
    os.close(screen)
    all_end(tmp_path)


def _read_until(screen: int, *words: bytes) -> bytes:
    """Return the output of a terminal until all of ``words`` have appeared, in this order."""
    seen, at, until_s = b"", 0, time.monotonic() + SECONDS_MAX
    for word in words:
        while (found := seen.find(word, at)) < 0:
            ready, _, _ = select.select([screen], [], [], max(0, until_s - time.monotonic()))
            assert ready, f"{word!r} did not come: {seen[-2_000:]!r}"
            seen += os.read(screen, 65_536)
        at = found
    return seen
