"""Short pauses of the garbage collector in a process that keeps a large state.

The collector of cycles walks every object that lives, and stops all threads meanwhile: 100 ms for
the state of 10,000 nodes and their runs, every few seconds under load. Once such a walk takes
long, what it has found alive is excluded from the walks that follow. The state has no cycles, so
the parts that are replaced later are freed as before, without the collector. What is lost is the
memory of cycles that were in use at that moment and have ended since; a walk that takes long is
needed for each such loss, so that they stay few.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from time import perf_counter
from typing import Any, Final

LONG_S: Final = 0.02
"""A walk that takes longer is not repeated over the same objects."""
_OLDEST: Final = 2


@contextmanager
def short_pauses(
    now_s: Callable[[], float] = perf_counter, freeze: Callable[[], None] = gc.freeze
) -> Iterator[None]:
    """Exclude what lives from further walks after each that took long; for a whole process."""
    began_s = now_s()

    def walked(phase: str, info: Mapping[str, Any]) -> None:
        nonlocal began_s
        if phase == "start":
            began_s = now_s()
        elif info["generation"] == _OLDEST and now_s() - began_s > LONG_S:
            freeze()

    gc.callbacks.append(walked)
    try:
        yield
    finally:
        gc.callbacks.remove(walked)
