"""The types of resources in the clients agree with the answers of a service."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator, Mapping
from typing import Any, get_type_hints

import pytest
from hypothesis import given

from quorate.client import wire
from quorate.client.answer_fields import Fields, wire_name
from quorate.client.errors import MissingFieldError, NotQuorateError, QuorateClientError
from quorate.client.resources.any_resource import Resource
from quorate.client.resources.resource_table import RESOURCES
from quorate.client.resources.run_resources import RunStatus
from quorate.core.commands import Apply, Cancel, Command, ReportBudget, Submit
from quorate.documents import Declared, Invalid, parse_tree, render, to_json
from quorate.loop.engine import Engine
from quorate.model.events import Allowance
from quorate.model.specs import Funding, Lending, Owner, RunMail, TaskArray
from quorate.model.task_arrays import task_runs
from quorate.operations.answering import answer
from quorate.operations.caller import Caller
from quorate.operations.operation import Operation
from quorate.operations.request_context import RequestContext
from quorate.operations.resources.resource_operations import (
    GetSystem,
    GetThing,
    ListRuns,
    ListThings,
)
from quorate.operations.table import OPERATIONS
from quorate.testing.builders import budget, envelope, fleet, run
from quorate.testing.memory_engines import memory_engine
from quorate.testing.spec_strategies import any_spec
from tests.oracles import rounds
from tests.unit.operations.two_tenants import ADMIN, MANAGER, TwoTenants

LISTS = {
    each.about: each
    for each in OPERATIONS.values()
    if each.name.startswith("list-") and each.about in RESOURCES
}
UNMET = {"RefusalTerms"}
"""Parts that occur in none of these worlds."""


def _given(operation: Operation, tree: object) -> Any:
    """Return ``tree`` as the client returns it."""
    reply = wire.Reply(
        status=200, headers={"content-type": wire.JSON}, body=to_json(tree).encode("utf-8")
    )
    return wire.given_of(operation, reply)


def _faults(where: str, part: Fields, met: set[str]) -> Iterator[str]:
    """Yield the fields of a part that are undeclared, and declared ones that cannot be read."""
    met.add(type(part).__name__)
    declared = get_type_hints(type(part))
    yield from (
        f"{where}.{key}: is not declared in {type(part).__name__}"
        for key in part.keys() - {wire_name(name) for name in declared}
    )
    for name in declared:
        try:
            value = getattr(part, name)
        except QuorateClientError as error:
            yield f"{where}.{name}: {error}"
            continue
        for each in value if isinstance(value, tuple) else (value,):
            if isinstance(each, Fields) and (each or wire_name(name) in part):
                yield from _faults(f"{where}.{name}", each, met)


def _all_faults(
    engine: Engine, caller: Caller, met: set[str], kinds: Mapping[str, Operation] = LISTS
) -> list[str]:
    faults: list[str] = []
    for kind, operation in kinds.items():
        asked = ListRuns() if kind in ("run", "queue") else ListThings()
        tree = answer(RequestContext(engine, caller), operation, asked).tree()
        for each in _given(operation, tree).items:
            assert type(each).__name__ == RESOURCES[kind].__name__
            parts = {"metadata": each.metadata, "status": each.status}
            if "spec" in _keys(tree, each):
                parts["spec"] = each.spec
            for name, part in parts.items():
                faults += _faults(f"{kind}.{name}", part, met)
    return sorted(set(faults))


def _keys(tree: Any, found: Resource[Any, Any]) -> set[str]:
    return next(set(each) for each in tree["items"] if each["metadata"]["name"] == found.name)


def _parts(kind: type[Fields]) -> Iterator[type[Fields]]:
    for each in kind.__subclasses__():
        yield each
        yield from _parts(each)


def _borrower() -> Engine:
    """Return the engine of a ledger with an owner that borrows and is linked to accounting."""
    engine = memory_engine()
    lender = budget("l", "lender", envelope("e", 16, lending=Lending(allow=True)))
    sweep = TaskArray(name="sweep", tasks="0-3", at_once_max=2)
    steps: tuple[Command, ...] = (
        Apply((*fleet({"A": 16}), Owner(name="lender"), Owner(name="poor"), lender)),
        ReportBudget("poor", "waldur", Allowance(granted_ms=2, left_ms=1), None),
        Submit(run("lent", 4, "poor", funding=Funding(allow_borrow=True), mail=RunMail(to="a@b"))),
        Apply(task_runs(run("sweep", 1, "poor", array=sweep))),
    )
    for command in steps:
        assert not engine.execute(command, actor="test").decision.refusals
    return engine


def _rounds_and_a_stop() -> Engine:
    """Return the engine of a pool with rounds, in which a run was ordered to stop."""
    room = rounds.Room(rounds.world(rounds.team("a"), rounds.team("b")))
    room.submit_together(rounds.run("one", "a"), rounds.run("two", "b", gpus=4))
    room.rounds(2)
    room.did(Cancel("one"))
    engine = room.simulation.engine
    assert engine is not None
    return engine


@pytest.mark.slow
def test_every_field_that_a_service_gives_is_declared_and_readable() -> None:
    met: set[str] = set()
    for has_conflicts in (False, True):
        world = TwoTenants(has_conflicts=has_conflicts, hours_later=3)
        for caller in (ADMIN, MANAGER):
            assert _all_faults(world.engine, caller, met) == []
        system = OPERATIONS["get-system"]
        found = _given(system, world.ask(ADMIN, "get-system", GetSystem()).tree())
        assert list(_faults("system", found.status, met)) == []
    for engine in (_borrower(), _rounds_and_a_stop()):
        assert _all_faults(engine, ADMIN, met) == []
    declared = {each.__name__ for each in _parts(Fields) if not each.__name__.startswith("_")}
    specs = {name for name in declared if name.endswith("Spec") or name in _OF_SPECS}
    assert declared - met - specs - UNMET == set()


_OF_SPECS = {
    "PodRequests",
    "PodTemplate",
    "PodToleration",
    "PodVolume",
    "PreActivation",
    "Recall",
    "RunFollow",
    "RunFunding",
    "RunLocality",
    "RunMalleable",
} | {
    "RunResources",
    "RunRuntime",
    "SystemWeights",
}


@pytest.mark.heavy
@given(spec=any_spec())
def test_every_field_of_a_document_is_declared_and_readable(spec: Declared) -> None:
    tree = render(spec)
    kind = str(tree["kind"]).lower()
    found = _given(OPERATIONS[f"get-{kind}"], {**tree, "status": {}})
    assert list(_faults(kind, found.spec, set())) == []
    assert list(_faults(kind, found.metadata, set())) == []
    read = {"apiVersion": found.api_version, "kind": found.kind}
    parsed = parse_tree(None, {**read, "metadata": found.metadata, "spec": found.spec}, source="")
    assert not isinstance(parsed, Invalid)
    assert parsed.items[0].spec == spec


def test_a_part_is_a_dict_with_attributes() -> None:
    status = RunStatus({"phase": "Running", "leases": ["a/0"], "fromTheFuture": 1})
    assert (status.phase, status["phase"], status.get("fromTheFuture")) == ("Running", "Running", 1)
    assert (status.leases, status.note, status.turns) == (("a/0",), None, ())
    assert "phase" in dir(status)
    with pytest.raises(MissingFieldError, match=r"RunStatus has no gpus.*'gpus'.*it has: phase"):
        _ = status.gpus
    assert not hasattr(status, "gpus")
    with pytest.raises(NotQuorateError, match=r"RunStatus\.phase is in a form unknown to this"):
        _ = RunStatus({"phase": 3}).phase
    with pytest.raises(NotQuorateError, match=r"RunStatus\.plan.*Expected `object`, got `str`"):
        _ = RunStatus({"plan": "soon"}).plan


def test_what_a_service_said_cannot_be_set() -> None:
    status = RunStatus({"phase": "Running"})
    with pytest.raises(AttributeError, match=r"RunStatus\.phase was read from the service"):
        status.phase = "Completed"
    assert copy.deepcopy(status).phase == "Running"
    assert pickle.loads(pickle.dumps(status)) == status  # noqa: S301 - made here


def test_several_resources_are_items_of_the_answer() -> None:
    one = {"apiVersion": "v", "kind": "Lease", "metadata": {"name": "a/0"}, "status": {"gpus": 4}}
    many = {"apiVersion": "v", "kind": "List", "items": [one]}
    found = _given(OPERATIONS["get-lease"], many)
    assert [each.status.gpus for each in found.items] == [4]
    with pytest.raises(MissingFieldError, match=r"in \.items: give the whole name"):
        _ = found.status.gpus
    assert not found.status


@pytest.mark.heavy
def test_a_thing_by_name_is_given_as_one_of_its_kind() -> None:
    world = TwoTenants()
    tree = world.ask(ADMIN, "get-run", GetThing(name="mine-half")).tree()
    found = _given(OPERATIONS["get-run"], tree)
    assert (found.name, found.kind, found.status.phase) == ("mine-half", "Run", "Running")
    assert found.spec.resources.total_gpus == 2
    assert found.status.funding.owned.gpus == 2
    assert found.items == ()
