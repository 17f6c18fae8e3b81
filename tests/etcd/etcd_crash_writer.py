"""The process that ``test_etcd_crash.py`` kills: it appends to a ledger in etcd and says so.

    python etcd_crash_writer.py URL

Lines: ``C height hash`` before a block is sent, ``A height hash`` when ``append`` has returned.
"""

from __future__ import annotations

import os
import sys

from quorate.adapters.stores.store_urls import open_store
from quorate.ledger.chain import Block, seal
from tests.contract.crash_writer import events_of


def tell(mark: str, block: Block) -> None:
    os.write(1, f"{mark} {block.height} {block.hash.hex()}\n".encode())


def main(url: str) -> None:
    with open_store(url) as store:
        head = store.head()
        while True:
            block = seal(head, events_of(head))
            tell("C", block)
            store.append(block, expected=head)
            tell("A", block)
            head = block.head


if __name__ == "__main__":
    main(*sys.argv[1:])
