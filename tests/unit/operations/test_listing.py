"""Things are found by their names, in one look at all of them."""

from __future__ import annotations

from time import process_time

import pytest

from quorate.core.commands import Apply
from quorate.model.specs import Owner
from quorate.operations.resources.resource_operations import NAMES_MAX, ListThings
from quorate.testing.memory_engines import memory_engine
from quorate.views.exits import CommandError
from tests.unit.operations.stage import ADMIN, ask, desk_for


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
