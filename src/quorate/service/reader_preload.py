"""What every reader process needs, imported once by the server that forks them."""

from __future__ import annotations

from quorate.operations.operation import Effect
from quorate.operations.table import OPERATIONS

for _operation in OPERATIONS.values():
    if _operation.effect is Effect.READ:
        _operation.handle()
