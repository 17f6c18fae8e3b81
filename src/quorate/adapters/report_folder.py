"""The reports in a folder: its plain ``.html`` files, but no symbolic links."""

from __future__ import annotations

import errno
import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from quorate.ports.report_port import ReportFile

REPORTS_MAX: Final = 500
"""The most reports that are listed, newest first."""
REPORT_BYTES_MAX: Final = 16 * 1024 * 1024
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,120}\.html")
_NS_PER_MS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class ReportFolder:
    """Reads reports from the folder ``path``. Files above the size limit are left out."""

    path: str

    def listed(self) -> list[ReportFile]:
        """Return the reports, newest first; raises ``OSError`` if the folder does not exist."""
        found = []
        with os.scandir(self.path) as entries:
            for entry in entries:
                if _NAME.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
                    told = _file(entry.name, entry.stat(follow_symlinks=False))
                    if told.size_bytes <= REPORT_BYTES_MAX:
                        found.append(told)
        found.sort(key=lambda each: (-each.written_ms, each.name))
        return found[:REPORTS_MAX]

    def read(self, name: str) -> tuple[ReportFile, str] | None:
        """Return the report called ``name`` as text; None if there is no such report."""
        if not _NAME.fullmatch(name):
            return None
        try:
            fd = os.open(Path(self.path) / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno == errno.ELOOP:
                return None
            raise
        found = os.fstat(fd)
        told = _file(name, found)
        if not stat.S_ISREG(found.st_mode) or told.size_bytes > REPORT_BYTES_MAX:
            os.close(fd)
            return None
        with os.fdopen(fd, "rb") as file:
            return told, file.read(REPORT_BYTES_MAX).decode("utf-8", "replace")


def _file(name: str, found: os.stat_result) -> ReportFile:
    return ReportFile(
        name=name, size_bytes=found.st_size, written_ms=found.st_mtime_ns // _NS_PER_MS
    )
