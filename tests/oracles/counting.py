"""How often a function is called, for tests of what work is not done."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def counting(function: Callable[..., object]) -> Iterator[list[int]]:
    """Yield a list of one number: how often ``function`` was called in this thread."""
    calls, code = [0], function.__code__

    def note(frame: FrameType, event: str, argument: object) -> None:
        del argument
        calls[0] += event == "call" and frame.f_code is code

    sys.setprofile(note)
    try:
        yield calls
    finally:
        sys.setprofile(None)
