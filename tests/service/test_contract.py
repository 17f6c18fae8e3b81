"""The service answers as its OpenAPI document says: whatever is sent, and whoever sends it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

import hypothesis.strategies as st
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import APIOperation, Case
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from quorate.operations.operation import Effect
from quorate.operations.table import OPERATIONS
from quorate.service.openapi import openapi_tree
from tests.service.questions import PREFIX, TENANT, Furnished
from tests.service.serving import Served, new_ledger, serving

pytestmark = pytest.mark.slow  # A service is asked some thousand times.

AnyCase = Case[Any]
CHECKS: Final = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
IS_SOAK: Final = os.environ.get("HYPOTHESIS_PROFILE") == "soak"
EXAMPLES_MAX: Final = 150 if IS_SOAK else 3
WALKS_MAX: Final = 200 if IS_SOAK else 4
STEPS_MAX: Final = 20 if IS_SOAK else 8
HOLDERS: Final = {
    "admin": "",
    "tenant-admin": TENANT,
    "user": TENANT,
    "auditor": "",
}
"""Role -> tenant of its token."""
NAMES: Final = sorted(each.name for each in OPERATIONS.values() if each.effect is not Effect.STREAM)
"""What is answered in one piece; what goes on is in test_watch.py."""


ANYTHING: Final = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=4,
)


def bent(tree: dict[str, Any], spot: int, value: Any) -> dict[str, Any]:
    """Return a copy of ``tree`` with ``value`` in one place, whichever ``spot`` leads to."""
    found = deepcopy(tree)
    places: list[tuple[Any, Any]] = []
    todo: list[Any] = [found]
    while todo:
        inner = todo.pop()
        keys = inner.keys() if isinstance(inner, dict) else range(len(inner))
        places += [(inner, key) for key in keys]
        todo += [inner[key] for key in keys if isinstance(inner[key], dict | list)]
    if places:
        inner, key = places[spot % len(places)]
        inner[key] = value
    return found


def tried(examples: int, **more: Any) -> settings:
    """Return how hard to try: the same each time, unless it is to be long and random."""
    return settings(
        max_examples=examples,
        deadline=None,
        derandomize=not IS_SOAK,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
        **more,
    )


@dataclass
class Contract:
    """A furnished service, its document, and the tokens of all roles."""

    served: Served
    furnished: Furnished
    schema: Any
    operations: dict[str, APIOperation[Any, Any, Any, Any]]
    tokens: dict[str, str]

    def check(self, case: AnyCase, role: str) -> int:
        """Return the status of what ``case`` is answered, which has to be as the document says."""
        headers = {"Authorization": f"Bearer {self.tokens[role]}"}
        answer = case.call(headers=headers)
        case.validate_response(answer, checks=CHECKS)
        return answer.status_code


@pytest.fixture(scope="module")
def contract(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Contract]:
    """Return a service that all tests here share, whatever becomes of what is in it."""
    ledger = new_ledger(tmp_path_factory.mktemp("contract"))
    flags = {"limits.requests_per_s": "100000"}
    with serving(ledger, flags) as served, served.client(served.token) as admin:
        furnished = Furnished(admin)
        tokens = {}
        for role, tenant in HOLDERS.items():
            body = {"role": role, "user": f"fuzz-{role}", "tenant": tenant}
            tokens[role] = admin.post(f"{PREFIX}/tokens", json=body).json()["token"]["secret"]
        tree = openapi_tree()
        for path in ("watch", "notices/watch"):
            del tree["paths"][f"{PREFIX}/{path}"]
        # Who asks is chosen here; test_matrix.py has those who are nobody.
        del tree["security"], tree["components"]["securitySchemes"]
        schema = schemathesis.openapi.from_dict(tree)
        schema.config.update(base_url=served.url)
        found = [each.ok() for each in schema.get_all_operations() if isinstance(each, Ok)]
        assert len(found) == len(NAMES), "one could not be read"
        operations = {each.definition.raw["operationId"]: each for each in found}
        yield Contract(served, furnished, schema, operations, tokens)


@pytest.mark.parametrize("name", NAMES)
def test_whatever_is_sent_is_answered_as_the_document_says(contract: Contract, name: str) -> None:
    """Anything the document allows; with parts of a valid request, to get further than the door."""
    operation = contract.operations[OPERATIONS[name].function_name]
    valid = contract.furnished.question(OPERATIONS[name])
    open_parts = [each.name for each in operation.path_parameters]
    quoted = [quote(each, safe="") for each in valid.parts.values()]
    named = dict(zip(open_parts, quoted, strict=True))

    @tried(EXAMPLES_MAX)
    @given(
        case=operation.as_strategy(),
        kept=st.sampled_from(["all but a field", "path", "nothing"]),
        spot=st.integers(0, 1_000),
        value=ANYTHING,
    )
    def send(case: AnyCase, kept: str, spot: int, value: Any) -> None:
        if kept != "nothing" and named:
            case.path_parameters = dict(named)
        if kept == "all but a field" and valid.body is not None:
            case.body = bent(valid.body, spot, value)
        for role in contract.tokens:
            contract.check(case, role)

    send()


@pytest.mark.parametrize("role", HOLDERS)
def test_what_an_answer_leads_to_is_answered_as_the_document_says(
    contract: Contract, role: str
) -> None:
    class Walk(contract.schema.as_state_machine()):  # type: ignore[misc]
        """Asks for what links lead to, with the names that answers have."""

        def get_call_kwargs(self, case: AnyCase) -> dict[str, Any]:
            del case
            return {"headers": {"Authorization": f"Bearer {contract.tokens[role]}"}}

        def validate_response(self, response: Any, case: AnyCase, **more: Any) -> None:
            del more
            case.validate_response(response, checks=CHECKS)

    Walk.run(settings=tried(WALKS_MAX, stateful_step_count=STEPS_MAX))
