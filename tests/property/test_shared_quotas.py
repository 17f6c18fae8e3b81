"""Firm starts under quotas of shared nodes, with runs that take their declared time."""

from __future__ import annotations

from itertools import combinations
from typing import NamedTuple

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from quorate.core.admission.hard_quota import Headroom
from quorate.core.commands import Complete, Submit
from quorate.core.profile.firm_places import firm_profile
from quorate.core.profile.room_left import room_left
from quorate.model.amounts import HOUR_MS
from quorate.model.events import ReservationMoved
from quorate.model.specs import OnQuota, Owner, Quota
from quorate.testing.builders import NOW_MS, node
from tests.oracles.lives import Life
from tests.oracles.plans import clashes, of, planned_life, tick_until

TENANTS = ("one", "two")


class Wish(NamedTuple):
    """A run of a tenant in one domain, submitted some minutes after the previous one."""

    after: int
    gpus: int
    domain: str
    minutes: int
    tenant: str


WISHES = st.builds(
    Wish,
    st.sampled_from((0, 1, 20)),
    st.integers(1, 6),
    st.sampled_from("AAB"),
    st.sampled_from((30, 60, 180)),
    st.sampled_from(TENANTS),
)


def bounded_life(quota: int) -> Life:
    """Return two domains of small nodes, of which the tenants together may hold ``quota``."""
    nodes = [node(f"a{n}", 3) for n in range(3)] + [node(f"b{n}", 6, domain="B") for n in range(2)]
    parent = Owner(name="parent", quota=Quota(nodes_max=quota))
    owners = [parent, *(Owner(name=name, parents=("parent",)) for name in TENANTS)]
    return planned_life(nodes=nodes, owners=owners)


def play_wishes(life: Life, wishes: list[Wish]) -> None:
    """Submit each wish at its time; each started run ends at its declared end."""
    at_ms = NOW_MS
    for number, wish in enumerate(wishes):
        at_ms += wish.after * 60_000
        end_runs(life, at_ms)
        where = (("fabric.domain", wish.domain),)
        more = {"selector": where, "on_quota": OnQuota.WAIT}
        life.do(Submit(of(f"r{number}", wish.gpus, wish.tenant, wish.minutes, **more)), at_ms)


def end_runs(life: Life, until_ms: int) -> None:
    """End each run that has started, at its declared end."""
    while True:
        ends = [
            (record.since_ms + (record.spec.expected_duration_ms or 0), name)
            for name, record in life.state.runs.items()
            if record.leases and record.since_ms is not None
        ]
        if not ends or min(ends)[0] > until_ms:
            return
        end_ms, name = min(ends)
        if end_ms > life.now_ms:
            due_ms = life.due_ms()
            if due_ms is not None and due_ms < end_ms:
                tick_until(life, end_ms - 1)
        life.do(Complete(name, has_gone=True), end_ms)
        assert clashes(life) == []


@pytest.mark.heavy
@given(st.integers(1, 4), st.lists(WISHES, min_size=3, max_size=7))
@example(1, [Wish(0, 2, "A", 60, "one"), Wish(1, 2, "B", 60, "two"), Wish(1, 1, "A", 180, "one")])
def test_no_firm_start_moves_while_every_run_takes_what_it_declares(
    quota: int, wishes: list[Wish]
) -> None:
    life = bounded_life(quota)
    play_wishes(life, wishes)
    assert clashes(life) == []
    end_runs(life, NOW_MS + 40 * HOUR_MS)
    assert [event for event in life.events if isinstance(event, ReservationMoved)] == []


@pytest.mark.heavy
@given(st.integers(1, 4), st.lists(WISHES, min_size=2, max_size=5), WISHES)
def test_nodes_are_refused_exactly_where_a_firm_start_needs_the_quota(
    quota: int, wishes: list[Wish], wish: Wish
) -> None:
    """Compared with a count, at every instant, of the nodes that would be held."""
    life = bounded_life(quota)
    play_wishes(life, wishes)
    view, now_ms = life.state, life.now_ms
    asked = of("asked", wish.gpus, wish.tenant, wish.minutes)
    until_ms = now_ms + wish.minutes * 60_000
    headroom = Headroom.of(room_left(view, asked, now_ms, until_ms=until_ms), wish.tenant)
    assert headroom is not None
    planned = firm_profile(view, now_ms).bounded.values()
    held: dict[str, int] = {}
    for name, lease in view.leases.items():
        record = view.runs[lease.fact.run]
        end_ms = (record.since_ms or 0) + (record.spec.expected_duration_ms or 0)
        for where, _ in lease.fact.slots:
            held[where] = max(held.get(where, 0), end_ms)
        assert end_ms >= now_ms, name
    instants = {now_ms, *held.values(), *(entry.start_ms for entry in planned)}

    def fits(nodes: tuple[str, ...]) -> bool:
        return all(
            len({name for name, end_ms in held.items() if end_ms > at_ms} | {*nodes})
            + sum(e.nodes for e in planned if e.start_ms <= at_ms < e.end_ms)
            <= quota
            for at_ms in instants
            if now_ms <= at_ms < until_ms
        )

    for count in (1, 2, 3):
        for nodes in combinations(sorted(view.nodes), count):
            assert (headroom.refuses(nodes) is None) == fits(nodes), nodes
