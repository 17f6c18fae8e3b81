"""The runs chosen for a round, and their places."""

from __future__ import annotations

from quorate.policy.rounds.round_book import DEFAULT, STRICT, Book, Row, Rules, joined, renewed
from quorate.policy.rounds.round_places import Place, Places, Server, stays
from quorate.policy.rounds.row_choice import Candidate, candidates, choose


def asking(
    row: str, flavor: str, priority: float, *, gpus: int = 1, is_allocated: bool = True
) -> Candidate:
    return Candidate(
        row=tuple(row.split("+")),
        flavor=flavor,
        gpus=gpus,
        priority=priority,
        deficit_s=0.0,
        share=priority,
        is_allocated=is_allocated,
    )


def names(chosen: dict[str, list[Candidate]]) -> dict[str, list[str]]:
    return {flavor: ["+".join(one.row) for one in some] for flavor, some in chosen.items()}


def test_a_job_goes_where_it_is_most_behind_and_not_where_the_flavor_comes_first() -> None:
    found = [asking("a", "fast", 1.0), asking("a", "slow", 3.0), asking("b", "fast", 0.5)]
    free = {"fast": 1, "slow": 1}
    assert names(choose(found, free, ["fast", "slow"], DEFAULT)) == {"fast": ["b"], "slow": ["a"]}
    assert names(choose(found, free, ["fast", "slow"], STRICT)) == {"fast": ["a"], "slow": []}


def test_nobody_is_taken_to_a_flavor_without_a_share_but_strictly() -> None:
    found = [asking("a", "fast", 0.0)]
    assert names(choose(found, {"fast": 1}, ["fast"], DEFAULT)) == {"fast": []}
    assert names(choose(found, {"fast": 1}, ["fast"], STRICT)) == {"fast": ["a"]}


def test_ties_go_by_deficit_then_share_then_to_the_earlier_flavor_and_row() -> None:
    base = asking("a", "fast", 1.0)
    owed = Candidate(row=("b",), flavor="fast", gpus=1, priority=1.0, deficit_s=9.0, share=0.1)
    more = Candidate(row=("c",), flavor="fast", gpus=1, priority=1.0, deficit_s=0.0, share=2.0)
    free = {"fast": 3}
    assert names(choose([base, more, owed], free, ["fast"], DEFAULT)) == {"fast": ["b", "c", "a"]}
    twice = [asking("a", "slow", 1.0), asking("a", "fast", 1.0), asking("b", "fast", 1.0)]
    chosen = choose(twice, {"fast": 2, "slow": 1}, ["fast", "slow"], DEFAULT)
    assert names(chosen) == {"fast": ["a", "b"], "slow": []}


def test_whom_somebody_else_does_not_admit_is_passed_over_and_may_be_taken_elsewhere() -> None:
    found = [
        asking("a", "fast", 3.0),
        asking("b", "fast", 2.0, gpus=2),
        asking("a", "slow", 1.5),
        asking("c", "fast", 1.0),
    ]
    asked: list[str] = []

    def admits(one: Candidate) -> bool:
        asked.append(f"{one.row[0]} on {one.flavor}")
        return one.row != ("a",) or one.flavor == "slow"

    chosen = choose(found, {"fast": 2, "slow": 1}, ["fast", "slow"], DEFAULT, admits)
    assert names(chosen) == {"fast": ["b"], "slow": ["a"]}
    # Jobs without room by count are not checked further.
    assert asked == ["a on fast", "b on fast", "a on slow"]


def test_a_pair_takes_both_of_its_jobs() -> None:
    found = [asking("a+b", "fast", 2.0), asking("b", "fast", 1.0), asking("c", "fast", 0.5)]
    assert names(choose(found, {"fast": 2}, ["fast"], DEFAULT)) == {"fast": ["a+b", "c"]}


def test_one_that_is_too_large_lets_the_next_pass() -> None:
    found = [asking("a", "fast", 2.0, gpus=4), asking("b", "fast", 1.0)]
    assert names(choose(found, {"fast": 2}, ["fast"], DEFAULT)) == {"fast": ["b"]}


def test_who_cannot_run_on_a_flavor_has_no_priority_there_and_is_not_taken() -> None:
    book = joined(Book(flavors=("fast",), given_s={"fast": 0.0}), [("a",), ("b",)], STRICT)
    book = renewed(book, {("a",): {"fast": 1.0}}, 0.0, STRICT)
    found = candidates(book, {"a": 1, "b": 1}, lambda row, _: row == ("b",), 0.0, STRICT)
    assert [(one.row, one.priority, one.can_run) for one in found] == [
        (("a",), 0.0, False),
        (("b",), 0.0, True),
    ]
    assert [one.is_allocated for one in found] == [True, False]
    assert names(choose(found, {"fast": 2}, ["fast"], STRICT)) == {"fast": ["b"]}


def servers(*sizes: int, domains: str = "") -> list[Server]:
    found, first = [], 0
    for at, size in enumerate(sizes):
        gpus = tuple(range(first, first + size))
        found.append(Server(flavor="fast", gpus=gpus, domain=domains[at : at + 1]))
        first += size
    return found


def seated(
    wanted: list[tuple[str, int]], room: list[Server], before: dict[str, Place], rules: Rules
) -> dict[str, tuple[int, ...]]:
    chosen = {"fast": [asking(row, "fast", 1.0, gpus=gpus) for row, gpus in wanted]}
    was = {tuple(row.split("+")): where for row, where in before.items()}
    found = Places(room, rules).of(chosen, was)
    return {"+".join(row): where.gpus for row, where in found.items()}


def test_a_row_keeps_its_gpus_though_a_larger_one_comes() -> None:
    before = {"a": Place(flavor="fast", gpus=(0,))}
    wanted = [("a", 1), ("b", 2)]
    assert seated(wanted, servers(2, 2), before, DEFAULT) == {"a": (0,), "b": (2, 3)}
    assert seated(wanted, servers(2, 2), before, STRICT) == {"b": (0, 1), "a": (2,)}


def test_a_row_goes_into_the_server_where_least_is_left_over() -> None:
    assert seated([("a", 2)], servers(4, 2, 8), {}, DEFAULT) == {"a": (4, 5)}
    assert seated([("a", 2)], servers(4, 2, 8), {}, STRICT) == {"a": (0, 1)}


def test_a_row_that_fits_no_server_stays_in_a_domain_if_it_can() -> None:
    room = servers(2, 2, 2, 2, 2, domains="xyyxx")
    assert seated([("a", 4)], room, {}, DEFAULT) == {"a": (2, 3, 4, 5)}
    over = Places(room, DEFAULT).of({"fast": [asking("a", "fast", 1.0, gpus=8)]}, {})
    assert over["a",].is_spread
    assert len(set(over["a",].gpus)) == 8


def test_gpus_that_are_gone_or_of_another_flavor_are_not_kept() -> None:
    lost = {"a": Place(flavor="fast", gpus=(7,))}
    other = {"a": Place(flavor="slow", gpus=(1,))}
    assert seated([("a", 1)], servers(2), lost, DEFAULT) == {"a": (0,)}
    assert seated([("a", 1)], servers(2), other, DEFAULT) == {"a": (0,)}


def test_strictly_a_row_that_the_allocation_does_not_know_takes_room_and_has_no_place() -> None:
    unknown = asking("a", "fast", 0.0, is_allocated=False)
    assert Places(servers(1), STRICT).of({"fast": [unknown]}, {}) == {}
    before: dict[Row, Place] = {("a",): Place(flavor="fast", gpus=(0,))}
    assert Places(servers(1), STRICT).of({"fast": [unknown]}, before) == before


def test_a_lease_is_extended_where_the_gpus_stay() -> None:
    here = Place(flavor="fast", gpus=(0, 1))
    assert stays(here, Place(flavor="fast", gpus=(1, 0)))
    assert not stays(here, Place(flavor="fast", gpus=(1, 2)))
    assert not stays(None, here)
