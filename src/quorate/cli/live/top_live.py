"""``quorate top`` on a terminal: polls the fleet, redraws the screen, and reads keys."""

from __future__ import annotations

import os
import re
import select
import shutil
import sys
import termios
import tty
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from time import monotonic
from typing import Any, Final

from quorate.cli.ask_and_print import tree_asked
from quorate.cli.live.top_screen import FlavorUse, Fleet, Line, Screen, TopRun, drawn, pressed
from quorate.cli.session import clock_of
from quorate.cli.settings import Settings
from quorate.operations.fleet.observe_operations import FleetTop
from quorate.operations.resources.resource_operations import ListRuns
from quorate.views.exits import CommandError, Exit

RUNS_MAX: Final = 500
"""How many runs of each phase are requested, at most: the newest runs of the phase."""
KEYS: Final = {b"\x1b[A": "up", b"\x1b[B": "down", b"\x1bOA": "up", b"\x1bOB": "down"}
_SEQUENCE: Final = re.compile(rb"(\x1b(?:\[[0-9;]*[A-Za-z~]|O[A-Z]))|(\x1b|[^\x1b]+)")
"""Matches a key that sends several bytes, such as an arrow; Esc alone; or letters."""
_KEY_BYTES: Final = 1_024
_STYLES: Final[Mapping[str, str]] = {
    "title": "1",
    "titles": "7",
    "full": "33",
    "Running": "32",
    "Pending": "33",
    "trouble": "31",
    "typing": "1",
    "help": "2",
}
"""Maps the style of a line to the colour codes of this style."""


def is_colored(environ: Mapping[str, str]) -> bool:
    """Return whether to use colours: yes if NO_COLOR is not set and the terminal has colours."""
    return not environ.get("NO_COLOR") and environ.get("TERM") not in ("dumb", None, "")


def watch_fleet(settings: Settings, pool: str | None, interval_s: float) -> None:
    """Draw the fleet until the user quits with a key or Ctrl-C."""
    screen: Screen | None = Screen()
    has_colors = is_colored(settings.environ)
    fleet = fleet_of(settings, pool)
    with _own_screen():
        asked_s = monotonic()
        while screen is not None:
            size = shutil.get_terminal_size()
            _write(painted(drawn(screen, fleet, *size), has_colors=has_colors))
            left_s = asked_s + interval_s - monotonic()
            for key in _keys(max(0.0, left_s)):
                screen = None if screen is None else pressed(screen, key)
            if monotonic() - asked_s >= interval_s:
                fleet, asked_s = _fleet_or_trouble(settings, pool, fleet), monotonic()


def _fleet_or_trouble(settings: Settings, pool: str | None, before: Fleet) -> Fleet:
    """Return the current fleet; if the service cannot be used, ``before`` with the error."""
    try:
        return fleet_of(settings, pool)
    except CommandError as error:
        if error.code is not Exit.UNUSABLE:
            raise
        return Fleet(
            now_ms=before.now_ms,
            flavors=before.flavors,
            runs=before.runs,
            has_more=before.has_more,
            trouble=f"not up to date: {' '.join(error.lines)}",
        )


def fleet_of(settings: Settings, pool: str | None) -> Fleet:
    """Return the fleet and its waiting and running runs, from a file or a service."""
    top = tree_asked(settings, "fleet-top", FleetTop(pool=pool))
    runs: list[TopRun] = []
    has_more = False
    for phase in ("Running", "Pending"):
        asked = ListRuns(phase=phase, limit=RUNS_MAX, newest=True)
        listing = tree_asked(settings, "list-runs", asked)
        has_more = has_more or "next" in listing
        runs += [run_of(tree) for tree in listing["items"] if pool in (None, _pool(tree))]
    flavors = [
        FlavorUse(
            flavor=each["flavor"],
            used=each["gpusUsed"],
            free=each["gpusFree"],
            out=each["gpusOutOfService"],
            queued=each["gpusQueued"],
        )
        for each in top["flavors"]
    ]
    return Fleet(now_ms=clock_of(settings).now_ms(), flavors=flavors, runs=runs, has_more=has_more)


def _pool(tree: Mapping[str, Any]) -> str:
    pool: str = tree["spec"].get("pool", "default")
    return pool


def run_of(tree: Mapping[str, Any]) -> TopRun:
    """Return a run from its tree in a list."""
    spec, status = tree["spec"], tree["status"]
    resources = spec["resources"]
    began = status.get("started") if status["phase"] == "Running" else None
    return TopRun(
        name=tree["metadata"]["name"],
        owner=spec["owner"],
        user=spec.get("user", ""),
        phase=status["phase"],
        gpus=status["gpus"] or resources["totalGPUs"],
        flavor=resources.get("gpuType") or "|".join(resources["gpuTypes"]),
        where=" ".join(status.get("domains", {})),
        since_ms=_ms(began or status["submitted"]),
    )


def _ms(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1_000)


def painted(lines: Sequence[Line], *, has_colors: bool) -> str:
    """Return the text that draws ``lines`` from the top of the terminal, and clears the rest."""
    texts = [
        f"\x1b[{_STYLES[line.style]}m{line.text}\x1b[0m"
        if has_colors and line.style in _STYLES and line.text
        else line.text
        for line in lines
    ]
    return "\x1b[H" + "\r\n".join(f"{text}\x1b[K" for text in texts) + "\x1b[J"


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


@contextmanager
def _own_screen() -> Iterator[None]:
    """Switch the terminal to the alternate screen and to single keys; switch back afterwards."""
    file = sys.stdin.fileno()
    before = termios.tcgetattr(file)
    try:
        tty.setcbreak(file)
        _write("\x1b[?1049h\x1b[?25l")
        yield
    finally:
        termios.tcsetattr(file, termios.TCSADRAIN, before)
        _write("\x1b[?25h\x1b[?1049l")


def _keys(timeout_s: float) -> list[str]:
    """Return the keys pressed within ``timeout_s``; the end of input counts as q."""
    file = sys.stdin.fileno()
    if not select.select([file], [], [], timeout_s)[0]:
        return []
    return keys_in(os.read(file, _KEY_BYTES))


def keys_in(data: bytes) -> list[str]:
    """Return the keys in the bytes ``data`` of a terminal; empty data is the end of input."""
    if not data:
        return ["q"]
    keys: list[str] = []
    for sequence, text in _SEQUENCE.findall(data):
        if sequence:
            keys += [KEYS[sequence]] if sequence in KEYS else []
        else:
            keys += text.decode("utf-8", "ignore")
    return keys
