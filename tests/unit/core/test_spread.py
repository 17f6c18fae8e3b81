"""The domains among which a request is divided, their order, and the cost of the search."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from quorate.core.admission.domain_offer import DomainOffers
from quorate.core.admission.layout import Bundle, PackRequest
from quorate.core.admission.payers import Demand
from quorate.core.admission.search_budget import SearchBudget
from quorate.core.admission.spread import Payable, Spread, spreads
from quorate.model.specs import DEFAULT_POOL, Node, Placement
from quorate.model.state.state import State
from quorate.testing.builders import fleet, node, world


def request(*bundles: Bundle, **more: object) -> PackRequest:
    rules: dict[str, object] = {"placement": Placement.CLASSIC, "one_domain": False} | more
    return PackRequest(pool=DEFAULT_POOL, flavor="H100", bundles=bundles, **rules)  # type: ignore[arg-type]


def grouped(*sizes: int) -> Bundle:
    return Bundle(0, sum(sizes), sizes)


def in_order(
    nodes: Sequence[Node], asked: PackRequest, payable: Payable | None = None
) -> list[list[tuple[str, int, int]]]:
    """Return (domain, GPUs of a group, groups) of each piece of each spread."""
    state: State = world(nodes=nodes)
    return [
        _told(spread) for spread in spreads(DomainOffers(state, asked), payable, SearchBudget())
    ]


def _told(spread: Spread) -> list[tuple[str, int, int]]:
    return [(piece.domain_offer.domain[-1], piece.gpus, piece.count) for piece in spread]


def only_at(*domains: str) -> Payable:
    """Return a payer that pays in these domains only."""

    def pays(demands: Sequence[Demand]) -> bool:
        return all(place.where[-1] in domains for place, _ in demands)

    return pays


@pytest.mark.parametrize("bundle", [Bundle(0, 8, None), grouped(4, 4)])
def test_a_domain_that_nobody_pays_for_is_left_out_and_not_given_nothing(bundle: Bundle) -> None:
    found = in_order(fleet({"A": 24, "B": 16}), request(bundle), only_at("B"))
    assert found
    assert {domain for spread in found for domain, _, _ in spread} == {"B"}
    assert all(gpus > 0 and count > 0 for spread in found for _, gpus, count in spread)


def test_what_one_domain_cannot_be_paid_for_goes_to_the_next() -> None:
    def pays_five_at_a(demands: Sequence[Demand]) -> bool:
        return all(gpus <= 5 for place, gpus in demands if place.where.endswith("A"))

    found = in_order(fleet({"A": 24, "B": 16}), request(Bundle(0, 8, None)), pays_five_at_a)
    assert found[0] == [("A", 5, 1), ("B", 3, 1)]


def test_groups_of_mixed_sizes_are_searched_for_where_filling_would_fail() -> None:
    nodes = [node("a", 5, "A"), node("b", 4, "B")]
    assert in_order(nodes, request(grouped(4, 3, 2)))[0] == [("B", 4, 1), ("A", 3, 1), ("A", 2, 1)]


def test_a_larger_group_after_smaller_ones_is_searched_for() -> None:
    nodes = [node("a", 5, "A"), node("b", 4, "B")]
    asked = request(Bundle(0, 3, (3,)), Bundle(1, 5, (5,)))
    assert in_order(nodes, asked)[0] == [("B", 3, 1), ("A", 5, 1)]


def test_several_smaller_groups_after_a_larger_one_are_searched_for() -> None:
    nodes = [node("a", 4, "A"), node("b", 3, "B")]
    assert in_order(nodes, request(grouped(3, 2, 2)))[0] == [("B", 3, 1), ("A", 2, 2)]


def test_a_domain_that_is_full_is_given_no_part_of_a_later_step() -> None:
    asked = request(Bundle(0, 8, None), Bundle(1, 4, None))
    assert in_order(fleet({"A": 8, "B": 8}), asked) == [[("A", 8, 1), ("B", 4, 1)]]


@pytest.mark.parametrize("spares", [0, 1])
@pytest.mark.parametrize(
    "bundle", [grouped(4, 4, 4), grouped(4, 4, 3), Bundle(0, 12, None)], ids=["even", "rest", "any"]
)
def test_groups_of_one_size_are_filled_in_without_searching(bundle: Bundle, spares: int) -> None:
    steps = SearchBudget()
    state = world(nodes=fleet({"A": 10, "B": 10}))
    domain_offers = DomainOffers(state, request(bundle, spares_per_group=spares))
    assert len(list(spreads(domain_offers, None, steps))) == 1
    assert steps == SearchBudget()


def test_the_domains_a_run_uses_come_first_most_free_first_then_by_key() -> None:
    nodes = [*fleet({"Z": 32}), *fleet(dict.fromkeys("FBDACE", 8)), *fleet({"G": 16})]
    prefer = frozenset(f"r/c/{domain}" for domain in "ABCDEFG")
    (found,) = in_order(nodes, request(Bundle(0, 66, None), prefer=prefer))
    assert [domain for domain, _, _ in found] == list("GABCDEFZ")


def test_no_spread_comes_up_twice() -> None:
    asked = request(Bundle(0, 3, None))
    found = in_order(fleet({"A": 3, "B": 3}), asked, lambda _: True)
    assert found == [
        [("A", 3, 1)],
        [("A", 2, 1), ("B", 1, 1)],
        [("A", 1, 1), ("B", 2, 1)],
        [("B", 3, 1)],
    ]


def test_groups_of_whole_nodes_are_made_up_of_mixed_sizes() -> None:
    nodes = [*(node(f"a{n}", 8) for n in range(3)), *(node(f"b{n}", 4) for n in range(5))]
    asked = request(grouped(12, 12), whole_nodes=True, one_domain=True)
    spreads_found = spreads(DomainOffers(world(nodes=nodes), asked), None, SearchBudget())
    amounts = [piece.amounts for spread in spreads_found for piece in spread]
    # Each group is eight and four, or three times four.
    assert amounts == [(16, 8), (8, 16)]


def test_a_search_that_is_cut_short_says_so() -> None:
    steps = SearchBudget(left=3)
    domain_offers = DomainOffers(
        world(nodes=fleet(dict.fromkeys("ABCD", 8))), request(Bundle(0, 32, None))
    )
    assert list(spreads(domain_offers, only_at("A"), steps)) == []
    assert steps.exhausted


def test_steps_that_are_not_left_are_not_taken() -> None:
    steps = SearchBudget(left=3)
    assert [steps.spend(2), steps.spend(2), steps.spend(), steps.spend()] == [
        True,
        False,
        True,
        False,
    ]
    assert steps == SearchBudget(left=0, exhausted=True)


def test_no_rack_gives_less_than_nothing() -> None:
    nodes = [node(f"n{rack}", 4, rack=f"k{rack}") for rack in range(3)]
    domain_offers = DomainOffers(world(nodes=nodes), request(Bundle(0, 3, None)), by_rack=True)
    found = spreads(domain_offers, lambda _: True, SearchBudget())
    amounts = [piece.amounts for spread in found for piece in spread]
    # Three groups can be divided among three domains in ten ways.
    assert len(amounts) == len(set(amounts)) == 10
    assert all(sum(each) == 3 and min(each) >= 0 for each in amounts)
