"""The page of operations agrees with the table, and the table is consistent."""

from __future__ import annotations

import re

import pytest

from quorate.operations.caller import Role
from quorate.operations.operation import ASIDE, DRY_RUN, Effect, Operation, Repeat
from quorate.operations.table import OPERATIONS
from tests.tidy.tree import ROOT
from tools.operations_page import PAGE, page

_PART = re.compile(r"\{([a-z_]+)\}")
_NAME = re.compile(r"[a-z]+(-[a-z]+)*")
every = pytest.mark.parametrize("operation", OPERATIONS.values(), ids=lambda each: each.name)


def test_the_page_is_made_of_the_table() -> None:
    written = (ROOT / PAGE).read_text(encoding="utf-8")
    assert written == page(written), "write it anew: python -m tools.operations_page"


def test_no_two_operations_share_a_route() -> None:
    routes = [(each.method, _PART.sub("{}", each.path)) for each in OPERATIONS.values()]
    assert len(routes) == len(set(routes))


@every
def test_an_operation_is_whole(operation: Operation) -> None:
    assert _NAME.fullmatch(operation.name)
    assert operation.summary.endswith(".")
    assert operation.roles
    assert operation.roles <= frozenset(Role)
    assert callable(operation.handle())
    fields = set(operation.takes.__struct_fields__)
    assert set(_PART.findall(operation.path)) <= fields


@every
def test_what_changes_something_can_be_tried_first(operation: Operation) -> None:
    fields = set(operation.takes.__struct_fields__)
    is_write = operation.effect is Effect.WRITE
    assert (DRY_RUN in fields) == is_write
    assert is_write == (operation.repeat is not Repeat.SAFE)
    assert (ASIDE_KEY in fields) == (operation.repeat is Repeat.KEYED)
    if is_write:
        assert operation.method in ("POST", "PUT", "PATCH", "DELETE")


ASIDE_KEY = next(field for field in ASIDE if field.startswith("idempotency"))
