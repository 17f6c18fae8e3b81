"""Shares: how much of what is open at once may be one caller's, so that nobody has it all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from quorate.operations.caller import Caller, Role
from quorate.operations.statuses import TOO_MANY_REQUESTS, UNAVAILABLE
from quorate.service.problems import problem

OF_ONE_PART: Final = 4
"""Which part of what is under way at once may be one caller's: a fourth."""
KEPT_PART: Final = 20
"""Which part of it is kept for admins: a twentieth."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """Of at most ``most``, one caller has ``of_one_max``; ``kept`` are for admins alone.

    Admins are bound by ``most`` only: it is they who put things right when others have too much.
    ``what`` these are, in words.
    """

    most: int
    of_one_max: int
    kept: int
    what: str

    @classmethod
    def of_all(cls, most: int, what: str) -> Share:
        """Return the share of one caller in all that is under way at once."""
        of_one_max = max(1, most // OF_ONE_PART)
        return cls(most=most, of_one_max=of_one_max, kept=most // KEPT_PART, what=what)


class Shares:
    """Who has how much open; for the event loop only."""

    def __init__(self, share: Share) -> None:
        assert 0 <= share.kept < share.most, share
        self._share = share
        self._of_one: Counter[str] = Counter()
        self._open = 0

    @property
    def open(self) -> int:
        """How much is open."""
        return self._open

    @contextmanager
    def taken(self, caller: Caller) -> Iterator[None]:
        """Count one of ``caller`` while this is entered; raises ``CommandError`` beyond a share."""
        whose, share = caller.whose, self._share
        is_admin = caller.role is Role.ADMIN
        if not is_admin and self._of_one[whose] >= share.of_one_max:
            raise problem(
                TOO_MANY_REQUESTS,
                f"{share.of_one_max} {share.what} of yours are open; end one, or come back later",
            )
        if self._open >= share.most - (0 if is_admin else share.kept):
            raise problem(UNAVAILABLE, f"{self._open} {share.what} are open; come back later")
        self._open += 1
        self._of_one[whose] += 1
        try:
            yield
        finally:
            self._open -= 1
            self._of_one[whose] -= 1
            if not self._of_one[whose]:
                del self._of_one[whose]
