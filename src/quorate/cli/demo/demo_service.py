"""The demo's own service: a real ``quorate serve`` on a free port, and nothing left of it after."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from quorate.cli.demo.demo_keyboard import Keyboard
from quorate.cli.settings import LEDGER_DEFAULT, Settings
from quorate.views.exits import CommandError, Exit

TOKEN: Final = "token"  # noqa: S105 - the name of the file it is kept in
ALLOW_ROOT: Final = "--executor-allow-root"
WORDS: Final = (
    *("serve", "--init", "--executor", "local"),
    *("--listen", "127.0.0.1:0", "--token-file", TOKEN),
    # All work there is the demo's own; unless asked to, a service of root would run none of it.
    *([ALLOW_ROOT] if os.geteuid() == 0 else []),
)
OUTPUT: Final = "serve.out"
LOG: Final = "serve.log"
START_S: Final = 60.0
STOP_S: Final = 60.0
CLEAR_S: Final = 8.0
"""How long work has to end when the demo is broken off; then it is killed."""
POLL_S: Final = 0.05
_TOLD: Final = re.compile(r"serving \S+ at (http://\S+)\n.*\n  quorate context set .*\n")


class Service:
    """A service in ``folder``, and a keyboard that asks it once it is ready."""

    def __init__(self, folder: Path, environ: Mapping[str, str]) -> None:
        self._folder = folder
        own = {name: value for name, value in environ.items() if not name.startswith("QUORATE_")}
        # Work that says `python` gets the one that runs the demo.
        path = f"{Path(sys.executable).parent}{os.pathsep}{environ.get('PATH', os.defpath)}"
        with (folder / OUTPUT).open("wb") as output, (folder / LOG).open("wb") as log:
            self._process = subprocess.Popen(  # noqa: S603 - this program itself
                [sys.executable, "-P", "-m", "quorate", *WORDS],
                cwd=folder,
                env={**own, "PATH": path},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=log,
                start_new_session=True,
            )
        self.url = self.token = self.said = ""

    @property
    def keyboard(self) -> Keyboard:
        """The keyboard that types to it."""
        asked = {"QUORATE_SERVER": self.url, "QUORATE_TOKEN": self.token, "NO_COLOR": "1"}
        return Keyboard(Settings(environ=asked))

    def wait_ready(self) -> None:
        """Return when it listens; raises ``CommandError`` with its last output when it does not."""
        until_s = time.monotonic() + START_S
        while time.monotonic() < until_s and self._process.poll() is None:
            self.said = (self._folder / OUTPUT).read_text()
            told = _TOLD.search(self.said)
            if told is not None:
                self.url = told[1]
                self.token = (self._folder / TOKEN).read_text().strip()
                return
            time.sleep(POLL_S)
        last = (self._folder / LOG).read_text().strip().splitlines()[-1:]
        raise CommandError(
            Exit.UNUSABLE,
            f"the demo's service did not start: {' '.join(last) or 'it said nothing'}",
            f"what it said is in {self._folder / LOG}",
        )

    def stop(self) -> int:
        """Return its exit code when it has ended, with all that is left of its work."""
        if self._process.poll() is None:
            self._process.terminate()
        try:
            code = self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        _end_keepers(self._folder / f"{LEDGER_DEFAULT}.work" / "runs")
        return code

    def clear(self) -> None:
        """End it with all its work, whatever state that is in."""
        if self._process.poll() is None and self.url:
            until_s = time.monotonic() + CLEAR_S
            # What waits first: otherwise it would start where something ends.
            runs = sorted(self._runs_open(), key=lambda run: run[1] == "Running")
            for name, _ in runs:
                self.keyboard.run(("cancel", name))
            while time.monotonic() < until_s and self._is_working():
                time.sleep(POLL_S)
        self.stop()

    def _runs_open(self) -> list[tuple[str, str]]:
        with suppress(CommandError):
            return [
                (run["metadata"]["name"], run["status"]["phase"])
                for run in self.keyboard.items("runs")
            ]
        return []

    def _is_working(self) -> bool:
        with suppress(CommandError):
            return bool(self.keyboard.items("leases"))
        return False


def _end_keepers(runs: Path) -> None:
    """End the keepers that are left of the runs in the folder ``runs``, and their work with them.

    There are none when all runs have ended before the service.
    """
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = entry.read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue  # It has ended, or is not ours to inspect.
        if "quorate.keeper" in words and any(Path(word).parent == runs for word in words):
            with suppress(ProcessLookupError):
                os.kill(int(entry.parent.name), signal.SIGKILL)
