"""Finds the known name nearest to an unknown name, quickly among any number of known names."""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches
from itertools import islice
from typing import Final

CANDIDATES_MAX: Final = 200
"""How many names are compared letter by letter, at most."""
WORD_CHARS_MAX: Final = 100
"""The longest word that is compared; a longer word is not a typing error."""


def nearest_name(word: str, known: Collection[str]) -> str | None:
    """Return the name of ``known`` that is nearest to ``word``; None if no name is near.

    If ``known`` has more than ``CANDIDATES_MAX`` names, only names that begin like ``word`` are
    compared.
    """
    if len(word) > WORD_CHARS_MAX:
        return None
    near = get_close_matches(word, islice(_alike(word, known), CANDIDATES_MAX), n=1)
    return near[0] if near else None


def _alike(word: str, known: Collection[str]) -> Collection[str]:
    """Return all of ``known`` if they are few, else the names that begin like ``word``.

    Longer and longer beginnings of ``word`` are compared, until few names are left.
    """
    found = known
    for length in range(1, len(word) + 1):
        if len(found) <= CANDIDATES_MAX:
            break
        begun = [name for name in found if name.startswith(word[:length])]
        if not begun:
            return found if length > 1 else ()
        found = begun
    return found
