"""Counts the calls of a function, for tests that show that work is avoided."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def counting(function: Callable[..., object]) -> Iterator[list[int]]:
    """Yield a list with one number: how often this thread has called ``function`` so far."""
    calls, code = [0], function.__code__

    def note(frame: FrameType, event: str, argument: object) -> None:
        del argument
        calls[0] += event == "call" and frame.f_code is code

    sys.setprofile(note)
    try:
        yield calls
    finally:
        sys.setprofile(None)
