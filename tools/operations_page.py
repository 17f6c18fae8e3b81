"""Writes docs/reference/operations.md from the table: ``python -m tools.operations_page``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from quorate.operations.caller import ANYBODY, Role
from quorate.operations.operation import Area, Operation
from quorate.operations.table import OPERATIONS
from quorate.service.grpc.grpc_schema import schema

PAGE: Final = Path("docs/reference/operations.md")
_TITLES: Final = {
    Area.RUNS: "Runs",
    Area.FLEET: "The fleet",
    Area.MONEY: "Money",
    Area.TENANTS: "Tenants",
    Area.CONTENTION: "Contention",
    Area.LEDGER: "The ledger",
    Area.SERVICE: "The service",
}
_RPCS: Final = {method.operation.name: method for method in schema().methods}
_HEAD: Final = (
    "| operation | what it does | REST | gRPC | client | roles | retry | command |\n"
    "|---|---|---|---|---|---|---|---|"
)


def page(written: str) -> str:
    """Return the text of ``written`` before its first table, followed by newly generated tables."""
    above, _, _ = written.partition("\n## ")
    return f"{above}\n" + "\n".join(_parts()).rstrip() + "\n"


def _parts() -> Iterator[str]:
    for area in Area:
        found = [each for each in OPERATIONS.values() if each.area is area]
        if found:
            yield f"## {_TITLES[area]}\n\n{_HEAD}"
            yield from map(_row, found)
            yield ""


def _row(operation: Operation) -> str:
    commands = ", ".join(f"`quorate {each}`" for each in operation.cli) or "-"
    rpc = _RPCS[operation.name]
    return (
        f"| `{operation.name}` | {operation.summary} | `{operation.method} {operation.path}` | "
        f"`{rpc.service}.{rpc.name}` | `{operation.function_name}` | "
        f"{_roles(operation.roles)} | {operation.repeat} | {commands} |"
    )


def _roles(roles: frozenset[Role]) -> str:
    if roles >= ANYBODY:
        return "anybody" if roles == ANYBODY else "anybody, accounting"
    return ", ".join(role for role in Role if role in roles)


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
