"""Logs the nodes that an operator has to wipe after a claim, each once."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from quorate.ports.executor_port import Order, WipeNode

_LOG = logging.getLogger(__name__)


class WipeNotices:
    """Logs each ordered wipe once, although orders are repeated after a restart."""

    def __init__(self) -> None:
        self._logged: set[tuple[str, str]] = set()

    def take(self, orders: Iterable[Order]) -> None:
        """Log the wipes in ``orders`` that were not logged before."""
        for order in orders:
            if isinstance(order, WipeNode) and (order.node, order.claim) not in self._logged:
                self._logged.add((order.node, order.claim))
                _LOG.warning(
                    "wipe node %s after %s, then run: quorate node wiped %s --after %s",
                    *(order.node, order.claim, order.node, order.claim),
                )
