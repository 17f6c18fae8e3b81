"""Resources are found by their names, with one scan of all of them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from time import process_time
from typing import Any

import pytest

from quorate.core.commands import Apply
from quorate.core.explain.state_outlook import QueueOrder
from quorate.model.specs import Owner
from quorate.operations.caller import Caller
from quorate.operations.resources.resource_operations import NAMES_MAX, ListRuns, ListThings
from quorate.operations.resources.run_operations import SubmitRun
from quorate.testing.memory_engines import memory_engine
from quorate.views.exits import CommandError
from tests.unit.operations.ledger_thread import ADA, LedgerThread
from tests.unit.operations.stage import ADMIN, EVERYBODY, ask, desk_for


def names_of(kind: str, *names: str) -> list[str]:
    found = ask(desk_for(ADMIN), f"list-{kind}", ListThings(names=names)).tree()
    return [each["metadata"]["name"] for each in found["items"]]


@pytest.mark.heavy
def test_what_is_before_a_part_of_a_name_will_do_and_nothing_is_listed_twice() -> None:
    assert names_of("envelopes", "labs", "others") == ["labs/e", "others/e"]
    assert names_of("envelopes", "others", "labs/e", "labs") == ["others/e", "labs/e"]
    reserved = names_of("reservations")
    whole = reserved[0]
    assert names_of("reservations", whole.partition("@")[0], whole) == [
        each for each in reserved if each.partition("@")[0] == whole.partition("@")[0]
    ]


def test_of_names_that_nobody_has_only_the_first_is_compared_with_all() -> None:
    with pytest.raises(CommandError) as caught:
        names_of("owners", "lab", "tema", "otehr")
    assert caught.value.lines == (
        "there is no owner 'tema'; did you mean 'team'?",
        "there is no owner 'otehr'; list them: quorate get owners",
    )


def test_as_many_wrong_names_as_may_be_asked_for_hold_up_nobody() -> None:
    engine = memory_engine()
    owners = tuple(Owner(name=f"team-{number:05d}") for number in range(2_000))
    assert not engine.execute(Apply(owners), actor="root").decision.refusals
    wrong = tuple(f"team-x{number:04d}" for number in range(NAMES_MAX))
    context = desk_for(ADMIN, engine)
    began_s = process_time()
    with pytest.raises(CommandError) as caught:
        ask(context, "list-owners", ListThings(names=wrong))
    assert process_time() - began_s < 5
    assert len(caught.value.lines) == NAMES_MAX


@pytest.mark.parametrize("newest", [False, True])
@pytest.mark.parametrize("limit", [1, 2, 3, 50])
def test_pages_list_an_array_once_in_either_direction(*, newest: bool, limit: int) -> None:
    ledger_thread = LedgerThread()
    for name, tasks in (("one", None), ("wide", "0-3"), ("two", None), ("more", "0-1")):
        spec = {"resources": {"gpuType": "H100", "totalGPUs": 1}}
        array = {} if tasks is None else {"array": {"tasks": tasks}}
        document = {
            "apiVersion": "quorate.dev/v1",
            "kind": "Run",
            "metadata": {"name": name},
            "spec": spec | array,
        }
        ledger_thread.ask(ADA, "submit-run", SubmitRun(document=document))

    def page(cursor: str | None, most: int | None) -> tuple[list[str], str | None]:
        asked = ListRuns(limit=most, cursor=cursor, newest=newest, grouped=True)
        found = ledger_thread.tree(ADMIN, "list-runs", asked)
        return [each["metadata"]["name"] for each in found["items"]], found.get("next")

    whole, _ = page(None, None)
    assert whole == ["see", "hear", "help", "one", "wide", "two", "more"]
    names, cursor = page(None, limit)
    while cursor is not None:
        found, cursor = page(cursor, limit)
        assert found, "a cursor leads to something"
        names = found + names if newest else names + found
    assert names == whole


@pytest.mark.heavy
@pytest.mark.parametrize("caller", EVERYBODY, ids=lambda each: each.user)
def test_the_first_page_of_the_queue_is_how_all_of_it_begins(caller: Caller) -> None:
    def page(asked: ListRuns) -> tuple[list[Any], str | None]:
        found = ask(desk_for(caller), "list-queue", asked).tree()
        return found["items"], found.get("next")

    whole, _ = page(ListRuns())
    names = [each["metadata"]["name"] for each in whole]
    for limit in range(1, len(whole) + 2):
        first, after = page(ListRuns(limit=limit))
        assert first == whole[:limit]
        assert after == (names[limit - 1] if limit < len(whole) else None)
        if after is not None:
            assert page(ListRuns(cursor=after))[0] == whole[limit:]


def test_the_order_of_a_queue_is_read_once_and_as_far_as_it_is_asked_for() -> None:
    read: list[str] = []

    def turns() -> Iterator[str]:
        for name in "abcdef":
            read.append(name)
            yield name

    order = QueueOrder(turns())
    assert list(islice(order, 2)) == ["a", "b"]
    assert (order.place_of("c"), order.place_of("a"), read) == (2, 0, ["a", "b", "c"])
    assert list(order) == list(order) == list("abcdef") == read
    with pytest.raises(KeyError):
        order.place_of("g")
