"""Starts by a conflict keep their place from runs that are submitted later.

Times are minutes since the beginning of each history, in which ``b`` runs on all GPUs or on some.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from msgspec.structs import replace

from quorate.core.commands import (
    Apply,
    Command,
    Complete,
    Confirm,
    Decision,
    Drain,
    Draw,
    Removable,
    Remove,
    Resolve,
    Submit,
    Tick,
)
from quorate.core.planning.late_cuts import late_cuts
from quorate.model.amounts import HOUR_MS, MINUTE_MS, PPM
from quorate.model.events import (
    ConflictWithdrawn,
    Event,
    MoveCause,
    MoveCode,
    NodeApplied,
    ReservationMade,
    ReservationMoved,
)
from quorate.model.refusal import RefusalCode
from quorate.model.specs import Budget, Cap, Node, OnQuota, Owner, Pool, Quota, Run, Sharing
from quorate.model.state.apply_event import apply
from quorate.model.state.records import Phase
from quorate.testing.builders import NOW_MS, budget, envelope, node, run
from tests.oracles.checked_lives import CheckedLife

HALF = Quota(fair_share_target_ppm=PPM // 2)


class World:
    """A checked history of the owners ann, bob and cat, who all have money.

    ann and bob are children of ``family``, if it is given.
    """

    def __init__(
        self,
        *nodes: Node,
        pool: Pool | None = None,
        budgets: Sequence[Budget] = (),
        quota: Quota | None = None,
        family: Owner | None = None,
    ) -> None:
        names = ("ann", "bob", "cat")
        own = {each.name: each for each in map(money, names)} | {
            each.name: each for each in budgets
        }
        self.life = CheckedLife(
            nodes=nodes or (node("n1"), node("n2")),
            owners=[
                *(() if family is None else (family,)),
                *(Owner(name=each, quota=quota or Quota()) for each in names if each == "cat"),
                *(
                    Owner(
                        name=each,
                        quota=quota or Quota(),
                        parents=() if family is None else (family.name,),
                    )
                    for each in names
                    if each != "cat"
                ),
            ],
            budgets=list(own.values()),
            pools=[pool or Pool(name="default", disruption_rate_ppm=PPM)],
        )

    def play(self, command: Command, minute: float) -> Decision:
        """Carry out ``command`` at ``minute``."""
        return self.life.play(command, NOW_MS + int(minute * MINUTE_MS))

    def draw(self, minute: float) -> None:
        """Draw all conflicts that are due."""
        state = self.life.state
        for name in list(state.open_conflicts):
            if state.conflicts[name].declared.due_ms <= NOW_MS + minute * MINUTE_MS:
                self.play(Draw(name), minute)

    def confirm(self, minute: float) -> None:
        """Confirm the ends of all leases that are stopping."""
        for name, lease in list(self.life.state.leases.items()):
            if lease.ending is not None:
                self.play(Confirm(name), minute)

    def tick(self, *minutes: float) -> list[Event]:
        """Tick, draw and confirm at each of ``minutes``; return the events of the ticks."""
        events: list[Event] = []
        for minute in minutes:
            events += self.play(Tick(), minute).events
            self.draw(minute)
            self.confirm(minute)
        return events

    def is_running(self, name: str) -> bool:
        """Return whether a run is running."""
        return self.life.state.runs[name].phase is Phase.RUNNING


def money(owner: str, gpus: int = 64) -> Budget:
    """Return the budget of ``owner``, which it does not share."""
    return budget(f"b-{owner}", owner, replace(envelope("e", gpus), sharing=Sharing.NONE))


def of(name: str, gpus: int, owner: str, hours: float, grace_ms: int = 0, **more: object) -> Run:
    """Return a run that declares ``hours``, without grace unless it is given."""
    duration_ms = int(hours * HOUR_MS)
    made = run(name, gpus, owner, expected_duration_ms=duration_ms, checkpoint_ms=grace_ms)
    return replace(made, nonce=name, **more)


def planned(decision: Decision) -> Iterator[tuple[str, float, bool]]:
    """Yield (run, minute, by conflict) of the starts that became firm in a decision."""
    for event in decision.events:
        if isinstance(event, ReservationMade):
            yield event.run, (event.planned_start_ms - NOW_MS) / MINUTE_MS, event.by_conflict


def causes(events: Sequence[Event]) -> list[MoveCause]:
    """Return the causes of all moves in ``events``."""
    return [event.cause for event in events if isinstance(event, ReservationMoved)]


@pytest.mark.parametrize("with_decoy", [False, True])
def test_a_decoy_of_the_owner_that_may_be_drawn_does_not_void_a_conflict(
    *, with_decoy: bool
) -> None:
    world = World(node("n1"), pool=Pool(name="default"), quota=HALF)
    world.play(Submit(of("b", 8, "bob", 3)), 0)
    assert list(planned(world.play(Submit(of("x", 4, "ann", 4)), 115))) == [("x", 135, True)]
    if with_decoy:
        assert not list(planned(world.play(Submit(of("decoy", 8, "bob", 0.1)), 121)))
    world.tick(130)
    world.tick(136, 137)
    assert world.is_running("x")


@pytest.mark.parametrize("owner", ["cat", "ann"])
def test_a_younger_start_does_not_get_the_idle_gpus_of_a_start_by_conflict(owner: str) -> None:
    world = World()
    world.play(Submit(of("b", 8, "bob", 100)), 0)
    assert list(planned(world.play(Submit(of("x", 16, "ann", 4)), 120))) == [("x", 140, True)]
    world.play(Submit(of("y", 8, owner, 4)), 127)
    assert not world.is_running("y")
    world.tick(135, 136)
    assert world.is_running("x")


def test_a_run_planned_right_behind_a_start_by_conflict_does_not_void_it() -> None:
    world = World(node("n1"))
    world.play(Submit(of("b", 8, "bob", 100)), 0)
    short = of("x", 8, "ann", 0.25, grace_ms=2 * MINUTE_MS)
    assert list(planned(world.play(Submit(short), 120))) == [("x", 140, True)]
    world.play(Submit(of("y", 8, "cat", 0.25)), 121)
    world.tick(135)
    assert world.is_running("x")


@pytest.mark.parametrize("late", [0.0, 0.5])
def test_the_run_of_a_conflict_gets_the_freed_gpus_however_late_they_come_free(late: float) -> None:
    world = World(node("n1", domain="A"), node("n2", domain="B"))
    for name in ("b0", "b1"):
        world.play(Submit(of(name, 8, "bob", 100, grace_ms=5 * MINUTE_MS)), 0)
    world.play(Submit(of("x", 16, "ann", 4)), 120)
    world.play(Submit(of("y", 16, "cat", 4)), 121)
    world.play(Tick(), 135)
    world.draw(135)
    moved = [
        event
        for minute in (136, 140, 140.1)[: 3 if late else 1]
        for event in world.play(Tick(), minute).events
    ]
    codes = [cause.code for cause in causes(moved)]
    assert (MoveCode.CONFLICT_CLEARING in codes) == bool(late)
    world.confirm(140 + late)
    assert world.is_running("x")
    assert not world.is_running("y")


@pytest.mark.parametrize("hours", [100, 998, 1_000, 2_000])
def test_work_declared_to_last_until_the_windows_close_is_not_safe_from_conflicts(
    hours: int,
) -> None:
    world = World(node("n1"))
    world.play(Submit(of("b", 8, "bob", hours)), 0)
    assert list(planned(world.play(Submit(of("x", 8, "ann", 4)), 120))) == [("x", 140, True)]
    world.tick(135)
    assert world.is_running("x")


@pytest.mark.parametrize("submitted", [50, 70])
def test_work_that_declared_too_little_is_not_safe_from_conflicts(submitted: int) -> None:
    world = World(node("n1"))
    world.play(Submit(of("b", 8, "bob", 1)), 0)
    (first,) = planned(world.play(Submit(of("x", 8, "ann", 4)), submitted))
    assert not first[2]  # Its natural start is less than a notice away.
    events = world.tick(*range(submitted + 5, 180, 5))
    assert MoveCode.CONFLICT_FOUND in [cause.code for cause in causes(events)]
    assert world.is_running("x")


def test_a_near_firm_start_keeps_its_place_instead_of_a_conflict() -> None:
    world = World(node("n1"), pool=Pool(name="default", disruption_rate_ppm=0))
    world.play(Submit(of("b", 8, "bob", 3)), 0)
    assert list(planned(world.play(Submit(of("x", 8, "ann", 4)), 130))) == [("x", 180, False)]
    world.play(Apply((Pool(name="default", disruption_rate_ppm=PPM),)), 131)
    assert not causes(world.tick(132, 140, 150))


@pytest.mark.parametrize(
    ("command", "code", "name"),
    [
        (Remove(Removable.BUDGET, "b-ann"), MoveCode.BUDGET_CHANGED, "b-ann/e"),
        (Apply((money("ann", 4),)), MoveCode.BUDGET_CHANGED, "b-ann/e"),
        (Drain("n2"), MoveCode.NODE_DRAINED, "n2"),
    ],
)
def test_a_start_by_conflict_that_no_conflict_can_help_is_called_off_at_once(
    command: Command, code: MoveCode, name: str
) -> None:
    world = World()
    world.play(Submit(of("b", 8, "bob", 100)), 0)
    world.play(Submit(of("x", 16, "ann", 4)), 120)
    decision = world.play(command, 121)
    (cause,) = causes(decision.events)
    assert (cause.code, [each for _, each in cause.objects]) == (code, [name])
    assert any(isinstance(event, ConflictWithdrawn) for event in decision.events)
    (record,) = world.life.state.reservations.values()
    assert (record.planned_start_ms, record.by_conflict) == (None, False)


def test_a_later_run_does_not_use_up_the_account_of_an_earlier_start_by_conflict() -> None:
    world = World(
        node("n1", domain="A"),
        node("n2", domain="B"),
        pool=Pool(name="default"),
        budgets=[money("ann", 8)],
    )
    there = [(("fabric.domain", name),) for name in ("A", "B")]
    world.play(Submit(of("b", 8, "bob", 500, selector=there[1])), 0)
    world.play(Submit(of("a", 8, "bob", 500, selector=there[0])), 100)
    assert list(planned(world.play(Submit(of("x", 4, "ann", 4, selector=there[0])), 120))) == [
        ("x", 165, True)
    ]
    assert not list(planned(world.play(Submit(of("x2", 4, "ann", 4, selector=there[1])), 121)))
    world.tick(136, 141, 160)
    assert world.is_running("x")


def test_no_conflict_by_hand_is_about_a_cap_that_was_removed() -> None:
    capped = replace(
        money("ann"), caps=(Cap(name="c", flavor="H100", envelopes=("e",), concurrency_max=64),)
    )
    world = World(budgets=[capped])
    world.play(Submit(of("a", 8, "ann", 100)), 0)
    by_hand = Resolve("default", "H100", (), 4, cap="b-ann/c")
    world.play(by_hand, 120)
    world.play(Apply((money("ann"),)), 121)
    world.tick(135)
    assert world.is_running("a")
    (refusal,) = world.play(by_hand, 136).refusals
    assert refusal.code is RefusalCode.UNKNOWN_NAME


def test_a_start_by_conflict_has_payers_whose_windows_are_open_at_its_start() -> None:
    """The first window closes after the cut at 135, and before the start at 140."""
    spans = ((-60, 137), (137, 100_000))
    lines = [
        replace(
            envelope(
                f"w{number}",
                64,
                start_ms=NOW_MS + begins * MINUTE_MS,
                end_ms=NOW_MS + ends * MINUTE_MS,
            ),
            sharing=Sharing.NONE,
        )
        for number, (begins, ends) in enumerate(spans)
    ]
    world = World(node("n1"), budgets=[budget("b-ann", "ann", *lines)])
    world.play(Submit(of("b", 8, "bob", 3)), 0)
    assert list(planned(world.play(Submit(of("x", 8, "ann", 4)), 120))) == [("x", 140, True)]
    (record,) = world.life.state.reservations.values()
    assert [share.payer for share in record.payers] == ["b-ann/w1"]
    events = world.play(Submit(of("y", 1, "cat", 4)), 120.5).events
    assert not causes([*events, *world.tick(121, 122, 135)])
    assert world.life.state.runs["b"].phase is Phase.PENDING


def test_no_conflict_is_called_for_headroom_that_older_firm_starts_need() -> None:
    """From minute 120 on, the quota of org is used up by n1 and n2."""
    pool = Pool(name="default", disruption_rate_ppm=PPM, notice_ms=MINUTE_MS)
    pool = replace(pool, grace_max_ms=MINUTE_MS, runtime_min_ms=30 * MINUTE_MS)
    world = World(
        node("n1", domain="A"),
        node("n2", domain="B"),
        pool=pool,
        family=Owner(name="org", quota=Quota(concurrent_runs_max=2)),
    )
    there = [(("fabric.domain", name),) for name in ("A", "B")]
    world.play(Submit(of("c", 8, "cat", 100, selector=there[0])), 0)
    world.play(Submit(of("a1", 8, "ann", 1 / 3, selector=there[1])), 100)
    for name in ("n1", "n2"):
        world.play(Submit(of(name, 4, "ann", 4, selector=there[1], on_quota=OnQuota.WAIT)), 110)
    third = of("x", 8, "bob", 4, selector=there[0], on_quota=OnQuota.WAIT)
    assert not list(planned(world.play(Submit(third), 111)))
    assert not causes(world.tick(112, 113))
    assert world.is_running("c")


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (Drain("n1"), MoveCode.NODE_DRAINED),
        (Apply((money("ann", 8),)), MoveCode.BUDGET_CHANGED),
        (Apply((Owner(name="ann", quota=Quota(concurrent_runs_max=0)),)), MoveCode.QUOTA_CHANGED),
    ],
)
def test_a_settled_start_that_becomes_impossible_moves_for_that_cause(
    command: Command, code: MoveCode
) -> None:
    world = World()
    for name in ("b1", "b2"):
        world.play(Submit(of(name, 8, "bob", 100, grace_ms=5 * MINUTE_MS)), 0)
    world.play(Submit(of("x", 16, "ann", 4)), 120)
    world.play(Tick(), 135)
    world.draw(135)
    decision = world.play(command, 140.1)
    assert [cause.code for cause in causes(decision.events)] == [code]


def test_a_start_whose_cut_leases_end_late_does_not_wait_for_them_if_other_gpus_are_free() -> None:
    world = World(node("n1"))
    world.play(Submit(of("b", 8, "bob", 100, grace_ms=2 * MINUTE_MS)), 0)
    assert list(planned(world.play(Submit(of("x", 8, "ann", 4)), 120))) == [("x", 140, True)]
    world.play(Tick(), 135)
    world.draw(135)
    # The executor should have stopped b at 137.
    assert not causes(world.play(Apply((node("n2"),)), 138).events)
    assert world.is_running("x")


def test_a_start_by_conflict_moves_no_older_start_for_a_node_that_it_lost() -> None:
    """At 220, x has too few GPUs beside z, because n3 is drained. The executor ends d late, too."""
    world = World(*(node(name) for name in ("n1", "n2", "n3")))
    for name, hours in (("b", 10 / 3), ("c", 10 / 3), ("d", 100)):
        world.play(Submit(of(name, 8, "bob", hours, grace_ms=2 * MINUTE_MS)), 0)
    world.play(Submit(of("y", 16, "cat", 1 / 3)), 190)
    for name in ("b", "c"):
        world.play(Complete(name, has_gone=True), 200)
    assert world.is_running("y")
    assert list(planned(world.play(Submit(of("z", 16, "cat", 4)), 200))) == [("z", 220, False)]
    assert list(planned(world.play(Submit(of("x", 8, "ann", 4)), 200.5))) == [("x", 220.5, True)]
    world.play(Tick(), 215.5)
    world.draw(215.5)
    (gone,) = {node for node, _ in world.life.state.leases["d/0"].fact.slots}
    world.play(Drain(gone), 216)
    world.play(Tick(), 217.6)
    world.play(Complete("y", has_gone=True), 220)
    assert world.is_running("z")
    # x waits for the end of z. Its place is free then, however late d is.
    for minute in (230, 300, 400, 459):
        world.play(Tick(), minute)
    assert not causes(world.play(Complete("z", has_gone=True), 460).events)
    assert world.is_running("x")


def test_a_start_that_is_overdue_waits_for_its_cut_leases_though_counting_finds_room() -> None:
    """Otherwise the start would be due again a millisecond later, for as long as they last."""
    world = World(node("n1"))
    world.play(Submit(of("b", 8, "bob", 100, grace_ms=2 * MINUTE_MS)), 0)
    world.play(Submit(of("x", 8, "ann", 4)), 120)
    world.play(Tick(), 135)
    world.draw(135)
    trial = world.life.state.overlay()
    applied = NodeApplied(at_ms=NOW_MS + 138 * MINUTE_MS, actor="", node=node("n2"))
    apply(trial, applied)  # No decision follows, so x does not start on n2.
    records = list(trial.reservations.values())
    found = [
        late_cuts(trial, records, NOW_MS + minute * MINUTE_MS, has_executor=True)
        for minute in (139, 140, 141)
    ]
    assert [(list(each.gone_ms), set(each.first)) for each in found] == [
        ([], set()),
        ([], set()),
        (["x@1"], {"x@1"}),
    ]
