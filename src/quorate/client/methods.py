"""The base classes of the clients, with a method for each operation of the table of operations.

Their types are in ``methods.pyi``, which ``python -m tools.client_methods`` writes.
"""

from __future__ import annotations

from quorate.client.dispatch import add_methods
from quorate.operations.table import OPERATIONS


class Methods:
    """Blocking methods, one for each operation."""


class AsyncMethods:
    """Asyncio methods, one for each operation."""


add_methods(Methods, OPERATIONS.values(), is_async=False)
add_methods(AsyncMethods, OPERATIONS.values(), is_async=True)
