"""Words: the strings of a closed list that stand in documents, events and answers; and counts."""

from __future__ import annotations

from enum import StrEnum


class Word(StrEnum):
    """A ``StrEnum`` that hashes as the string it is, which is C rather than Python code.

    They are keys in the state's inner loops; a replay hashes millions of them.
    """

    __hash__ = str.__hash__


def counted(count: int, noun: str) -> str:
    """Return ``count`` with its noun, which is plural unless it is one: ``1 GPU``, ``2 GPUs``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
