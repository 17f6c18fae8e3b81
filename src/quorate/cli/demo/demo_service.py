"""The demo's service: a real ``quorate serve`` on a free port, which leaves no processes."""

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
    # All work is the demo's own. Without this option, a service started by root runs no work.
    *([ALLOW_ROOT] if os.geteuid() == 0 else []),
)
OUTPUT: Final = "serve.out"
LOG: Final = "serve.log"
START_S: Final = 60.0
STOP_S: Final = 60.0
CLEAR_S: Final = 8.0
"""How many seconds work may take to end after the demo is interrupted; later it is killed."""
POLL_S: Final = 0.05
_TOLD: Final = re.compile(r"serving \S+ at (http://\S+)\n.*\n  quorate context set .*\n")


class Service:
    """A service in ``folder``; when the service is ready, it has a keyboard for commands."""

    def __init__(self, folder: Path, environ: Mapping[str, str]) -> None:
        self._folder = folder
        own = {name: value for name, value in environ.items() if not name.startswith("QUORATE_")}
        # Work that calls `python` gets the Python of the demo.
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
        """The keyboard that runs commands against this service."""
        asked = {"QUORATE_SERVER": self.url, "QUORATE_TOKEN": self.token, "NO_COLOR": "1"}
        return Keyboard(Settings(environ=asked))

    def wait_ready(self) -> None:
        """Wait until the service listens; raises ``CommandError`` with its output if it fails."""
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
            f"the demo's service did not start: {' '.join(last) or 'no output'}",
            f"its output is in {self._folder / LOG}",
        )

    def stop(self) -> int:
        """Stop the service and its remaining work; return its exit code."""
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
        """End the service and all its work, even if the service is not ready yet."""
        if self._process.poll() is None and self.url:
            until_s = time.monotonic() + CLEAR_S
            # Waiting runs are cancelled first; otherwise they would start when running runs end.
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
    """Kill the keeper processes of the runs in the folder ``runs``, and the work of these runs.

    There are no keepers if all runs ended before the service.
    """
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = entry.read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue  # The process has ended, or belongs to another user.
        if "quorate.keeper" in words and any(Path(word).parent == runs for word in words):
            with suppress(ProcessLookupError):
                os.kill(int(entry.parent.name), signal.SIGKILL)
