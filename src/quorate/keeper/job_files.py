"""Reads files that a job has written, without trusting the job.

The reader may be root, but the folder belongs to the job. A name in the folder may be a link to a
file of another user, or a pipe on which a reader would wait for ever.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

JOB_FILE_BYTES_MAX: Final = 64 * 1024
"""The default number of bytes to read from the end of a file."""
_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def read_job_file(folder: Path, *names: str, most: int = JOB_FILE_BYTES_MAX) -> bytes | None:
    """Return the last bytes of a regular file below ``folder`` that belongs to the folder's user.

    Return None if the file does not exist, if its name is a symbolic link, or if the file belongs
    to another user. Raises OSError for disk errors.
    """
    *folders, name = names
    try:
        at = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        owner = os.fstat(at).st_uid
        for each in folders:
            below = _open(each, at, os.O_DIRECTORY)
            if below is None:
                return None
            os.close(at)
            at = below
        file = _open(name, at)
    finally:
        os.close(at)
    if file is None:
        return None
    try:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != owner:
            return None
        return os.pread(file, most, max(0, found.st_size - most))
    finally:
        os.close(file)


def _open(name: str, at: int, more: int = 0) -> int | None:
    try:
        return os.open(name, _FLAGS | more, dir_fd=at)
    except OSError:
        return None  # The name is missing, or is not a regular file that this process can open.
