"""The links of the OpenAPI document: requests that may follow a response."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from quorate.operations.operation import Operation
from quorate.operations.table import OPERATIONS
from quorate.service.http.table_paths import names_of, places

_CHANGED: Final = "$response.body#/changes/0/name"
_FIRST: Final = "$response.body#/items/0/metadata/name"
_ON_RUNS: Final = (
    "get-run",
    "describe-run",
    "plan-run",
    "explain-run",
    "run-logs",
    "shrink-run",
    "cancel-run",
    "complete-run",
    "fail-run",
)
_FOLLOWS: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "submit-run": (_CHANGED, _ON_RUNS),
    "submit-runs": (_CHANGED, _ON_RUNS),
    "list-queue": (_FIRST, _ON_RUNS),
    "claim-nodes": (_CHANGED, ("get-claim", "describe-claim", "release-claim")),
    "create-tenant": (
        _CHANGED,
        ("get-tenant", "describe-tenant", "update-tenant", "delete-tenant", "tenant-usage"),
    ),
    "issue-token": ("$response.body#/token/id", ("revoke-token",)),
}
"""Operation -> where its answer has an object's name, and the operations that take that name."""


@cache
def links_of(operation: Operation) -> dict[str, dict[str, Any]]:
    """Return the links of an answer to ``operation``, by the names of the linked operations."""
    name, followers = _FOLLOWS.get(operation.name, ("", ()))
    if operation.name.startswith("list-") and not followers:
        name, followers = _FIRST, tuple(_on(operation.about))
    if operation.name.startswith(("put-", "patch-")) and names_of(operation.path):
        name, followers = "$request.path.name", (f"get-{operation.about}",)
    return {
        OPERATIONS[each].function_name: {
            "operationId": OPERATIONS[each].function_name,
            "parameters": {_part(each): name},
        }
        for each in followers
    }


def _on(kind: str) -> list[str]:
    """Return the operations on one object of a kind that need its name and nothing else."""
    about = "" if not kind else OPERATIONS[f"get-{kind}"].path.partition("{")[0]
    return [
        each.name
        for each in OPERATIONS.values()
        if about and each.path.startswith(f"{about}{{") and each.method != "PUT"
    ]


def _part(name: str) -> str:
    """Return how the OpenAPI document names the placeholder in an operation's path."""
    operation = OPERATIONS[name]
    path = next(path for path, methods in places().items() if operation in methods.values())
    (part,) = names_of(path)
    return part
