"""Words: the strings of a closed list that stand in documents, events and answers."""

from __future__ import annotations

from enum import StrEnum


class Word(StrEnum):
    """A ``StrEnum`` that hashes as the string it is, which is C rather than Python code.

    They are keys in the state's inner loops; a replay hashes millions of them.
    """

    __hash__ = str.__hash__
