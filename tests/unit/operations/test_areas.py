"""Each operation is in one module group: its request, its answer, and its handler."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from quorate.operations.operation import Operation
from quorate.operations.table import OPERATIONS

SHARED = "quorate.operations.common_"
OF_OPERATIONS = "quorate.operations."


def _modules(kind: Any) -> set[str]:
    """Return the modules of operations with the types of a request or an answer."""
    found = {each for part in get_args(kind) for each in _modules(part)}
    module = getattr(kind, "__module__", "")
    return found | ({module} if module.startswith(OF_OPERATIONS) else set())


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=lambda each: each.name)
def test_request_answer_and_handler_are_of_one_area(operation: Operation) -> None:
    declared = {
        module
        for module in _modules(operation.takes) | _modules(operation.gives)
        if not module.startswith(SHARED)
    }
    assert len(declared) <= 1, "one file declares what is asked and what is given"
    area = operation.handler.partition(":")[0].rpartition(".")[0]
    assert all(
        module.startswith(f"{area}.") and module.endswith("_operations") for module in declared
    )
