"""Every operation as a method of each client, made from the table.

What they take and give is in ``methods.pyi``, made by ``python -m tools.client_methods``.
"""

from __future__ import annotations

from quorate.client.dispatch import add_methods
from quorate.operations.table import OPERATIONS


class Methods:
    """Asks a service for each of its operations, with the names of the table."""


class AsyncMethods:
    """Asks a service for each of its operations, from an event loop."""


add_methods(Methods, OPERATIONS.values(), is_async=False)
add_methods(AsyncMethods, OPERATIONS.values(), is_async=True)
