"""Short pauses of the garbage collector in a process with a large state."""

from __future__ import annotations

import gc
import weakref

import pytest

from quorate.service.collector_pauses import LONG_S, short_pauses


class Clock:
    """Returns the next of some instants, and the last one for ever."""

    def __init__(self, *seconds: float) -> None:
        self._seconds = list(seconds)

    def __call__(self) -> float:
        return self._seconds.pop(0) if len(self._seconds) > 1 else self._seconds[0]


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("generation", "seconds", "is_frozen"),
    [(2, 2 * LONG_S, True), (2, LONG_S / 2, False), (1, 2 * LONG_S, False), (0, 1.0, False)],
)
def test_only_a_long_walk_over_everything_is_not_repeated(
    generation: int, seconds: float, *, is_frozen: bool
) -> None:
    frozen: list[bool] = []
    gc.disable()
    try:
        with short_pauses(Clock(0.0, 1.0, 1.0 + seconds), lambda: frozen.append(True)):
            gc.collect(generation)
        gc.collect()
    finally:
        gc.enable()
    assert bool(frozen) is is_frozen


class Node:
    """An object that refers to another one."""

    other: Node | None = None


@pytest.mark.heavy
def test_what_was_frozen_is_freed_once_it_is_replaced_and_new_cycles_are_found() -> None:
    kept = {"a": Node()}
    old = weakref.ref(kept["a"])
    gc.disable()
    try:
        with short_pauses(Clock(0.0, 0.0, 1.0)):
            gc.collect()
        assert gc.get_freeze_count() > 0
        kept["a"] = Node()
        assert old() is None
        cycle = Node()
        cycle.other = cycle
        new = weakref.ref(cycle)
        del cycle
        gc.collect()
        assert new() is None
    finally:
        # As in tests/conftest.py: objects that all tests share are not visited again.
        gc.unfreeze()
        gc.freeze()
        gc.enable()
