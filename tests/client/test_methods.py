"""The methods of both clients are those of the table."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import quorate
from quorate import AsyncClient, Client
from quorate.operations.table import OPERATIONS
from tools.client_methods import FOLDER, ROOT, texts


@pytest.mark.parametrize("name", ["methods.py", "async_methods.py"])
def test_the_methods_are_what_the_table_makes(name: str) -> None:
    written = (ROOT / FOLDER / name).read_text(encoding="utf-8")
    assert written == texts()[name], "run: python -m tools.client_methods"


def test_every_operation_is_a_method_of_both_clients_with_one_signature() -> None:
    for operation in OPERATIONS.values():
        one = inspect.signature(getattr(Client, operation.function_name))
        other = inspect.signature(getattr(AsyncClient, operation.function_name))
        assert one.parameters == other.parameters, operation.name


def test_every_method_is_explained() -> None:
    for client in (Client, AsyncClient):
        for name, method in inspect.getmembers(client, inspect.isfunction):
            if not name.startswith("_"):
                assert inspect.getdoc(method), name


def test_the_clients_are_imported_when_they_are_used() -> None:
    program = (
        "import sys, quorate; before = set(sys.modules); assert 'httpx' not in before; "
        "assert not [m for m in before if m.startswith('quorate.')], before; "
        "quorate.Client; assert 'httpx' in sys.modules"
    )
    source = str(Path(quorate.__file__).parents[1])
    subprocess.run([sys.executable, "-c", program], check=True, env={"PYTHONPATH": source})


def test_the_package_has_no_other_names() -> None:
    assert dir(quorate) == sorted(quorate.__all__)
    assert [name for name in quorate.__all__ if not hasattr(quorate, name)] == []
    assert not hasattr(quorate, "Clint")
