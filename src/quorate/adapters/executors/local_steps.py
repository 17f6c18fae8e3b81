"""The steps that runs on this machine report: the last one that the first rank has written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from quorate.keeper.job_files import read_job_file
from quorate.runtime import STEPS

STEP_MAX: Final = 2**53
"""A larger number is no step: no run does so many."""
_TAIL_BYTES: Final = 8_192
"""How much of the end of a record is read; a line is far shorter."""


def last_step(folder: Path) -> int | None:
    """Return the last step that the run of ``folder`` has reported; None where it never did.

    A line that is being written, or that another program wrote, is ignored.
    """
    for name in ("rank-0.jsonl", "rank-0.old.jsonl"):
        for line in reversed(_tail(folder, name)):
            step = _step(line)
            if step is not None:
                return step
    return None


def _tail(folder: Path, name: str) -> list[bytes]:
    try:
        found = read_job_file(folder, STEPS, name, most=_TAIL_BYTES)
    except OSError:
        found = None  # The disk does not return it: no step.
    return [] if found is None else found.splitlines()


def _step(line: bytes) -> int | None:
    try:
        found = json.loads(line)
    except ValueError:
        return None
    step = found.get("step") if isinstance(found, dict) else None
    if not isinstance(step, int) or isinstance(step, bool):
        return None
    return step if 0 <= step <= STEP_MAX else None
