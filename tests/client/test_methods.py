"""The methods of both clients are those of the table."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import quorate
from quorate import AsyncClient, Client
from quorate.operations.table import OPERATIONS
from tools.client_methods import ROOT, STUB, text


@pytest.mark.heavy
def test_the_stub_is_what_the_table_makes() -> None:
    written = (ROOT / STUB).read_text(encoding="utf-8")
    assert written == text(), "run: python -m tools.client_methods"


def test_every_operation_is_a_method_of_both_clients_with_one_signature() -> None:
    for operation in OPERATIONS.values():
        one = inspect.signature(getattr(Client, operation.function_name))
        other = inspect.signature(getattr(AsyncClient, operation.function_name))
        assert one.parameters == other.parameters, operation.name


def test_the_methods_of_the_client_for_an_event_loop_are_awaited() -> None:
    assert inspect.iscoroutinefunction(AsyncClient.get_run)
    assert not inspect.iscoroutinefunction(Client.get_run)
    assert not inspect.iscoroutinefunction(AsyncClient.watch_events)


@pytest.mark.parametrize(
    ("given", "named", "fault"),
    [
        ((), {}, r"get_run\(\): missing a required argument: 'name'"),
        (("a",), {"At": "now"}, r"get_run\(\): got an unexpected keyword argument 'At'"),
    ],
)
def test_a_call_that_does_not_fit_is_refused_before_anything_is_asked(
    given: tuple[str, ...], named: dict[str, str], fault: str
) -> None:
    with Client("http://127.0.0.1:1") as client, pytest.raises(TypeError, match=fault):
        client.get_run(*given, **named)


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"nodes": 3}, "nodes: unknown field; known fields: max_nodes"),
        ({"max_nodes": 3}, "max_nodes: is given twice, by name and in changes"),
        ({"parents": "org"}, r"parents: give a list of strings, not one string: \['org'\]"),
    ],
)
def test_fields_together_are_fields_of_the_tenant_and_given_once(
    changes: dict[str, Any], fault: str
) -> None:
    with Client("http://127.0.0.1:1") as client, pytest.raises(TypeError, match=fault):
        client.update_tenant("a", changes, max_nodes=4)


def test_every_method_is_explained() -> None:
    for client in (Client, AsyncClient):
        for name, method in inspect.getmembers(client, inspect.isfunction):
            if not name.startswith("_"):
                assert inspect.getdoc(method), name


@pytest.mark.heavy
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
