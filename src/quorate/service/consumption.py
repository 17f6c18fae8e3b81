"""What linked owners used, month by month, in amounts that an accounting system is told. Pure.

An amount is what the owner's own runs used since the beginning of the month, or since it was
linked, rounded down to hundredths of an hour: months never add up to more than was used, and each
leaves out less than a hundredth.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from quorate.answers.month import Month, month_of
from quorate.core.usage import UsageBooks
from quorate.model.amounts import DAY_MS, HOUR_MS
from quorate.model.events import BudgetFellBack, BudgetReported, Event, OwnerRemoved
from quorate.ports.accounting import Amount, Consumption
from quorate.service.waldur_links import LinkedOwner

MONTHS_BACK: Final = 2
"""How many months before this one are looked at again: what ended late is told late."""
WINDOW_DAYS: Final = 31 * (MONTHS_BACK + 1)
HUNDREDTH_MS: Final = HOUR_MS // 100


class Ledgering:
    """What the ledger says of linked owners: since when they are, and what they used."""

    def __init__(self) -> None:
        self._books = UsageBooks(window_ms=WINDOW_DAYS * DAY_MS)
        self._linked_ms: dict[str, int] = {}

    def fold(self, event: Event) -> None:
        """Enter ``event``, the next one of the ledger."""
        self._books.fold(event)
        match event:
            case BudgetReported() | BudgetFellBack(is_linked=True):
                self._linked_ms.setdefault(event.owner, event.at_ms)
            case BudgetFellBack() | OwnerRemoved():
                self._linked_ms.pop(event.owner, None)
            case _:
                pass

    def consumed(self, link: LinkedOwner, now_ms: int) -> Iterable[tuple[Month, Consumption]]:
        """Yield what was used in this month and in those before, as far as the owner was linked."""
        since_ms = self._linked_ms.get(link.owner)
        if since_ms is None:
            return
        for month in months_until(now_ms):
            from_ms, until_ms = max(month.from_ms, since_ms), min(month.until_ms, now_ms)
            if from_ms < until_ms:
                yield month, self._of(link, from_ms, until_ms)

    def _of(self, link: LinkedOwner, from_ms: int, until_ms: int) -> Consumption:
        used = self._books.owner(link.owner, from_ms=from_ms, until_ms=until_ms)
        told = ((link.gpu, used.gpu_ms), (link.node, used.node_ms))
        return Consumption(
            resource=link.resource,
            # The last instant of a month that is over: the next one is another month's.
            at_ms=until_ms - 1,
            amounts=tuple(Amount(name, ms // HUNDREDTH_MS) for name, ms in told if name),
            note=f"quorate: {link.owner}",
        )


def months_until(now_ms: int) -> list[Month]:
    """Return the months that are looked at, the first first."""
    found = [month_of(now_ms)]
    for _ in range(MONTHS_BACK):
        found.append(month_of(found[-1].from_ms - 1))
    return found[::-1]


def body_of(consumption: Consumption) -> bytes:
    """Return it as it is kept until it was delivered."""
    return msgspec.json.encode(consumption)


def read_body(body: bytes) -> Consumption:
    """Return what ``body_of`` has written."""
    return msgspec.json.decode(body, type=Consumption)
