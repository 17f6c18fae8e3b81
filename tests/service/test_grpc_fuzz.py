"""Every message of every caller gets an answer or a clear refusal, never an internal error.

All examples are sent to one server, whose ledger keeps the changes of earlier examples.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from copy import deepcopy
from itertools import islice
from typing import Any, Final

import grpc
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import replace

from quorate.core.commands import Applied
from quorate.documents import render
from quorate.loop.engine import Engine
from quorate.operations.answering import answer
from quorate.operations.operation import Effect, Operation
from quorate.operations.request_context import RequestContext
from quorate.operations.resources.run_operations import SubmitRun
from quorate.operations.table import OPERATIONS
from quorate.service.grpc.grpc_codec import write_struct
from quorate.testing.spec_strategies import any_spec
from quorate.views.kinds.kind_table import KIND_OF
from tests.oracles.effort import sized
from tests.service.grpc_world import CALLERS, METHODS, Served, serving
from tests.service.structs import Drawn, structs, texts, trees, values
from tests.service.worlds import run_tree, small_ledger

TOKENS: Final = (*CALLERS, "admin", "admin", "user")
EXAMPLES: Final = sized(2, settings().max_examples // 6)
"""The number of examples for each of many methods."""
READ_MAX: Final = 5
WATCH_S: Final = 0.2
"""How long a stream is read."""
BUGS: Final = frozenset({grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN})
NAMES: Final = (
    "team",
    "other",
    "r1",
    "r2",
    "run/r1",
    "a0000",
    "b",
    "e",
    "b/e",
    "r/c/A",
    "A",
    "H100",
    "default",
    "system",
    "alice",
    "running",
    "1h",
    "2023-11",
    "2023-11-14T22:13:20Z",
    "2033-11-14T22:13:20Z",
    "1",
    "*",
    "spec.owner=other",
    "spec.resources.totalGPUs=2",
    "metadata.name=x",
    "H100=2.5",
    "never",
)
"""Names that exist in the served world, so that not every name is unknown."""


def _world() -> tuple[dict[str, list[str]], list[dict[str, Any]]]:
    """Return the names of all resources in the served world, by kind, and their documents."""
    engine = _begun(small_ledger())
    moment = RequestContext(engine, CALLERS["admin"]).moment
    names = {name: list(kind.names(moment)) for name, kind in KIND_OF.items()}
    view = engine.view
    specs: list[Applied] = [view.system, *view.owners.values(), *view.budgets.values()]
    specs += [*view.pools.values(), *(record.spec for record in view.nodes.values())]
    return names, [render(spec) for spec in specs]


def _begun(engine: Engine) -> Engine:
    for name, gpus in (("r1", 4), ("r2", 64)):
        asked = SubmitRun(document=run_tree(name, gpus=gpus))
        answer(RequestContext(engine, CALLERS["user"]), OPERATIONS["submit-run"], asked)
    return engine


KNOWN, DOCUMENTS = _world()
_FIELD_KINDS: Final = {"run": "run", "id": "tenant", "node": "node", "claim": "claim"}
"""Fields that name a resource of one kind; ``name`` has the kind of the operation."""


@st.composite
def _documents(draw: st.DrawFn) -> dict[str, Any]:
    """Return a document that may be applied, or one with a field or two of another kind."""
    kinds = [
        any_spec().map(render),
        st.sampled_from(NAMES).map(run_tree),
        st.sampled_from(DOCUMENTS),
    ]
    tree: dict[str, Any] = deepcopy(draw(st.one_of(kinds)))
    for _ in range(draw(st.integers(0, 2))):
        tree = _mutated(draw, tree)
    return tree


@st.composite
def _nearer(draw: st.DrawFn, operation: Operation, asked: Struct) -> Struct:
    """Return ``asked`` with names that exist, so that it may well succeed."""
    near: dict[str, Any] = {"if_match": None, "at": None, "cursor": None}
    if hasattr(asked, "document"):
        kind = operation.about or "run"
        fitting = [each for each in DOCUMENTS if each["kind"].lower() == kind]
        near["document"] = tree = deepcopy(draw(st.sampled_from([*fitting, run_tree("r3")])))
        near["name"] = near["like"] = None
        if operation.effect is Effect.WRITE and operation.about:
            near["name"] = tree["metadata"]["name"]
        if draw(st.booleans()):
            near["document"] = _mutated(draw, tree)
    for field in asked.__struct_fields__:
        names = KNOWN.get(_FIELD_KINDS.get(field, operation.about if field == "name" else ""))
        if names and near.get(field) is None:
            near[field] = draw(st.sampled_from(names))
    return replace(asked, **{k: v for k, v in near.items() if k in asked.__struct_fields__})


def _mutated(draw: st.DrawFn, tree: dict[str, Any]) -> dict[str, Any]:
    at: Any = tree
    while True:
        keys = list(at) if isinstance(at, dict) else list(range(len(at)))
        if not keys:
            return tree
        key = draw(st.sampled_from(keys))
        if not isinstance(at[key], dict | list) or draw(st.booleans()):
            at[key] = draw(values | st.sampled_from(NAMES))
            return tree
        at = at[key]


DRAWN: Final = Drawn(texts=st.sampled_from(NAMES) | texts, trees=_documents() | trees)


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serving() as found:
        _begun(found.counter.engine)
        yield found


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_no_message_finds_a_bug(served: Served, name: str, data: st.DataObject) -> None:
    method = METHODS[name]
    asked = data.draw(structs(method.operation.takes, DRAWN))
    if data.draw(st.booleans()):
        asked = data.draw(_nearer(method.operation, asked))
    note(f"asked: {asked}")
    token = data.draw(st.sampled_from(TOKENS), label="token")
    _send(served, name, write_struct(asked).SerializeToString(), token)


@pytest.mark.parametrize("name", METHODS)
@settings(max_examples=sized(2, 10))
@given(junk=st.binary(max_size=40))
def test_no_bytes_find_a_bug(served: Served, name: str, junk: bytes) -> None:
    _send(served, name, junk, "admin")


def _send(served: Served, name: str, data: bytes, token: str) -> None:
    method = METHODS[name]
    try:
        if method.is_stream:
            call = served.send(method, data, token, timeout=WATCH_S)
            deque(islice(call, READ_MAX), maxlen=0)
            call.cancel()
        else:
            served.send(method, data, token)
    except grpc.RpcError as error:
        found: Any = error
        assert found.code() not in BUGS, found.details()
