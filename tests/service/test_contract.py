"""The service answers as its OpenAPI document says, whatever is sent by any role."""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import cycle
from time import monotonic
from typing import Any, Final
from urllib.parse import quote

import httpx
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
from quorate.service.http.openapi import openapi_tree
from tests.oracles.effort import IS_SOAK, few_of
from tests.service.questions import PREFIX, TENANT, Furnished
from tests.service.serving import Served, new_ledger, serving

_LOG = logging.getLogger(__name__)

pytestmark = pytest.mark.slow  # Some thousand requests are sent.

AnyCase = Case[Any]
CHECKS: Final = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
EXAMPLES_MAX: Final = 150 if IS_SOAK else 2
WALKS_MAX: Final = 200 if IS_SOAK else 3
STEPS_MAX: Final = 20 if IS_SOAK else 8
SOAK_S: Final = float(os.environ.get("QUORATE_WALK_S", "1200"))
"""How long the longest walks take."""
REVOKES: Final = OPERATIONS["revoke-token"].function_name
SHORT_WALKS: Final = 10
"""How many walks one role makes before the next role's turn."""
HOLDERS: Final = {
    "admin": "",
    "tenant-admin": TENANT,
    "user": TENANT,
    "auditor": "",
}
"""The tenant of each role's token."""
NAMES: Final = sorted(each.name for each in OPERATIONS.values() if each.effect is not Effect.STREAM)
"""Operations with a single answer; test_watch.py tests the streams."""


ANYTHING: Final = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=4,
)


def bent(tree: dict[str, Any], spot: int, value: Any) -> dict[str, Any]:
    """Return a copy of ``tree`` with ``value`` at the place that ``spot`` selects."""
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
    """Return settings of Hypothesis: fixed examples, or many random ones in a soak."""
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
    """A service with one resource of each kind, its OpenAPI document, and tokens of all roles."""

    served: Served
    furnished: Furnished
    schema: Any
    operations: dict[str, APIOperation[Any, Any, Any, Any]]
    tokens: dict[str, str]
    answered: Counter[int] = field(default_factory=Counter)

    def check(self, case: AnyCase, role: str) -> int:
        """Return the status of the answer to ``case``, which must agree with the document."""
        headers = {"Authorization": f"Bearer {self.tokens[role]}"}
        answer = case.call(headers=headers)
        case.validate_response(answer, checks=CHECKS)
        return answer.status_code


def _issued(admin: httpx.Client, role: str) -> str:
    """Return a new access token of ``role``."""
    body = {"role": role, "user": f"fuzz-{role}", "tenant": HOLDERS[role]}
    answer = admin.post(f"{PREFIX}/tokens", json=body)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["token"]["secret"])


def _unlink(tree: Any, operation: str) -> None:
    """Remove the links to an operation that is not tested here from an OpenAPI document."""
    for methods in tree["paths"].values():
        for asked in methods.values():
            for answer in asked["responses"].values() if isinstance(asked, dict) else ():
                links = answer.get("links", {})
                for name in [n for n, link in links.items() if link["operationId"] == operation]:
                    del links[name]


@pytest.fixture(scope="module")
def contract(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Contract]:
    """Return a service that all tests here share, whatever they change in it."""
    ledger = new_ledger(tmp_path_factory.mktemp("contract"))
    flags = {"limits.requests_per_s": "100000"}
    with serving(ledger, flags) as served, served.client(served.token) as admin:
        furnished = Furnished(admin)
        tokens = {role: _issued(admin, role) for role in HOLDERS}
        tree = openapi_tree()
        for path in ("watch", "notices/watch", "runs/{run}/logs/watch"):
            del tree["paths"][f"{PREFIX}/{path}"]
        _unlink(tree, "watch_logs")
        # The test chooses the caller; test_matrix.py tests unknown callers.
        del tree["security"], tree["components"]["securitySchemes"]
        schema = schemathesis.openapi.from_dict(tree)
        schema.config.update(base_url=served.url)
        found = [each.ok() for each in schema.get_all_operations() if isinstance(each, Ok)]
        assert len(found) == len(NAMES), "one could not be read"
        operations = {each.definition.raw["operationId"]: each for each in found}
        yield Contract(served, furnished, schema, operations, tokens)


@pytest.mark.parametrize("name", NAMES)
def test_whatever_is_sent_is_answered_as_the_document_says(contract: Contract, name: str) -> None:
    """Anything that the document allows, with parts of valid requests so that more pass."""
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


def _walk_of(contract: Contract, role: str) -> Any:
    """Return a state machine that follows the links in answers as ``role``."""

    class Walk(contract.schema.as_state_machine()):  # type: ignore[misc]
        """Follows links, with the names that answers contain."""

        def get_call_kwargs(self, case: AnyCase) -> dict[str, Any]:
            del case
            return {"headers": {"Authorization": f"Bearer {contract.tokens[role]}"}}

        def before_call(self, case: AnyCase) -> None:
            # Otherwise the first walk would revoke the tokens of all later walks.
            if case.operation.definition.raw["operationId"] == REVOKES:
                case.path_parameters = dict.fromkeys(case.path_parameters or {}, "unknown")

        def validate_response(self, response: Any, case: AnyCase, **more: Any) -> None:
            del more
            contract.answered[response.status_code] += 1
            case.validate_response(response, checks=CHECKS)

    return Walk


@pytest.mark.parametrize("role", few_of(HOLDERS, 2))
def test_what_an_answer_leads_to_is_answered_as_the_document_says(
    contract: Contract, role: str
) -> None:
    walk = _walk_of(contract, role)
    walk.run(settings=tried(WALKS_MAX, stateful_step_count=STEPS_MAX))


@pytest.mark.soak
@pytest.mark.timeout(SOAK_S + 1_200)
def test_long_walks_of_all_roles_end_in_no_server_error(contract: Contract) -> None:
    """For ``QUORATE_WALK_S`` seconds: resources that one role has created are used by another."""
    end_s = monotonic() + SOAK_S
    contract.answered.clear()
    for role in cycle(HOLDERS):
        if monotonic() >= end_s:
            break
        walk = _walk_of(contract, role)
        walk.run(settings=tried(SHORT_WALKS, stateful_step_count=STEPS_MAX))
    _LOG.info("answers by status: %s", sorted(contract.answered.items()))
    assert contract.answered.total() > SOAK_S
    assert max(contract.answered) < 500
