"""Errors of processes that could not be started, each with its cause and its remedy."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from quorate.keeper.wanted import Work

CODE_NOT_FOUND: Final = 127
CODE_NOT_STARTED: Final = 126
"""Exit codes as in shells: 127 if a command does not exist, 126 if a command cannot be run."""
FIRST_LINE_BYTES_MAX: Final = 256
_NO_ROOM: Final = frozenset({errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE})


class StartError(Exception):
    """A process could not be started; the error's text names the cause and the remedy."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


def check_folder(folder: str) -> None:
    """Raise ``StartError`` if no process can start in ``folder``."""
    try:
        mode = os.stat(folder).st_mode  # noqa: PTH116 - the text as it was given
    except (FileNotFoundError, NotADirectoryError):
        what = "does not exist; create it, or name another folder"
    except (OSError, ValueError) as error:
        why = error_words(error)
        what = f"cannot be entered: {why}; let the service's user in, or name another one"
    else:
        if not stat.S_ISDIR(mode):
            what = "is not a folder; name a folder"
        elif not os.access(folder, os.X_OK):
            what = "may not be entered by the service's user; let the user in, or name another one"
        else:
            return
    raise StartError(CODE_NOT_STARTED, f"workingDir {folder!r} {what}")


def start_error(
    error: OSError | ValueError, work: Work, env: Mapping[str, str], account: str = ""
) -> StartError:
    """Return ``error`` as a message for the author of the command.

    ``account`` is the system user that the process had become. If ``account`` is given, the
    command's file is not read, because this process might read a file that the system user must not
    read.
    """
    command = f"command {work.command[0]!r}"
    if isinstance(error, FileNotFoundError):
        if account:
            remedy = (
                "give the program's whole path, or a PATH in env; or correct its first line, "
                "if that line begins with #!"
            )
            return StartError(CODE_NOT_FOUND, f"{command} was not found; {remedy}")
        interpreter = _interpreter(work, env)
        if interpreter is None:
            remedy = "give the program's whole path, or a PATH in env"
            return StartError(CODE_NOT_FOUND, f"{command} was not found; {remedy}")
        return StartError(
            CODE_NOT_FOUND,
            f"{command} begins with #!{interpreter}, which was not found; correct that line, "
            "or name the interpreter in the command",
        )
    if isinstance(error, PermissionError) and account:
        what = (
            f"may not be run by the run's system user, {account}; let the user read and run the "
            "file and pass the folders above it, or name another command"
        )
    elif isinstance(error, PermissionError):
        what = "may not be run; make it executable (chmod +x), or put its interpreter before it"
    elif not isinstance(error, OSError):
        what = (
            f"or its env cannot be given to a process: {error}; leave that argument or variable out"
        )
    elif error.errno == errno.ENOEXEC:
        what = "is no program: let it begin with a line such as #!/bin/sh, or name its interpreter"
    elif error.errno in _NO_ROOM:
        what = (
            f"was not started: the machine has no resources left ({error_words(error)}); "
            "run less there, or raise the limits of the service's user"
        )
    else:
        what = f"cannot be run: {error_words(error)}"
    return StartError(CODE_NOT_STARTED, f"{command} {what}")


def _interpreter(work: Work, env: Mapping[str, str]) -> str | None:
    """Return the interpreter in the first line of the command's file; None if it names none."""
    name = work.command[0]
    found = str(Path(work.working_dir) / name) if "/" in name else None
    path = found or shutil.which(name, path=env.get("PATH"))
    try:
        with open(path or "", "rb") as file:  # noqa: PTH123 - there may be no path
            first = file.readline(FIRST_LINE_BYTES_MAX)
    except OSError:
        return None
    if not first.startswith(b"#!"):
        return None
    return (first[2:].decode(errors="replace").split() or [""])[0]


def error_words(error: OSError | ValueError) -> str:
    """Return the operating system's text for ``error``, in lower case."""
    found = error.strerror if isinstance(error, OSError) else None
    return (found or str(error)).lower()
