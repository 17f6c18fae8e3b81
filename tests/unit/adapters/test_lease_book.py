"""What keepers are told about leases, and the generation of a run to which leases belong."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from quorate.adapters.executors.lease_book import Book
from quorate.adapters.executors.local_isolation import work_maker
from quorate.keeper.wanted import Wanted
from quorate.model.events import EndReason, Role, StartReason
from quorate.model.specs import Run
from quorate.ports.executor_port import EndLease, FenceNode, Order, StartLease, StopLease, WipeNode
from quorate.testing.builders import run
from quorate.testing.lease_orders import lease_started, start_lease

ROOT = Path("/srv/jobs")
SPEC = run("r", 1, command=("train",), nonce="n")
OTHER = run("r", 1, command=("train",), nonce="other")
BARE = run("bare", 1)
END = EndReason.END


def book() -> Book:
    return Book(lambda spec: bool(spec.command), work_maker(ROOT, None))


def start(
    number: int,
    *gpus: int,
    node: str = "n1",
    bundle: int = 0,
    role: Role = Role.ACTIVE,
    reason: StartReason = StartReason.START,
    spec: Run = SPEC,
) -> StartLease:
    name = f"{spec.name}/{number}"
    slots = {node: gpus or (number,)}
    fact = lease_started(name, slots, bundle=bundle, role=role, reason=reason)
    return start_lease(spec, fact)


def wanted(found: Book, name: str = "r") -> Wanted:
    asked = found.wanted(name)
    assert asked is not None
    return asked


def leases(found: Book) -> list[str]:
    return [part.lease for part in wanted(found).parts]


def test_a_run_is_told_its_work_and_its_slots() -> None:
    found = book()
    assert found.take([start(0, 1, 3)], {}) == ["r"]
    asked = wanted(found)
    assert asked.life == "n/r/0"
    assert asked.slots == (("n1", 1), ("n1", 3))
    assert asked.work.command == ("train",)
    assert asked.work.working_dir == "/srv/jobs/runs/r/home"
    assert found.runs() == ["r"]
    assert found.any_lease("r") == "r/0"


def test_a_rank_keeps_its_place_when_steps_come_and_go() -> None:
    found = book()
    found.take([start(0), start(1)], {})
    found.take([start(5, bundle=2, reason=StartReason.GROW)], {})
    found.take([start(4, bundle=1, reason=StartReason.GROW)], {})
    assert leases(found) == ["r/0", "r/1", "r/4", "r/5"]
    found.take([EndLease("r/4", EndReason.SHRINK)], {})
    assert leases(found) == ["r/0", "r/1", "r/5"]
    assert wanted(found).life == "n/r/0"


def test_a_stop_is_told_and_heard_of_twice_changes_nothing() -> None:
    found = book()
    found.take([start(0)], {})
    assert found.stopping() == []
    assert found.take([StopLease("r/0", 99)], {}) == ["r"]
    assert found.take([StopLease("r/0", 99)], {}) == ["r"]
    assert [part.stop_by_ms for part in wanted(found).parts] == [99]
    assert found.stopping() == ["r"]
    found.take([EndLease("r/0", END)], {})
    assert found.stopping() == []
    assert found.take([StopLease("r/0", 99), EndLease("r/0", END)], {}) == []


def test_a_hand_over_goes_on_with_the_same_life() -> None:
    found = book()
    found.take([start(0, 0)], {})
    found.take([EndLease("r/0", EndReason.HANDOVER), start(1, 0, reason=StartReason.HANDOVER)], {})
    assert wanted(found).life == "n/r/0"
    assert leases(found) == ["r/1"]


def test_a_swap_of_all_it_had_goes_on_with_the_same_life() -> None:
    found = book()
    found.take([start(0, node="n1")], {})
    orders: list[Order] = [
        FenceNode("n1"),
        EndLease("r/0", EndReason.FAIL),
        start(1, node="n2", reason=StartReason.SWAP),
    ]
    assert found.take(orders, {}) == ["r"]
    assert wanted(found).life == "n/r/0"
    assert wanted(found).slots == (("n2", 1),)


def test_one_that_is_put_back_and_started_in_one_commit_begins_another_life() -> None:
    found = book()
    found.take([start(0, 0)], {})
    found.take([EndLease("r/0", EndReason.FAIL), start(1, 0)], {})
    assert wanted(found).life == "n/r/1"


def test_one_that_starts_again_later_begins_another_life() -> None:
    found = book()
    found.take([start(0)], {})
    found.take([EndLease("r/0", EndReason.DRAINED)], {})
    assert wanted(found).parts == ()
    # A start reason that continues earlier work, without earlier work.
    found.take([start(1, reason=StartReason.GROW)], {})
    assert wanted(found).life == "n/r/1"


def test_a_restart_loses_no_life_and_finds_one_that_began_meanwhile() -> None:
    first = book()
    first.take([start(0), start(1)], {})
    first.take([start(2, bundle=1, reason=StartReason.GROW)], {})
    before = {"r": wanted(first)}
    # Killed before or after the orders of the last commit were carried out.
    for orders, life in (
        ([start(0), start(1), start(2, bundle=1, reason=StartReason.GROW)], "n/r/0"),
        ([start(1), start(0)], "n/r/0"),
        ([start(3, reason=StartReason.HANDOVER)], "n/r/0"),
        ([start(3, reason=StartReason.SWAP), start(1)], "n/r/0"),
        ([start(3)], "n/r/3"),
    ):
        again = book()
        again.take(orders, before)
        assert wanted(again).life == life, orders
    again = book()
    assert again.take([], before) == []
    assert again.wanted("r") is None


def test_another_run_of_the_same_name_begins_a_life_of_its_own() -> None:
    first = book()
    first.take([start(0)], {})
    before = {"r": wanted(first)}
    again = book()
    again.take([start(0, spec=OTHER)], before)
    assert (wanted(again).life, wanted(again).nonce) == ("other/r/0", "other")
    # An older version wrote no nonce; its work continues.
    again = book()
    again.take([start(0)], {"r": replace(before["r"], nonce=None, life="r/0")})
    assert wanted(again).life == "r/0"


def test_what_the_ledger_does_not_name_any_more_is_dropped() -> None:
    found = book()
    found.take([start(0), start(1), StopLease("r/1", 5), start(0, spec=BARE)], {})
    assert found.forget({"r/0"}) == ["r", "bare"]
    assert leases(found) == ["r/0"]
    assert found.stopping() == []
    assert found.runs() == ["r"]
    found.drop("r")
    found.drop("bare")
    assert found.runs() == ["r"]
    assert found.any_lease("bare") is None


def test_spares_and_runs_without_a_command_have_no_work_and_go_at_once() -> None:
    found = book()
    found.take([start(0), start(1, role=Role.SPARE), start(0, spec=BARE)], {})
    assert leases(found) == ["r/0"]
    assert found.wanted("bare") is None
    assert found.stopping_idle("r") == []
    found.take([StopLease(name, 5) for name in ("r/0", "r/1", "bare/0")], {})
    assert found.stopping_idle("r") == ["r/1"]
    assert found.stopping_idle("bare") == ["bare/0"]
    assert found.stopping_idle("unheard-of") == []


def test_a_node_that_failed_is_lost_to_what_is_open_there_and_to_nothing_later() -> None:
    found = book()
    fact = lease_started("r/0", {"n1": [0], "n2": [1]})
    found.take([start_lease(SPEC, fact), start(1, node="n3", bundle=1)], {})
    assert found.take([FenceNode("n2"), FenceNode("n2")], {}) == ["r"]
    asked = wanted(found)
    assert [part.lost for part in asked.parts] == [(("n2", 1),), ()]
    assert asked.stands_still
    assert asked.slots == (("n3", 1),)
    assert found.take([FenceNode("n9"), WipeNode("n1", "c")], {}) == []
    found.take([EndLease("r/0", EndReason.FAIL), start(2, node="n2")], {})
    assert not wanted(found).stands_still


# --- Against a model that remembers everything ---


@dataclass
class Model:
    """All open leases, and the generation that follows from the story."""

    open: dict[str, StartLease] = field(default_factory=dict)
    stops: dict[str, int] = field(default_factory=dict)
    life: str = ""

    def play(self, orders: list[Order]) -> None:
        before = set(self.open)
        for order in orders:
            if isinstance(order, StartLease):
                self.open[order.lease.lease] = order
            elif isinstance(order, StopLease) and order.lease in self.open:
                # The earliest deadline applies: a stop may become earlier, but never later.
                known = self.stops.get(order.lease, order.deadline_ms)
                self.stops[order.lease] = min(known, order.deadline_ms)
            elif isinstance(order, EndLease):
                self.open.pop(order.lease, None)
                self.stops.pop(order.lease, None)
        goes_on = before & set(self.open) or (
            before and any(o.lease.reason is not StartReason.START for o in self.open.values())
        )
        if self.open and not goes_on:
            self.life = f"n/{next(iter(self.open))}"

    def standing(self) -> list[Order]:
        orders: list[Order] = []
        for name, each in self.open.items():
            orders.append(each)
            if name in self.stops:
                orders.append(StopLease(name, self.stops[name]))
        return orders


@st.composite
def stories(draw: st.DrawFn) -> list[tuple[list[Order], bool]]:
    """Return batches of orders of a ledger, and whether the service is killed before each."""
    story: list[tuple[list[Order], bool]] = []
    opened: list[str] = []
    number = 0
    for _ in range(draw(st.integers(1, 8))):
        batch: list[Order] = []
        for _ in range(draw(st.integers(1, 4))):
            kind = draw(st.sampled_from(["start", "stop", "end"]))
            if kind == "start" or not opened:
                reason = (
                    draw(st.sampled_from(list(StartReason)))
                    if opened or batch
                    else (StartReason.START)
                )
                batch.append(start(number, reason=reason, bundle=draw(st.integers(0, 2))))
                opened.append(f"r/{number}")
                number += 1
            elif kind == "stop":
                batch.append(StopLease(draw(st.sampled_from(opened)), draw(st.integers(1, 9))))
            else:
                gone = draw(st.sampled_from(opened))
                opened.remove(gone)
                batch.append(EndLease(gone, END))
        story.append((batch, draw(st.booleans())))
    return story


@given(stories())
def test_any_story_is_told_as_it_is_also_over_restarts(
    story: list[tuple[list[Order], bool]],
) -> None:
    model, found = Model(), book()
    told: dict[str, Wanted] = {}
    for batch, is_killed in story:
        model.play(batch)
        if is_killed:
            # The last wanted state is in a file; the book begins with the ledger's open leases.
            found = book()
            found.take(model.standing(), told)
        else:
            found.take(batch, told)
        asked = found.wanted("r")
        parts = () if asked is None else asked.parts
        assert {part.lease: part.stop_by_ms for part in parts} == {
            name: model.stops.get(name) for name in model.open
        }
        assert set(found.stopping()) == ({"r"} if model.stops else set())
        if asked is not None and model.open:
            told["r"] = asked
            assert asked.life == model.life
            assert [part.bundle for part in parts] == sorted(part.bundle for part in parts)
        elif "r" in told:
            told["r"] = replace(told["r"], parts=())
