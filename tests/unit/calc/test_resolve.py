"""``calc resolve``: cuts in their order, none unless all are enough, and no needless draw."""

from __future__ import annotations

from typing import Any

import pytest

from quorate.calc import CalcInputError, run
from quorate.core.preemption.lottery import dummy_seed
from tests.unit.calc.drawn import NOW, budget, envelope, nodes, placed, work


def resolve(*leases: dict[str, Any], runs: list[dict[str, Any]], **question: Any) -> dict[str, Any]:
    """Return the answer in a fleet of two domains, A and B, of 16 GPUs each."""
    world: dict[str, Any] = {
        "now": NOW,
        "nodes": nodes(A=16, B=16),
        "runs": runs,
        "leases": list(leases),
    }
    more: dict[str, Any] = {
        key: question.pop(key) for key in ("budgets", "pool") if key in question
    }
    return run("resolve", world | more | {"resolve": question})


ELASTIC = work("el", 16, malleable={"min": 8, "max": 16, "step": 4})
FIXED = [work("one", 8, owner="a"), work("two", 8, owner="b")]


def test_spares_go_first_then_steps_from_the_top_and_the_minimum_stays() -> None:
    leases = [
        placed("el", "a00", 8, group="0"),
        placed("el", "a01", 4, group="1", name="step-1"),
        placed("el", "a01", 4, group="2", name="step-2"),
        placed("el", "b00", 2, group="0", role="Spare", name="spare"),
    ]
    answer = resolve(*leases, runs=[ELASTIC], deficit=6)
    kinds = [(each["kind"], each["lease"]) for each in answer["actions"]]
    assert kinds == [("DropSpare", "spare"), ("Shrink", "step-2")]
    assert (answer["deficit"], answer["short"], answer["victims"]) == (6, 0, [])


def test_what_turns_out_needless_is_given_back() -> None:
    leases = [
        placed("el", "a00", 8, group=0),
        placed("el", "a01", 4, group=1, name="step-1"),
        placed("el", "a01", 4, group=2, name="step-2"),
        placed("el", "b00", 2, role="Spare", name="spare"),
    ]
    answer = resolve(*leases, runs=[ELASTIC], deficit=4)
    assert [each["lease"] for each in answer["actions"]] == ["step-2"]


def test_a_run_with_min_equal_to_max_is_drawn_like_any_other() -> None:
    rigid = work("rigid", 8, malleable={"min": 8, "max": 8, "step": 8})
    answer = resolve(placed("rigid", "a00", 8), runs=[rigid], deficit=1)
    assert answer["victims"] == ["rigid"]
    assert answer["odds"] == {"me": "1"}


def test_every_victim_is_needed_and_the_answer_says_by_how_much() -> None:
    leases = [placed("one", "a00", 8), placed("two", "a01", 8)]
    answer = resolve(*leases, runs=FIXED, deficit=12)
    assert sorted(answer["victims"]) == ["one", "two"]
    assert answer["shortWithout"] == {"one": 4, "two": 4}
    one = resolve(*leases, runs=FIXED, deficit=8)
    assert len(one["victims"]) == 1


def test_nothing_is_ended_unless_it_is_enough() -> None:
    answer = resolve(placed("one", "a00", 8), runs=FIXED, deficit=9)
    assert answer["error"] == "lottery exhausted before clearing deficit"
    assert (answer["refusal"]["code"], answer["refusal"]["short"]) == ("not-resolvable", 1)
    assert "actions" not in answer


def test_the_scope_is_what_its_labels_say() -> None:
    leases = [placed("one", "a00", 8), placed("two", "b00", 8)]
    answer = resolve(*leases, runs=FIXED, deficit=8, scope={"fabric.domain": "B"})
    assert (answer["domains"], answer["victims"]) == (["west/c/B"], ["two"])
    nowhere = resolve(*leases, runs=FIXED, deficit=8, scope={"fabric.domain": "C"})
    assert nowhere["error"] == "InvalidRequest"


def test_a_seed_in_hex_is_the_seed_and_no_seed_is_a_dummy() -> None:
    leases = [placed("one", "a00", 8), placed("two", "a01", 8)]
    by_default = resolve(*leases, runs=FIXED, deficit=8)
    assert by_default["seed"] == dummy_seed(0).hex()
    assert resolve(*leases, runs=FIXED, deficit=8, seed=dummy_seed(0).hex()) == by_default
    drawn = {
        resolve(*leases, runs=FIXED, deficit=8, seed=f"{number}")["victims"][0]
        for number in range(20)
    }
    assert drawn == {"one", "two"}


def test_room_is_made_for_a_run_where_the_least_is_missing() -> None:
    leases = [placed("one", "a00", 8), placed("two", "b00", 8), placed("two", "b01", 2)]
    runs = [work("one", 8, owner="a"), work("two", 10, owner="b"), work("big", 16, owner="c")]
    answer = resolve(
        *leases,
        runs=[*runs[:2], {**runs[2], "groupGPUs": 16}],
        run="big",
        budgets=[budget("c", "c", envelope("e", 16))],
    )
    assert (answer["domains"], answer["deficit"], answer["victims"]) == (["west/c/A"], 8, ["one"])


def test_a_pool_with_a_minimum_runtime_protects_what_has_just_begun() -> None:
    leases = [
        placed("one", "a00", 8, start="2026-01-01T11:59:00Z"),
        placed("two", "a01", 8, start="2026-01-01T09:00:00Z"),
    ]
    for seed in range(10):
        answer = resolve(*leases, runs=FIXED, deficit=8, seed=str(seed), pool={"minRuntime": "1h"})
        assert answer["victims"] == ["two"]


def test_a_smaller_set_goes_before_a_large_gang() -> None:
    world = {
        "now": NOW,
        "nodes": nodes(A=64),
        "runs": [work("gang", 56, owner="a"), work("tiny", 2, owner="b")],
        "leases": [
            *(placed("gang", f"a{number:02d}", 8) for number in range(7)),
            placed("tiny", "a07", 2),
        ],
    }
    for seed in range(10):
        answer = run("resolve", {**world, "resolve": {"deficit": 2, "seed": str(seed)}})
        assert answer["victims"] == ["tiny"]


@pytest.mark.parametrize(
    ("question", "path"),
    [
        ({}, "resolve"),
        ({"deficit": 1, "run": "one"}, "resolve"),
        ({"run": "ghost"}, "resolve.run"),
        ({"deficit": "1"}, "resolve.deficit"),
        ({"deficit": 1, "scop": {}}, "resolve.scop"),
    ],
)
def test_a_question_that_cannot_be_read_is_named_by_its_path(
    question: dict[str, Any], path: str
) -> None:
    with pytest.raises(CalcInputError) as caught:
        resolve(placed("one", "a00", 8), runs=FIXED, **question)
    assert caught.value.path == path


def test_more_leases_than_a_node_holds_are_refused_by_path() -> None:
    with pytest.raises(CalcInputError) as caught:
        resolve(placed("one", "a00", 8), placed("two", "a00", 1), runs=FIXED, deficit=1)
    assert caught.value.path == "leases[1].node"


def test_a_run_that_runs_or_could_never_be_held_is_no_question() -> None:
    leases = [placed("one", "a00", 8)]
    assert resolve(*leases, runs=FIXED, run="one")["error"] == "InvalidRequest"
    huge = [*FIXED, work("huge", 64)]
    assert resolve(*leases, runs=huge, run="huge")["error"] == "InvalidRequest"
    assert resolve(*leases, runs=FIXED, deficit=0)["error"] == "InvalidRequest"
