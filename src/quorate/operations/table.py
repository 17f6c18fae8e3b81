"""The table of all operations; docs/reference/operations.md is generated from it.

The CLI, REST, gRPC and the clients get their operations from this table, and a test checks that
each of them has every operation. A command needs only one operation, and importing all request
types would take longer than the command itself. So modules are imported one by one, until a module
has the requested operation.
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
    "quorate.operations.fleet.observe_operations",
)
"""The modules that have operations. The modules of the most frequent commands come first."""


class _Operations(Mapping[str, Operation]):
    """A mapping from name to operation, in the order of the modules."""

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
        """Import the module ``name``, if it is not imported yet. Two threads may do so at once."""
        if name not in self._read:
            module = import_module(name)
            self._found.update({each.name: each for each in module.OPERATIONS})
            self._read.add(name)


OPERATIONS: Final[Mapping[str, Operation]] = _Operations()
"""All operations, by name."""
