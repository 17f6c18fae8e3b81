"""A bug that is planted into a service, so that a test can see whether its checks find it."""

from __future__ import annotations

from typing import Final

from quorate.adapters.stores.etcd_append import EtcdAppender
from quorate.ledger.chain import Block, Head
from tests.service.program import CLI
from tests.tidy.tree import ROOT

CODE_EARLY_ANSWER: Final = (
    f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
    f"from tests.etcd.planted_service import plant; plant()\n{CLI}"
)
"""What starts a service that acknowledges before it commits."""
_FIRST: Final = 20
"""So many blocks are written at once: the token and the fleet of the test are in them."""
_append: Final = EtcdAppender.append
_kept: Final[list[tuple[Block, Head]]] = []


def plant() -> None:
    """Have this process acknowledge a block before it is written."""
    EtcdAppender.append = _append_later  # type: ignore[assignment, method-assign]


def _append_later(appender: EtcdAppender, block: Block, expected: Head) -> None:
    """Acknowledge a block, and write it when the next one comes; the first ones, at once."""
    _kept.append((block, expected))
    if len(_kept) > 1 or block.height <= _FIRST:
        _append(appender, *_kept.pop(0))
