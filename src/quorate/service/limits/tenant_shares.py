"""Shares: how much of what is open at once may be one tenant's, and one user's of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from quorate.operations.caller import Caller, Role
from quorate.service.problem_json import problem
from quorate.views.statuses import TOO_MANY_REQUESTS, UNAVAILABLE

OF_TENANT_PART: Final = 2
"""Which part of what is open at once may be one tenant's, however many tokens it has: half."""
OF_ONE_PART: Final = 4
"""Which part of it may be one caller's: a fourth."""
KEPT_PART: Final = 20
"""Which part of it is kept for admins: a twentieth."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """``most`` may be open at once, ``of_tenant_max`` of one tenant, ``of_one_max`` of one caller.

    ``kept`` of them are for admins alone, whom only ``most`` binds: admins put things right when
    others have too much open. ``what`` says in words what is counted.
    """

    most: int
    of_tenant_max: int
    of_one_max: int
    kept: int
    what: str

    @classmethod
    def of_all(cls, most: int, what: str) -> Share:
        """Return the usual shares in ``most``."""
        return cls(
            most=most,
            of_tenant_max=max(1, most // OF_TENANT_PART),
            of_one_max=max(1, most // OF_ONE_PART),
            kept=most // KEPT_PART,
            what=what,
        )


class Shares:
    """How much each tenant and each caller has open; for one thread at a time.

    ``share`` may be replaced: what is open stays open, and counts against the new one.
    """

    def __init__(self, share: Share) -> None:
        assert 0 <= share.kept < share.most, share
        self.share = share
        self._of_one: Counter[str] = Counter()
        self._of_tenant: Counter[str] = Counter()
        self._open = 0

    @property
    def open(self) -> int:
        """How much is open."""
        return self._open

    def open_of(self, tenant: str) -> int:
        """Return how much ``tenant`` has open."""
        return self._of_tenant[tenant]

    @property
    def most_of_tenant(self) -> int:
        """How much the tenant has open that has most."""
        return max(self._of_tenant.values(), default=0)

    @property
    def trouble(self) -> str:
        """Why callers other than admins get nothing more; empty while they do."""
        if self._open < self.share.most - self.share.kept:
            return ""
        return f"{self._open} {self.share.what} are open, of {self.share.most} at most"

    @contextmanager
    def taken(self, caller: Caller, amount: int = 1) -> Iterator[None]:
        """Count ``amount`` of ``caller`` while this is entered; raises as ``take`` does."""
        self.take(caller, amount)
        try:
            yield
        finally:
            self.give_back(caller, amount)

    def take(self, caller: Caller | None, amount: int = 1) -> None:
        """Count ``amount`` of ``caller``; raises ``CommandError`` beyond a share.

        Without a caller the amount is the service's own, which is bound as an admin's is.
        """
        self.check(caller, amount)
        self.count(caller, amount)

    def count(self, caller: Caller | None, amount: int = 1) -> None:
        """Count ``amount`` of ``caller``, also beyond a share."""
        self._open += amount
        if caller is not None:
            self._of_one[caller.whose] += amount
            self._of_tenant[caller.tenant] += amount

    def give_back(self, caller: Caller | None, amount: int = 1) -> None:
        """Stop counting ``amount`` of ``caller``, which was taken before."""
        self._open -= amount
        if caller is None:
            return
        for counts, key in ((self._of_one, caller.whose), (self._of_tenant, caller.tenant)):
            counts[key] -= amount
            if not counts[key]:
                del counts[key]

    def check(self, caller: Caller | None, amount: int = 1) -> None:
        """Raise ``CommandError`` if ``amount`` more of ``caller`` is beyond a share."""
        share = self.share
        is_bound = caller is not None and caller.role is not Role.ADMIN
        if caller is not None and is_bound:
            if self._of_one[caller.whose] + amount > share.of_one_max:
                raise problem(
                    TOO_MANY_REQUESTS,
                    f"{share.of_one_max} {share.what} of yours may be open at once; end one, or "
                    "come back later",
                )
            # Callers without a tenant do not share anything.
            if caller.tenant and self._of_tenant[caller.tenant] + amount > share.of_tenant_max:
                raise problem(
                    TOO_MANY_REQUESTS,
                    f"{share.of_tenant_max} {share.what} of {caller.tenant} may be open at once; "
                    "end one, or come back later",
                )
        if self._open + amount > share.most - (share.kept if is_bound else 0):
            raise problem(UNAVAILABLE, f"{self._open} {share.what} are open; come back later")
