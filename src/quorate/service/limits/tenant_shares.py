"""Shares: how many of the open requests or streams one tenant, and one user, may have."""

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
"""One tenant may have 1/OF_TENANT_PART of the limit, however many tokens it has."""
OF_ONE_PART: Final = 4
"""One caller may have 1/OF_ONE_PART of the limit."""
KEPT_PART: Final = 20
"""1/KEPT_PART of the limit is reserved for admins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """Limits: ``most`` for all, ``of_tenant_max`` for one tenant, ``of_one_max`` for one caller.

    Admins must be able to act when other callers have reached their limits. So ``kept`` of the
    ``most`` objects are reserved for admins, and the other two limits do not apply to admins.
    ``what`` is the word for these objects in messages.
    """

    most: int
    of_tenant_max: int
    of_one_max: int
    kept: int
    what: str

    @classmethod
    def of_all(cls, most: int, what: str) -> Share:
        """Return the usual limits of callers if all together may have ``most`` objects."""
        return cls(
            most=most,
            of_tenant_max=max(1, most // OF_TENANT_PART),
            of_one_max=max(1, most // OF_ONE_PART),
            kept=most // KEPT_PART,
            what=what,
        )


class Shares:
    """How many requests or streams each tenant and caller has open; for one thread at a time.

    ``share`` may be replaced: open objects stay open, and count against the new share.
    """

    def __init__(self, share: Share) -> None:
        assert 0 <= share.kept < share.most, share
        self.share = share
        self._of_one: Counter[str] = Counter()
        self._of_tenant: Counter[str] = Counter()
        self._open = 0

    @property
    def open(self) -> int:
        """The number of open objects."""
        return self._open

    def open_of(self, tenant: str) -> int:
        """Return the number of open objects of ``tenant``."""
        return self._of_tenant[tenant]

    @property
    def most_of_tenant(self) -> int:
        """The number of open objects of the tenant that has most objects; 0 if none is open."""
        return max(self._of_tenant.values(), default=0)

    @property
    def trouble(self) -> str:
        """Why callers other than admins are refused; empty while they are admitted."""
        if self._open < self.share.most - self.share.kept:
            return ""
        return f"{self._open} {self.share.what} are open, the limit is {self.share.most}"

    @contextmanager
    def taken(self, caller: Caller, amount: int = 1) -> Iterator[None]:
        """Count ``amount`` for ``caller`` in the ``with`` block; raises like ``take``."""
        self.take(caller, amount)
        try:
            yield
        finally:
            self.give_back(caller, amount)

    def take(self, caller: Caller | None, amount: int = 1) -> None:
        """Count ``amount`` for ``caller``; raises ``CommandError`` above its share.

        If ``caller`` is None, the service itself uses the amount, and only the limit for all
        applies.
        """
        self.check(caller, amount)
        self.count(caller, amount)

    def count(self, caller: Caller | None, amount: int = 1) -> None:
        """Count ``amount`` for ``caller`` without checking its share."""
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
        """Raise ``CommandError`` if a limit does not let ``caller`` have ``amount`` more."""
        share = self.share
        is_bound = caller is not None and caller.role is not Role.ADMIN
        if caller is not None and is_bound:
            if self._of_one[caller.whose] + amount > share.of_one_max:
                raise problem(
                    TOO_MANY_REQUESTS,
                    f"you may have {share.of_one_max} {share.what} open at once; end one, or try "
                    f"again later",
                )
            # Callers without a tenant have no common limit.
            if caller.tenant and self._of_tenant[caller.tenant] + amount > share.of_tenant_max:
                raise problem(
                    TOO_MANY_REQUESTS,
                    f"tenant {caller.tenant} may have {share.of_tenant_max} {share.what} open at "
                    f"once; end one, or try again later",
                )
        if self._open + amount > share.most - (share.kept if is_bound else 0):
            raise problem(
                UNAVAILABLE,
                f"{self._open} {share.what} are open, which is the limit; try again later",
            )
