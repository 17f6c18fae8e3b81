"""The monthly usage of linked owners, as amounts for an accounting system (pure code).

Each hour of an owner's own runs is reported for the resource that the owner was linked to at that
time. Hours without a link are reported for no resource. An amount is the usage of a resource in a
month, rounded down to hundredths of an hour. So the amounts of all months never add up to more than
the usage, and each amount is less than a hundredth of an hour too low. No amount shrinks when an
owner is unlinked or linked to another resource.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from quorate.core.accounting.usage_books import UsageBooks
from quorate.model.amounts import DAY_MS, HOUR_MS
from quorate.model.events import BudgetFellBack, BudgetReported, Event, OwnerRemoved
from quorate.ports.accounting_port import Amount, Consumption
from quorate.prepared_types import prepared
from quorate.service.accounting.waldur_links import LinkedOwner
from quorate.views.month import Month, month_of

MONTHS_BACK: Final = 2
"""How many earlier months are computed again, because a late event may change their usage."""
WINDOW_DAYS: Final = 31 * (MONTHS_BACK + 1)
HUNDREDTH_MS: Final = HOUR_MS // 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """A period in which an owner is linked to a resource; an open period has no ``until_ms``."""

    resource: str
    from_ms: int
    until_ms: int | None = None


class Ledgering:
    """The resources of linked owners over time, and the resources' usage, computed from events."""

    def __init__(self) -> None:
        self._books = UsageBooks(window_ms=WINDOW_DAYS * DAY_MS)
        self._stretches: defaultdict[str, list[Stretch]] = defaultdict(list)

    def fold(self, event: Event) -> None:
        """Apply ``event``, the next event of the ledger."""
        self._books.fold(event)
        match event:
            case BudgetReported() | BudgetFellBack(is_linked=True):
                self._link(event.owner, event.resource, event.at_ms)
            case BudgetFellBack() | OwnerRemoved():
                self._unlink(event.owner, event.at_ms)
            case _:
                pass

    def consumed(
        self, links: Sequence[LinkedOwner], now_ms: int
    ) -> Iterator[tuple[LinkedOwner, Month, Consumption]]:
        """Yield (link, month, usage) of each resource, for this month and earlier months.

        Includes former resources of the owners in ``links``, because the usage of a former resource
        may not have been reported yet. Reports for former resources use the present component
        names.
        """
        for link in (*links, *self._former(links)):
            for month in months_until(now_ms):
                until_ms = min(month.until_ms, now_ms)
                parts = list(self._parts(link.resource, month.from_ms, until_ms))
                if parts:
                    yield link, month, self._of(link, parts, until_ms)

    def _link(self, owner: str, resource: str, at_ms: int) -> None:
        mine = self._stretches[owner]
        if resource:
            # Older events name no resource; they concern the first resource that later events name.
            mine[:] = [each if each.resource else replace(each, resource=resource) for each in mine]
        if mine and mine[-1].until_ms is None:
            if mine[-1].resource == resource:
                return
            self._unlink(owner, at_ms)
        mine.append(Stretch(resource=resource, from_ms=at_ms))

    def _unlink(self, owner: str, at_ms: int) -> None:
        mine = self._stretches[owner]
        if mine and mine[-1].until_ms is None:
            mine[-1] = replace(mine[-1], until_ms=at_ms)
        oldest_ms = at_ms - WINDOW_DAYS * DAY_MS
        mine[:] = [each for each in mine if each.until_ms is None or each.until_ms > oldest_ms]

    def _former(self, links: Sequence[LinkedOwner]) -> list[LinkedOwner]:
        """Return a link for each former resource of owners in ``links`` that has no owner now."""
        found: dict[str, LinkedOwner] = {}
        for link in links:
            for each in self._stretches[link.owner]:
                if each.resource:
                    found.setdefault(each.resource, replace(link, resource=each.resource))
        return [link for name, link in found.items() if name not in {one.resource for one in links}]

    def _parts(self, resource: str, from_ms: int, until_ms: int) -> Iterator[tuple[str, int, int]]:
        """Yield (owner, from, until): when owners were linked to ``resource`` in the given time."""
        for owner, stretches in self._stretches.items():
            for each in stretches:
                end_ms = until_ms if each.until_ms is None else min(each.until_ms, until_ms)
                if each.resource == resource and max(each.from_ms, from_ms) < end_ms:
                    yield owner, max(each.from_ms, from_ms), end_ms

    def _of(
        self, link: LinkedOwner, parts: Sequence[tuple[str, int, int]], until_ms: int
    ) -> Consumption:
        used = [
            self._books.owner(owner, from_ms=begin_ms, until_ms=end_ms)
            for owner, begin_ms, end_ms in parts
        ]
        gpu_ms, node_ms = sum(each.gpu_ms for each in used), sum(each.node_ms for each in used)
        told = ((link.gpu, gpu_ms), (link.node, node_ms))
        return Consumption(
            resource=link.resource,
            # The last instant of the period; the next instant may belong to another month.
            at_ms=until_ms - 1,
            amounts=tuple(Amount(name, ms // HUNDREDTH_MS) for name, ms in told if name),
            note=f"quorate: {link.owner}",
        )


def months_until(now_ms: int) -> list[Month]:
    """Return the months whose use is reported, oldest first."""
    found = [month_of(now_ms)]
    for _ in range(MONTHS_BACK):
        found.append(month_of(found[-1].from_ms - 1))
    return found[::-1]


def body_of(consumption: Consumption) -> bytes:
    """Return ``consumption`` as bytes for a parcel."""
    return msgspec.json.encode(consumption)


def read_body(body: bytes) -> Consumption:
    """Return the consumption that ``body_of`` encoded."""
    return msgspec.json.decode(body, type=prepared(Consumption))
