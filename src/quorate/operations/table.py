"""The table of operations: all there are. docs/reference/operations.md is made of it.

CLI, REST, gRPC and clients are registered from here; a test checks that none is missing anywhere. A
command needs one operation, and making the requests of all of them takes longer than that command
has, so modules are imported in turn until one has the operation that is looked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Final

from quorate.operations.operation import Operation

_MODULES: Final = (
    "quorate.operations.resources.resource_operations",
    "quorate.operations.resources.run_operations",
    "quorate.operations.resources.tenant_operations",
    "quorate.operations.fleet.fleet_operations",
    "quorate.operations.money.money_operations",
    "quorate.operations.ledger.plan_operations",
    "quorate.operations.ledger.ledger_operations",
    "quorate.operations.notices.notice_operations",
    "quorate.operations.service.service_operations",
    "quorate.operations.service.quorum_operations",
    "quorate.operations.service.report_operations",
    "quorate.operations.fleet.looking_operations",
)
"""The modules that have operations, those of the most frequent commands first."""


class _Operations(Mapping[str, Operation]):
    """Name -> operation, in the order of the modules."""

    def __init__(self) -> None:
        self._found: dict[str, Operation] = {}
        self._read: set[str] = set()

    def __getitem__(self, name: str) -> Operation:
        for module in _MODULES:
            if name in self._found:
                break
            self._read_on(module)
        return self._found[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._whole())

    def __len__(self) -> int:
        return len(self._whole())

    def _whole(self) -> dict[str, Operation]:
        for module in _MODULES:
            self._read_on(module)
        return self._found

    def _read_on(self, name: str) -> None:
        """Read a module, if it was not read; two threads that do so find the same."""
        if name not in self._read:
            module = import_module(name)
            self._found.update({each.name: each for each in module.OPERATIONS})
            self._read.add(name)


OPERATIONS: Final[Mapping[str, Operation]] = _Operations()
"""Name -> operation."""
