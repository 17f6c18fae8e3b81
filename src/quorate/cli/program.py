"""The program ``quorate``, as a shell starts it: nothing is imported before the collector is slow.

A command that asks a service once allocates some 40,000 objects while its modules load, and drops
almost none of them. Looking through these again and again takes a twelfth of its time.
"""

from __future__ import annotations

import gc
from typing import Final

_YOUNG_MAX: Final = 50_000
"""After how many new objects a command looks for unreachable ones."""
_USUAL: Final = gc.get_threshold()


def run() -> None:
    """Run ``quorate`` as a program."""
    gc.set_threshold(_YOUNG_MAX, *_USUAL[1:])
    from quorate.cli.main import run as run_command

    run_command()


def collect_as_usual() -> None:
    """Have the collector look as often as it does in other programs: for one that serves others."""
    gc.set_threshold(*_USUAL)
