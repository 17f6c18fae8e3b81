"""``calc cover``: the payers, their order, and the shortages."""

from __future__ import annotations

from typing import Any

import pytest

from quorate.calc import CalcInputError, run
from tests.unit.calc.drawn import budget, envelope, funds, lease, question

LENDS = {"allow": True}


def paid(world: dict[str, Any]) -> list[tuple[str, int]]:
    answer = run("cover", world)
    assert "segments" in answer, answer
    segments: Any = answer["segments"]
    return [(f"{s['budget']}/{s['envelope']}", s["quantity"]) for s in segments]


def refused(world: dict[str, Any]) -> tuple[str, str, int]:
    answer: Any = run("cover", world)
    assert "error" in answer, answer
    return answer["error"], answer["refusal"]["code"], answer["refusal"]["short"]


def test_whole_answer() -> None:
    world = funds(
        budget("mine", "me", envelope("e", 96)),
        budget("theirs", "lender", envelope("e", 64, lending=LENDS)),
        cover=question(128, allowBorrow=True, maxBorrowGPUs=32),
    )
    assert run("cover", world) == {
        "segments": [
            {
                "budget": "mine",
                "envelope": "e",
                "owner": "me",
                "quantity": 96,
                "borrowed": False,
                "tier": "owned",
            },
            {
                "budget": "theirs",
                "envelope": "e",
                "owner": "lender",
                "quantity": 32,
                "borrowed": True,
                "tier": "borrowed",
            },
        ]
    }


def test_own_then_siblings_by_name_then_parents_then_sponsors() -> None:
    world = funds(
        budget("p", "org", envelope("e", 1)),
        budget("z", "zoe", envelope("e", 1), parents=["org"]),
        budget("b", "ann", envelope("e", 1), parents=["org"]),
        budget("own", "me", envelope("b", 1), envelope("a", 1), parents=["org"]),
        budget("s", "sponsor", envelope("e", 9, lending=LENDS)),
        cover=question(6, allowBorrow=True),
    )
    assert paid(world) == [
        ("own/a", 1),
        ("own/b", 1),
        ("b/e", 1),
        ("z/e", 1),
        ("p/e", 1),
        ("s/e", 1),
    ]


def test_grandparents_aunts_cousins_and_children_never_pay() -> None:
    world = funds(
        budget("own", "me", envelope("e", 1), parents=["org"]),
        budget("grand", "root", envelope("e", 9)),
        budget("parent", "org", envelope("e", 1), parents=["root"]),
        budget("aunt", "aunt", envelope("e", 9), parents=["root"]),
        budget("cousin", "cousin", envelope("e", 9), parents=["aunt"]),
        budget("child", "child", envelope("e", 9), parents=["me"]),
        cover=question(3),
    )
    assert refused(world) == ("InsufficientCapacity", "insufficient-funds", 1)


def test_family_can_reach_exactly_what_is_left_of_it() -> None:
    def world(gpus: int) -> dict[str, Any]:
        return funds(
            budget("parent", "mm", envelope("e", 40)),
            budget("own", "vision", envelope("e", 28), parents=["mm"]),
            budget("sib", "audio", envelope("e", 12), parents=["mm"]),
            cover=question(gpus, owner="vision"),
            leases=[lease("own/e", 28), lease("parent/e", 20), lease("sib/e", 4)],
        )

    assert paid(world(28)) == [("sib/e", 8), ("parent/e", 20)]
    assert refused(world(29)) == ("InsufficientCapacity", "insufficient-funds", 1)


def test_sharing_none_keeps_the_family_out() -> None:
    world = funds(
        budget("parent", "org", envelope("e", 8, sharing="none")),
        budget("own", "me", envelope("e", 4), parents=["org"]),
        cover=question(5),
    )
    assert refused(world)[0] == "InsufficientCapacity"


def test_envelope_pays_only_where_its_selector_matches() -> None:
    east = envelope("east", 8, selector={"region": "east"})
    anywhere = envelope("any", 2, selector={"region": "*"})
    narrow = envelope("narrow", 8, selector={"region": "west", "cluster": "c"})
    world = funds(budget("own", "me", east, anywhere, narrow), cover=question(2))
    assert paid(world) == [("own/any", 2)]


def test_place_does_not_matter_where_the_world_does_not_say() -> None:
    asked = question(2)
    del asked["location"]
    east = envelope("east", 8, selector={"region": "east"})
    assert paid(funds(budget("own", "me", east), cover=asked)) == [("own/east", 2)]


@pytest.mark.parametrize(
    "window",
    [
        {"start": "2026-01-02T00:00:00Z"},
        {"end": "2026-01-01T12:00:00Z"},
        {"start": "2026-01-02T00:00:00Z", "open": True},
    ],
)
def test_closed_window_pays_nothing(window: dict[str, object]) -> None:
    world = funds(budget("own", "me", envelope("e", 8, **window)), cover=question(1))
    assert refused(world)[0] == "NoEnvelope"


def test_pre_activation_opens_an_envelope_early() -> None:
    early = envelope("e", 8, start="2026-01-02T00:00:00Z", preActivation={"allowAdmission": True})
    assert paid(funds(budget("own", "me", early), cover=question(8))) == [("own/e", 8)]


def test_nobody_to_pay_is_no_envelope_even_when_it_is_only_full() -> None:
    world = funds(
        budget("own", "me", envelope("e", 8)), cover=question(1), leases=[lease("own/e", 8)]
    )
    assert refused(world) == ("NoEnvelope", "insufficient-funds", 1)
    assert refused({**world, "cover": question(1, owner="stranger")})[1] == "no-envelope"
    assert refused({**world, "cover": {**question(1), "flavor": "TPU"}})[1] == "no-envelope"


def test_cap_bounds_what_one_decision_takes_from_several_envelopes() -> None:
    cap = {"name": "cap", "flavor": "H100", "envelopes": ["a", "b"], "maxConcurrency": 12}
    own = budget("own", "me", envelope("a", 10), envelope("b", 10), aggregateCaps=[cap])
    assert paid(funds(own, cover=question(12))) == [("own/a", 10), ("own/b", 2)]
    assert refused(funds(own, cover=question(13))) == (
        "InsufficientCapacity",
        "insufficient-funds",
        1,
    )


def test_overlapping_caps_are_paid_around_where_taking_the_most_would_fail() -> None:
    caps = [
        {"name": "ab", "flavor": "H100", "envelopes": ["a", "b"], "maxConcurrency": 6},
        {"name": "a", "flavor": "H100", "envelopes": ["a", "c"], "maxConcurrency": 6},
    ]
    own = budget(
        "own", "me", envelope("a", 6), envelope("b", 6), envelope("c", 6), aggregateCaps=caps
    )
    assert paid(funds(own, cover=question(12))) == [("own/b", 6), ("own/c", 6)]


def borrowed_from_one_that_lends_to(*names: str) -> dict[str, object]:
    lending = {"allow": True, "to": list(names)}
    lender = budget("l", "lender", envelope("e", 8, lending=lending))
    return run("cover", funds(lender, cover=question(1, allowBorrow=True)))


@pytest.mark.parametrize("names", [[], ["me"], ["*"], ["m*"], ["you", "me"]])
def test_lender_lends_to_those_on_its_list_and_to_all_without_one(names: list[str]) -> None:
    assert "segments" in borrowed_from_one_that_lends_to(*names)


@pytest.mark.parametrize("names", [["you"], ["mee"], ["me:*"], ["M*"]])
def test_lender_does_not_lend_to_others(names: list[str]) -> None:
    assert borrowed_from_one_that_lends_to(*names)["error"] == "NoEnvelope"


def test_only_listed_sponsors_pay_in_that_order() -> None:
    lenders = [budget(n, n, envelope("e", 2, lending=LENDS)) for n in ("a", "b", "c")]
    asked = question(4, allowBorrow=True, sponsors=["c", "a"])
    assert paid(funds(*lenders, cover=asked)) == [("c/e", 2), ("a/e", 2)]
    assert refused(funds(*lenders, cover={**asked, "quantity": 5}))[0] == "InsufficientCapacity"


def test_nobody_lends_to_who_does_not_ask() -> None:
    lender = budget("l", "lender", envelope("e", 8, lending=LENDS))
    assert refused(funds(lender, cover=question(1)))[0] == "NoEnvelope"


def test_lending_limit_counts_what_is_lent_already() -> None:
    lending = {"allow": True, "maxConcurrency": 4}
    world = funds(
        budget("own", "me", envelope("e", 1)),
        budget("l", "lender", envelope("e", 9, lending=lending)),
        cover=question(4, allowBorrow=True),
        runs=[{"name": "other", "namespace": "ns", "owner": "you"}],
        leases=[lease("l/e", 2, run="ns/other"), lease("l/e", 1, run="its/own")],
    )
    assert refused(world) == ("InsufficientCapacity", "insufficient-funds", 1)
    world["cover"]["quantity"] = 3
    assert paid(world) == [("own/e", 1), ("l/e", 2)]


def test_borrow_limit_counts_what_the_run_borrows_already() -> None:
    world = funds(
        budget("own", "me", envelope("e", 1)),
        budget("l", "lender", envelope("e", 9, lending=LENDS)),
        cover=question(4, allowBorrow=True, maxBorrowGPUs=3, run="train"),
        runs=[{"name": "train", "owner": "me"}],
    )
    assert paid(world) == [("own/e", 1), ("l/e", 3)]
    world["leases"] = [lease("l/e", 1, run="train")]
    assert refused(world) == ("BorrowLimit", "borrow-limit", 1)


def test_gpu_hours_bind_where_the_expected_duration_is_said() -> None:
    own = budget("own", "me", envelope("e", 8, maxGPUHours=10))
    spent = [lease("own/e", 2), lease("own/e", 3, end="2026-01-01T11:20:00Z")]

    def world(gpus: int, **more: Any) -> dict[str, Any]:
        return funds(own, cover=question(gpus, **more), leases=spent)

    # 2 GPU-hours are spent by the open lease and 1 by the ended one, so 7 are left.
    assert paid(world(6)) == [("own/e", 6)]
    assert paid(world(3, expectedDuration="2h")) == [("own/e", 3)]
    assert refused(world(4, expectedDuration="2h")) == (
        "InsufficientCapacity",
        "insufficient-funds",
        1,
    )
    assert refused(world(4, expectedHours=2))[0] == "InsufficientCapacity"


def test_gpu_hours_of_caps_and_of_lending_bind_too() -> None:
    cap = {"name": "cap", "flavor": "H100", "envelopes": ["e"], "maxGPUHours": 5}
    own = budget("own", "me", envelope("e", 8), aggregateCaps=[cap])
    lending = {"allow": True, "maxGPUHours": 3}
    lender = budget("l", "lender", envelope("e", 8, lending=lending))
    asked = question(3, allowBorrow=True, expectedDuration="2h")
    assert paid(funds(own, lender, cover=asked)) == [("own/e", 2), ("l/e", 1)]
    assert refused(funds(own, lender, cover={**asked, "quantity": 4}))[2] == 1


def test_work_is_paid_only_up_to_the_end_of_the_window() -> None:
    ends_soon = envelope("e", 8, maxGPUHours=4, end="2026-01-01T13:00:00Z")
    world = funds(budget("own", "me", ends_soon), cover=question(4, expectedDuration="9h"))
    assert paid(world) == [("own/e", 4)]


def test_budgets_of_one_name_in_two_namespaces_stay_apart() -> None:
    world = funds(
        budget("b", "me", envelope("e", 2), namespace="x"),
        budget("b", "org", envelope("e", 2), namespace="y"),
        cover=question(2),
        leases=[lease("b/e", 1, payerNamespace="y")],
        owners=[{"name": "me", "parents": ["org"]}],
    )
    assert paid(world) == [("b/e", 2)]
    world["cover"]["quantity"] = 3
    assert paid(world) == [("b/e", 2), ("b/e", 1)]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (question(0), "quantity must be positive, got 0"),
        (question(-1), "quantity must be positive, got -1"),
        (question(1, owner=""), "owner is required"),
        ({"owner": "me", "quantity": 1}, "flavor is required"),
        (question(1, maxBorrowGPUs=-1), "maxBorrowGPUs must not be negative, got -1"),
    ],
)
def test_question_without_an_answer_is_an_invalid_request(
    asked: dict[str, Any], message: str
) -> None:
    answer = run("cover", funds(budget("own", "me", envelope("e", 8)), cover=asked))
    assert answer == {"error": "InvalidRequest", "message": message}


def test_refusal_has_the_numbers_of_every_payer() -> None:
    world = funds(
        budget("own", "me", envelope("e", 8)), cover=question(8), leases=[lease("own/e", 3)]
    )
    answer: Any = run("cover", world)
    assert answer["message"] == "budgets can pay 5 of 8 GPUs, 3 short"
    assert answer["refusal"]["shortages"] == [
        {"where": "west", "wanted": 8, "available": 5, "short": 3, "limit": ""},
        {
            "where": "own/e",
            "wanted": 0,
            "available": 5,
            "short": 0,
            "limit": "concurrency 8, 3 in use",
        },
    ]


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"now": None}, "now"),
        ({"now": "yesterday"}, "now"),
        ({"budgets": None}, "budgets"),
        ({"cover": None}, "cover"),
        ({"cover": question(1, color="red")}, "cover.color"),
        ({"cover": question(1, expectedDuration="2 moons")}, "cover.expectedDuration"),
        (
            {"budgets": [budget("b", "me", envelope("e", -1))]},
            "budgets[0].envelopes[0].concurrency",
        ),
        (
            {"budgets": [budget("b", "me", envelope("e", 1, sharing="all"))]},
            "budgets[0].envelopes[0].sharing",
        ),
        (
            {"budgets": [budget("b", "me", aggregateCaps=[{"name": "c", "envelopes": ["x"]}])]},
            "budgets[0].aggregateCaps[0].envelopes",
        ),
        ({"budgets": [budget("b", "me"), budget("b", "you")]}, "budgets[1].name"),
        ({"leases": [lease("no/e", 1)]}, "leases[0].budget"),
        ({"leases": [lease("own/no", 1)]}, "leases[0].envelope"),
        ({"leases": [lease("own/e", 0)]}, "leases[0].gpus"),
    ],
)
def test_world_that_cannot_be_read_is_refused_by_path(
    changes: dict[str, object], path: str
) -> None:
    world = funds(budget("own", "me", envelope("e", 8)), cover=question(1)) | changes
    with pytest.raises(CalcInputError) as raised:
        run("cover", world)
    assert raised.value.path == path


@pytest.mark.parametrize(
    ("parents", "cycle"),
    [
        ({"me": ["org"], "org": ["me"]}, "me -> org -> me"),
        ({"me": ["me"]}, "me -> me"),
        ({"me": ["a"], "a": ["b"], "b": ["c"], "c": ["a"]}, "a -> b -> c -> a"),
    ],
)
def test_a_family_that_goes_in_a_circle_is_refused(
    parents: dict[str, list[str]], cycle: str
) -> None:
    drawn = [budget(name, name, envelope("e", 8), parents=up) for name, up in parents.items()]
    with pytest.raises(CalcInputError, match=f"parents that make a cycle: {cycle}"):
        run("cover", funds(*drawn, cover=question(4)))
