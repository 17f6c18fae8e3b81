"""Shortens the pauses of the garbage collector in a process with a large state.

A collection visits every live object, and stops all threads meanwhile. For the state of 10,000
nodes and their runs, a collection takes 100 ms, every few seconds under load. After a long
collection, the objects that were found alive are excluded from later collections. The state has no
reference cycles, so reference counting still frees the parts of the state that are replaced later.
But other objects that are in a reference cycle, and are in use during the long collection, are
never freed. Long collections are rare, so the lost memory stays small.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from time import perf_counter
from typing import Any, Final

LONG_S: Final = 0.02
"""A collection counts as long if it takes more than ``LONG_S`` seconds.

Later collections skip the objects that a long collection found alive.
"""
_OLDEST: Final = 2


@contextmanager
def short_pauses(
    now_s: Callable[[], float] = perf_counter, freeze: Callable[[], None] = gc.freeze
) -> Iterator[None]:
    """After each long collection in this process, exclude live objects from later collections."""
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
