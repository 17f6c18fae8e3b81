"""The base of the enumerated strings of documents, events and responses; counts with nouns."""

from __future__ import annotations

from enum import StrEnum


class Word(StrEnum):
    """A ``StrEnum`` with the hash function of ``str``, which is C rather than Python code.

    These words are keys in the inner loops of the state, and a replay hashes them millions of
    times.
    """

    __hash__ = str.__hash__


def counted(count: int, noun: str) -> str:
    """Return ``count`` with its noun: ``1 GPU``, ``2 GPUs``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
