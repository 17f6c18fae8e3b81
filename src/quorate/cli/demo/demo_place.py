"""Sets up the demo: a new folder with its documents, and a service that ends with the demo."""

from __future__ import annotations

import json
import signal
import tempfile
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NoReturn

from quorate.cli.demo.demo_keyboard import interpreter
from quorate.cli.demo.demo_service import Service
from quorate.cli.demo.demo_stage import Stage
from quorate.cli.settings import Settings
from quorate.views.exits import CommandError, Exit

CHECKER: Final = "verify_lottery.py"
"""The program that verifies lotteries; in ``demo_files`` it is a link to the file in tools/."""
_FILES: Final = "demo_files"
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_SERVICE_NEEDS: Final = ("starlette", "uvicorn", "uvloop")


@contextmanager
def open_stage(settings: Settings, folder: str | None) -> Iterator[Stage]:
    """Create the folder and start the service; the service and its work end with the block.

    The service and its work also end after an error, Ctrl-C or a signal. The folder stays.
    """
    missing = [name for name in _SERVICE_NEEDS if find_spec(name) is None]
    if missing:
        raise CommandError(
            Exit.UNUSABLE,
            f"the demo starts a service, and {missing[0]} is not installed; install it with: "
            "pip install 'quorate[service]'",
        )
    place = Path(tempfile.mkdtemp(prefix="quorate-demo-")) if folder is None else _new(folder)
    place = place.resolve()
    _write_files(place)
    with _ended_by_signals(), chdir(place):
        service = Service(place, settings.environ)
        try:
            service.wait_ready()
            yield Stage(place, service, settings.environ)
        finally:
            # A second signal now would leave processes behind.
            for number in _SIGNALS:
                signal.signal(number, signal.SIG_IGN)
            service.clear()


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Turn signals that end the process into ``KeyboardInterrupt``, so that the demo cleans up."""

    def interrupt(number: int, frame: object) -> NoReturn:
        del number, frame
        raise KeyboardInterrupt

    before = {number: signal.getsignal(number) for number in _SIGNALS}
    for number in _SIGNALS:
        signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _write_files(place: Path) -> None:
    source = files("quorate.cli").joinpath(_FILES)
    for file in source.iterdir():
        if file.name.endswith((".yaml", ".py")):
            (place / file.name).write_text(file.read_text(encoding="utf-8"), encoding="utf-8")
    run = place / "pretrain.yaml"
    text = run.read_text(encoding="utf-8")
    run.write_text(
        text.replace("[python,", f"[{json.dumps(interpreter())},").replace(
            "workingDir: .", f"workingDir: {json.dumps(str(place))}"
        ),
        encoding="utf-8",
    )


def _new(folder: str) -> Path:
    try:
        Path(folder).mkdir()
    except FileExistsError:
        raise CommandError(
            Exit.REFUSED, f"{folder} exists already and was left alone; choose another folder"
        ) from None
    except OSError as error:
        raise CommandError(
            Exit.UNUSABLE, f"{folder} cannot be created: {error.strerror}; choose another folder"
        ) from None
    return Path(folder)
