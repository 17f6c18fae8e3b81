"""Grants of a round that name nodes: they start there, move there, and wait for these nodes."""

from __future__ import annotations

from quorate.core.commands import Apply, Command, Confirm, MarkNode, ShareOut
from quorate.core.decide import decide
from quorate.model.events import NodeStatus, RoundGrant
from quorate.model.refusal import RefusalCode
from quorate.model.state.apply_event import apply_all
from quorate.model.state.state import State
from quorate.sim.demand import START_MS
from tests.oracles.rounds import POOL, ROUND_MS, money, nodes, pool, run_of, team, work


def _state(**gpus: int) -> State:
    """Return four nodes of two GPUs, two in a domain, and runs that need one domain."""
    state = State()
    rates = work({"a100": 10.0}, steps=10**7)
    fields = {"flavors": ("a100",), "rounds": rates, "cross_group_spread": False}
    runs = [run_of(name, "ant", fields | {"gpus": count}) for name, count in gpus.items()]
    _do(state, Apply((pool(), *nodes(4, 2, ("a100",)), team("ant"), money("ant"), *runs)))
    return state


def _do(state: State, command: Command, now_ms: int = START_MS) -> None:
    decided = decide(state, command, now_ms=now_ms, actor="test", has_executor=True)
    assert not decided.refusals, decided.refusals
    apply_all(state, decided.events)


def _share(state: State, number: int, *grants: RoundGrant) -> int:
    """Begin a round with ``grants``, and return its time."""
    now_ms = START_MS + (number - 1) * ROUND_MS
    _do(state, ShareOut(pool=POOL, number=number, policy="by_weight", grants=grants), now_ms)
    return now_ms


def _meant(name: str, *nodes: tuple[str, int]) -> RoundGrant:
    return RoundGrant(name, "a100", nodes=tuple((f"a100-{node}", gpus) for node, gpus in nodes))


def _where(state: State, name: str) -> dict[str, int]:
    """Return the GPUs of a run on each node, by node number."""
    leases = [state.leases[lease] for lease in state.runs[name].leases]
    slots = [slot for lease in leases for slot in lease.fact.slots]
    return {node.removeprefix("a100-"): mask.bit_count() for node, mask in slots}


def test_a_grant_starts_on_the_nodes_that_are_meant_for_it() -> None:
    state = _state(one=2, two=1)
    _share(state, 1, _meant("one", ("2", 1), ("3", 1)), _meant("two", ("3", 1)))
    assert _where(state, "one") == {"2": 1, "3": 1}
    assert _where(state, "two") == {"3": 1}


def test_one_that_is_meant_to_be_elsewhere_moves() -> None:
    state = _state(one=2)
    _share(state, 1, _meant("one", ("0", 2)))
    now_ms = _share(state, 2, _meant("one", ("1", 1), ("0", 1)))
    (grant,) = state.rounds[POOL].shared.grants
    assert not grant.stays
    assert state.leases["one/0"].ending is not None
    _do(state, Confirm("one/0"), now_ms)
    assert _where(state, "one") == {"0": 1, "1": 1}
    _share(state, 3, RoundGrant("one", "a100"))
    assert state.rounds[POOL].shared.grants[0].stays


def test_nobody_takes_what_is_meant_for_another_and_comes_free_later() -> None:
    state = _state(old=1, late=1, wide=4, narrow=1)
    _share(state, 1, _meant("old", ("0", 1)), _meant("late", ("2", 1)))
    wide = _meant("wide", ("0", 2), ("1", 2))
    now_ms = _share(state, 2, wide, _meant("narrow", ("2", 2)))
    # The free GPUs in the first domain are kept, although no others are free there now.
    assert _where(state, "narrow") == {}
    assert _where(state, "wide") == {}
    _do(state, Confirm("late/0"), now_ms)
    assert _where(state, "narrow") == {"2": 1}
    assert _where(state, "wide") == {}
    _do(state, Confirm("old/0"), now_ms)
    assert _where(state, "wide") == {"0": 2, "1": 2}


def test_when_its_place_is_lost_it_starts_anywhere_once_all_have_gone() -> None:
    state = _state(old=1, wide=3)
    _share(state, 1, _meant("old", ("3", 1)))
    now_ms = _share(state, 2, _meant("wide", ("0", 2), ("1", 1)))
    assert _where(state, "wide") == {"0": 2, "1": 1}
    state = _state(old=1, wide=3)
    _share(state, 1, _meant("old", ("3", 1)))
    _do(state, MarkNode("a100-0", NodeStatus.CORDONED))
    _share(state, 2, _meant("wide", ("0", 2), ("1", 1)))
    # While any lease is stopping, GPUs for other grants are not used.
    assert _where(state, "wide") == {}
    _do(state, Confirm("old/0"), now_ms)
    assert sum(_where(state, "wide").values()) == 3
    assert "0" not in _where(state, "wide")


def test_what_finds_no_place_anywhere_is_refused_and_says_what_is_missing() -> None:
    state = _state(wide=4)
    _do(state, MarkNode("a100-0", NodeStatus.CORDONED))
    _do(state, MarkNode("a100-3", NodeStatus.CORDONED))
    _share(state, 1, _meant("wide", ("0", 2), ("1", 2)))
    refusal = state.runs["wide"].refusal
    assert refusal is not None
    assert refusal.code is RefusalCode.NO_SINGLE_DOMAIN
    assert (refusal.wanted, refusal.short) == (4, 2)


def test_one_that_may_spread_is_not_hopeless_because_one_that_may_not_is() -> None:
    state = _state(narrow=5)
    rates = work({"a100": 10.0}, steps=10**7)
    fields = {"flavors": ("a100",), "rounds": rates, "gpus": 5}
    _do(state, Apply((run_of("spread", "ant", fields),)))
    _share(state, 1, RoundGrant("narrow", "a100"), RoundGrant("spread", "a100"))
    assert _where(state, "narrow") == {}
    assert sum(_where(state, "spread").values()) == 5
