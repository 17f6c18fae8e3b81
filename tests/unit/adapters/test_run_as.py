"""The system user of a run, from a map and from a template."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.adapters.run_as import RunAs, RunAsError, run_as

NAMES = st.from_regex(r"[a-c0](?:[a-c0._:-]{0,4}[a-c0])?", fullmatch=True)
USERS = st.text("ab-_.@", min_size=1, max_size=6)


def test_a_user_comes_before_its_owner_and_that_before_the_template() -> None:
    found = run_as({"template": "q-{owner}", "map": {"rai": "svc-rai", "rai/ada": 1_042}})
    assert found.account("rai", "ada") == ("1042", "user ada of owner rai")
    assert found.account("rai", "bob") == ("svc-rai", "owner rai")
    assert found.account("nlp", "ada") == ("q-nlp", "owner nlp")
    assert run_as("q-{owner}_{user}").account("nlp", "ada")[0] == "q-nlp_ada"


@pytest.mark.parametrize(
    ("owner", "user", "told"),
    [
        ("a_b", "ada", "has '_' in its name"),
        ("a", "", "has no user"),
    ],
)
def test_a_name_that_could_be_another_ones_is_not_made(owner: str, user: str, told: str) -> None:
    with pytest.raises(RunAsError, match=told):
        run_as("q-{owner}_{user}").account(owner, user)
    with pytest.raises(RunAsError, match="owner nlp has no system user"):
        RunAs(accounts={"rai": "x"}).account("nlp", "ada")


@given(
    st.sampled_from(["q-{owner}-{user}", "{user}_{owner}_q", "q{owner}.{user}", "q-{owner}"]),
    st.tuples(NAMES, USERS),
    st.tuples(NAMES, USERS),
)
def test_two_owners_never_get_one_system_user_of_a_template(
    template: str, one: tuple[str, str], other: tuple[str, str]
) -> None:
    made = run_as(template)
    found = []
    for owner, user in (one, other):
        try:
            found.append(made.account(owner, user)[0])
        except RunAsError:
            return
    if one[0] != other[0] or ("{user}" in template and one[1] != other[1]):
        assert found[0] != found[1]


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("{owner}", "begin or end with fixed text"),
        ("{owner}-{user}", "begin or end with fixed text"),
        ("q-{user}", "must contain {owner}"),
        ("q-", "must contain {owner}"),
        ("q-{owner}{user}", "text between"),
        ("q-{owner}-{owner}", "once each"),
        ("q-{owner!r}", "must contain {owner}"),
        ("q-{team}", "must contain {owner}"),
        ({}, "must have a template, a map, or both"),
        ({"users": {}}, "a table with template or map"),
        ({"template": 7}, "template must be text"),
        ({"map": ["rai"]}, "map must be a table"),
        ({"map": {"rai": 0}}, "map.rai must be the name or the number"),
        ({"map": {"rai": True}}, "map.rai must be the name or the number"),
        ({"map": {"rai": ""}}, "map.rai must be the name or the number"),
        (7, "must be a template"),
    ],
)
def test_what_cannot_be_meant_is_refused(value: object, told: str) -> None:
    with pytest.raises(RunAsError) as caught:
        run_as(value)
    assert told in str(caught.value)
