"""What became of orders, told to the metrics: blocks, failures, and refusals at the door."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter

from quorate.answers.exits import CommandError
from quorate.loop.engine import Engine
from quorate.ports.errors import StoreError
from quorate.service.metrics import Metrics


@dataclass(slots=True)
class Commands:
    """How many commands share the block that is being made."""

    count: int = 1


@contextmanager
def counted(metrics: Metrics, engine: Engine) -> Iterator[Commands]:
    """Count what is recorded, refused or lost in the block below, on the ledger's thread.

    Where everything is refused or repeats what was done, no block is made and none is counted.
    """
    before, began_s = engine.head, perf_counter()
    commands = Commands()
    try:
        yield commands
    except CommandError as error:
        metrics.refused(error.refusals)
        raise
    except StoreError:
        if engine.head == before:
            metrics.commit_failed()
        raise
    finally:
        if engine.head != before:
            metrics.committed(commands=commands.count, seconds=perf_counter() - began_s)
