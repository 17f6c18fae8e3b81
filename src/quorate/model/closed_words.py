"""The base class of enumerated strings in documents, events and responses; counts with nouns."""

from __future__ import annotations

from enum import StrEnum


class Word(StrEnum):
    """A ``StrEnum`` with the hash function of ``str``, which is fast because it is written in C.

    These words are keys in the inner loops of the state, and a replay hashes them millions of
    times.
    """

    __hash__ = str.__hash__


def counted(count: int, noun: str) -> str:
    """Return ``count`` with its noun: ``1 GPU``, ``2 GPUs``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
