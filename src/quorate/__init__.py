"""Quorate: a GPU-fleet scheduler and quota system.

Work is paid for before it is placed, every decision is an event in a hash-chained ledger, and
everything else is derived from the ledger.

``Client`` and ``AsyncClient`` send requests to a service; they are imported when first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from quorate.client.async_client import AsyncClient, AsyncRunHandle
    from quorate.client.client import Client, RunHandle
    from quorate.client.errors import QuorateClientError
    from quorate.client.resources.any_resource import Resource, ResourceList
    from quorate.client.resources.run_resources import RunInfo
    from quorate.version import __version__

__all__ = [
    "AsyncClient",
    "AsyncRunHandle",
    "Client",
    "QuorateClientError",
    "Resource",
    "ResourceList",
    "RunHandle",
    "RunInfo",
    "__version__",
]

_LATE = {
    "AsyncClient": "quorate.client.async_client",
    "AsyncRunHandle": "quorate.client.async_client",
    "Client": "quorate.client.client",
    "QuorateClientError": "quorate.client.errors",
    "Resource": "quorate.client.resources.any_resource",
    "ResourceList": "quorate.client.resources.any_resource",
    "RunHandle": "quorate.client.client",
    "RunInfo": "quorate.client.resources.run_resources",
    "__version__": "quorate.version",
}
"""Name -> the module that defines it."""


def __getattr__(name: str) -> Any:
    """Return a name that is imported on first use, so that ``import quorate`` stays fast."""
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_LATE[name]), name)


def __dir__() -> list[str]:
    """Return the public names."""
    return sorted(__all__)
