"""Default rounds: runs receive their shares, have one place, and no GPU idles unnecessarily."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.policy.rounds.round_book import (
    DEFAULT,
    STRICT,
    Book,
    Ran,
    Row,
    Rules,
    Shares,
    credited,
    joined,
    parted,
    renewed,
)
from quorate.policy.rounds.round_places import Place, Places, Server
from quorate.policy.rounds.row_choice import Candidate, candidates, choose
from quorate.policy.rounds.strict_choice import StrictChoice
from tests.oracles.effort import examples

FLAVORS = ("a", "b", "c")
ROUND_S = DEFAULT.round_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """GPUs by flavor, the GPUs of each job, and shares that are possible in full."""

    gpus: Mapping[str, int]
    sizes: Mapping[str, int]
    shares: Shares


@st.composite
def fleets(draw: st.DrawFn, *, sizes: tuple[int, ...]) -> Fleet:
    """Draw shares that are a mixture of rounds, so that rounds can realise them."""
    flavors = FLAVORS[: draw(st.integers(1, 3))]
    gpus = {flavor: draw(st.integers(1, 5)) for flavor in flavors}
    jobs = {f"j{number}": draw(st.sampled_from(sizes)) for number in range(draw(st.integers(1, 9)))}
    shares: dict[Row, dict[str, float]] = {(job,): dict.fromkeys(flavors, 0.0) for job in jobs}
    weights = draw(st.lists(st.integers(1, 9), min_size=1, max_size=5))
    for weight in weights:
        left = dict(gpus)
        for job in draw(st.permutations(list(jobs))):
            fitting = [flavor for flavor in flavors if left[flavor] >= jobs[job]]
            chosen = draw(st.sampled_from([None, *fitting]))
            if chosen is not None:
                left[chosen] -= jobs[job]
                shares[(job,)][chosen] += weight / sum(weights)
    return Fleet(gpus=gpus, sizes=jobs, shares=shares)


def opened(fleet: Fleet, rules: Rules) -> Book:
    flavors = tuple(fleet.gpus)
    empty = Book(flavors=flavors, given_s=dict.fromkeys(flavors, 0.0))
    return renewed(joined(empty, list(fleet.shares), rules), fleet.shares, 0.0, rules)


def chosen_at(book: Book, fleet: Fleet, at_s: float, rules: Rules) -> dict[str, list[Candidate]]:
    found = candidates(book, fleet.sizes, lambda _row, _flavor: True, at_s, rules)
    return choose(found, fleet.gpus, book.flavors, rules)


def lags(fleet: Fleet, *, rounds: int, renews_every: int) -> list[float]:
    """Return by how many rounds each row is behind its share of each flavor at most."""
    book = opened(fleet, DEFAULT)
    had: Counter[tuple[Row, str]] = Counter()
    for number in range(rounds):
        at_s = number * ROUND_S
        if number and number % renews_every == 0:
            book = renewed(book, fleet.shares, at_s, DEFAULT)
        chosen = chosen_at(book, fleet, at_s, DEFAULT)
        ran = [
            Ran(row=one.row, flavor=flavor, ran_s=ROUND_S)
            for flavor, some in chosen.items()
            for one in some
        ]
        had.update((each.row, each.flavor) for each in ran)
        book = credited(book, ran)
    return [
        share * rounds - had[row, flavor]
        for row, by_flavor in fleet.shares.items()
        for flavor, share in by_flavor.items()
    ]


@pytest.mark.slow
@examples(0.5)
@given(fleet=fleets(sizes=(1,)), renews_every=st.sampled_from([1, 7, 1000]))
def test_every_share_is_received_but_for_a_few_rounds(fleet: Fleet, renews_every: int) -> None:
    """For each job and flavor, over any time and with any number of allocations."""
    assert max(lags(fleet, rounds=150, renews_every=renews_every)) <= 4.0


@pytest.mark.slow
@examples(0.3)
@given(fleet=fleets(sizes=(1, 2, 4)), renews_every=st.sampled_from([1, 7, 1000]))
def test_shares_of_several_gpus_are_received_but_for_some_rounds(
    fleet: Fleet, renews_every: int
) -> None:
    assert max(lags(fleet, rounds=150, renews_every=renews_every)) <= 15.0


@pytest.mark.heavy
def test_where_all_gpus_are_given_each_fraction_is_its_share() -> None:
    shares: Shares = {
        ("x",): {"a": 0.5, "b": 0.5},
        ("y",): {"a": 0.25, "b": 0.25},
        ("z",): {"a": 0.25, "b": 0.25},
    }
    fleet = Fleet(gpus={"a": 1, "b": 1}, sizes=dict.fromkeys("xyz", 1), shares=shares)
    for renews_every in (1, 5, 1000):
        behind = lags(fleet, rounds=400, renews_every=renews_every)
        assert max(abs(lag) for lag in behind) <= 2.0


@pytest.mark.heavy
@given(fleet=fleets(sizes=(1, 2, 4)), rounds=st.integers(0, 6))
def test_nothing_idles_that_somebody_with_a_share_could_use(fleet: Fleet, rounds: int) -> None:
    book = opened(fleet, DEFAULT)
    for number in range(rounds + 1):
        chosen = chosen_at(book, fleet, number * ROUND_S, DEFAULT)
        taken = [job for some in chosen.values() for one in some for job in one.row]
        assert len(taken) == len(set(taken)), "a job is in two places"
        for flavor, some in chosen.items():
            used = sum(one.gpus for one in some)
            assert used <= fleet.gpus[flavor]
            assert all(fleet.shares[one.row][flavor] > 0.0 for one in some)
            unserved = [
                job
                for job, size in fleet.sizes.items()
                if job not in taken
                and fleet.shares[(job,)][flavor] > 0.0
                and size <= fleet.gpus[flavor] - used
            ]
            assert unserved == []
        ran = [
            Ran(row=one.row, flavor=flavor, ran_s=ROUND_S)
            for flavor, some in chosen.items()
            for one in some
        ]
        book = credited(book, ran)


def by_hand(
    found: list[Candidate], gpus: Mapping[str, int], order: tuple[str, ...]
) -> list[tuple[str, Row]]:
    """Return the chosen runs by selecting the best one that still fits, again and again."""
    left, taken, chosen = dict(gpus), set[str](), list[tuple[str, Row]]()
    while True:
        best: Candidate | None = None
        for flavor in order:
            for one in found:
                fits = one.flavor == flavor and one.share > 0 and one.gpus <= left[flavor]
                if fits and taken.isdisjoint(one.row) and (best is None or one.rank > best.rank):
                    best = one
        if best is None:
            return sorted(chosen)
        left[best.flavor] -= best.gpus
        taken.update(best.row)
        chosen.append((best.flavor, best.row))


@st.composite
def asking(draw: st.DrawFn) -> list[Candidate]:
    sizes = {job: draw(st.sampled_from([1, 1, 2, 4])) for job in "uvwxyz"}
    rows: list[Row] = [(job,) for job in sizes]
    rows += [(a, b) for a in sizes for b in sizes if a < b and sizes[a] == sizes[b]][:4]
    level = st.sampled_from([0.0, 0.5, 1.0, 2.0])
    return [
        Candidate(
            row=row,
            flavor=flavor,
            gpus=sizes[row[0]],
            priority=draw(level),
            deficit_s=draw(level),
            share=draw(level),
        )
        for flavor in FLAVORS
        for row in rows
    ]


@given(found=asking(), gpus=st.tuples(*[st.integers(0, 6)] * 3), order=st.permutations(FLAVORS))
def test_the_choice_is_the_best_of_all_again_and_again(
    found: list[Candidate], gpus: tuple[int, ...], order: list[str]
) -> None:
    free = dict(zip(FLAVORS, gpus, strict=True))
    chosen = choose(found, free, order, DEFAULT)
    ours = sorted((flavor, one.row) for flavor, some in chosen.items() for one in some)
    assert ours == by_hand(found, free, tuple(order))
    assert chosen == choose(found, free, order, DEFAULT)


@st.composite
def floors(draw: st.DrawFn) -> list[Server]:
    found, first = [], 0
    for _ in range(draw(st.integers(1, 6))):
        size = draw(st.integers(1, 4))
        flavor, domain = draw(st.sampled_from("ab")), draw(st.sampled_from("xy"))
        gpus = tuple(range(first, first + size))
        found.append(Server(flavor=flavor, gpus=gpus, domain=domain))
        first += size
    return found


@pytest.mark.heavy
@given(servers=floors(), data=st.data(), rules=st.sampled_from([DEFAULT, STRICT]))
def test_everybody_has_a_place_of_their_own_and_keeps_it(
    servers: list[Server], data: st.DataObject, rules: Rules
) -> None:
    before: dict[Row, Place] = {}
    sizes: dict[Row, int] = {(f"j{number}",): data.draw(st.integers(1, 4)) for number in range(8)}
    for _ in range(3):
        chosen = _drawn(data, servers, sizes)
        now = Places(servers, rules).of(chosen, before)
        assert now.keys() == {one.row for some in chosen.values() for one in some}
        used = [gpu for where in now.values() for gpu in where.gpus]
        assert len(used) == len(set(used)), "a GPU has two rows"
        for flavor, some in chosen.items():
            mine = {gpu for server in servers if server.flavor == flavor for gpu in server.gpus}
            for one in some:
                assert len(now[one.row].gpus) == one.gpus
                assert set(now[one.row].gpus) <= mine
                was = before.get(one.row)
                if rules == DEFAULT and was is not None and was.flavor == flavor:
                    assert now[one.row] == was, "its GPUs were free"
        for where in now.values():
            homes = [server for server in servers if not set(server.gpus).isdisjoint(where.gpus)]
            assert where.is_spread == (len(homes) > 1)
        assert now == Places(servers, rules).of(chosen, before)
        before = now


def _drawn(
    data: st.DataObject, servers: list[Server], sizes: Mapping[Row, int]
) -> dict[str, list[Candidate]]:
    """Draw as many chosen runs as there are GPUs for."""
    left = {"a": 0, "b": 0}
    for server in servers:
        left[server.flavor] += len(server.gpus)
    chosen: dict[str, list[Candidate]] = {"a": [], "b": []}
    for row in data.draw(st.permutations(list(sizes))):
        flavor = data.draw(st.sampled_from("ab"))
        if sizes[row] <= left[flavor]:
            left[flavor] -= sizes[row]
            one = Candidate(
                row=row, flavor=flavor, gpus=sizes[row], priority=1.0, deficit_s=0.0, share=1.0
            )
            chosen[flavor].append(one)
    return chosen


@st.composite
def paired_fleets(draw: st.DrawFn) -> tuple[Fleet, Mapping[tuple[Row, str], bool]]:
    """Draw a fleet with pairs, some with shares, and the flavors on which each row can run."""
    fleet = draw(fleets(sizes=(1, 2)))
    shares: dict[Row, Mapping[str, float]] = dict(fleet.shares)
    jobs = list(fleet.sizes)
    for at, one in enumerate(jobs):
        for other in jobs[:at]:
            if fleet.sizes[one] == fleet.sizes[other] and draw(st.booleans()):
                parts = st.sampled_from([0.0, 0.0, 0.125, 0.5])
                shares[other, one] = {flavor: draw(parts) for flavor in fleet.gpus}
    runs = {
        (row, flavor): draw(st.sampled_from([True, True, False]))
        for row in shares
        for flavor in fleet.gpus
    }
    return Fleet(gpus=fleet.gpus, sizes=fleet.sizes, shares=shares), runs


@examples(0.5)
@given(
    drawn=paired_fleets(),
    fills=st.booleans(),
    ran_s=st.lists(st.sampled_from([0.0, 60.0, 360.0]), min_size=1, max_size=4),
    gone=st.integers(0, 3),
)
def test_the_quick_strict_choice_is_the_choice_among_all_candidates(
    drawn: tuple[Fleet, Mapping[tuple[Row, str], bool]],
    fills: bool,  # noqa: FBT001 - drawn
    ran_s: list[float],
    gone: int,
) -> None:
    fleet, runs = drawn
    rules = replace(STRICT, serves_without_share=fills)
    quick = StrictChoice(fleet.sizes, lambda row, flavor: runs[row, flavor], rules)
    some = dict(list(fleet.shares.items())[::2])
    book = opened(Fleet(gpus=fleet.gpus, sizes=fleet.sizes, shares=some), rules)
    book = joined(book, [row for row in fleet.shares if row not in some], rules)
    for number, each_s in enumerate(ran_s):
        at_s, order = number * ROUND_S, tuple(fleet.gpus)[:: 1 if number % 2 else -1]
        found = candidates(book, fleet.sizes, lambda row, flavor: runs[row, flavor], at_s, rules)
        slow = choose(found, fleet.gpus, order, rules)
        assert quick.choose(book, fleet.gpus, order) == slow
        ran = [
            Ran(row=one.row, flavor=flavor, ran_s=each_s)
            for flavor, some_rows in slow.items()
            for one in some_rows
        ]
        book = credited(book, ran)
        if number == 1:
            book = parted(book, list(fleet.sizes)[:gone])
        if number == 2:
            book = renewed(book, some, at_s + ROUND_S, rules)
