"""Elections: two services never lead at the same instant, and a deposed leader cannot append.

The property test plays an etcd with leases, virtual time, lost answers and candidates that pause;
the other tests use a real etcd.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.adapters.etcd.election import Candidate, Election, Look
from quorate.adapters.etcd.etcd_address import EtcdAddress
from quorate.adapters.etcd.etcd_client import EtcdClient
from quorate.adapters.etcd.etcd_requests import Get
from quorate.adapters.etcd.leadership import Following, Leading, Timers, leads_at
from quorate.adapters.stores.etcd_records import EtcdKeys
from quorate.adapters.stores.store_etcd import EtcdStore
from quorate.ledger.chain import GENESIS
from quorate.ports.errors import NotLeaderError, StoreError
from quorate.testing.store_contract import fill
from tests.bounds import WAIT_S
from tests.etcd.played_etcd import Fate
from tests.etcd.played_leases import PlayedLeases

KEYS = EtcdKeys("t")
TIMERS = Timers(lease_s=3, renew_every_s=1.0, margin_s=0.5)
CANDIDATES = 3
STEP_S = 0.25


def played_candidate(etcd: PlayedLeases, number: int) -> Election:
    def look(after: int, within_s: float) -> Look:
        del after, within_s
        etcd.expire()
        rows = etcd.get(Get(KEYS.leader))
        return Look(rows[0] if rows else None, etcd.revision)

    who = Candidate(name=f"c{number}", address="", leader_key=KEYS.leader, term_key=KEYS.term)
    return Election(etcd, who, look, timers=TIMERS, clock_s=lambda: etcd.now_s)


steps = st.tuples(
    st.integers(0, 3),
    st.integers(0, CANDIDATES - 1),
    st.lists(st.sampled_from(Fate), max_size=2),
    st.sampled_from(["go on"] * 30 + ["step down"]),
    st.booleans(),
)


@pytest.mark.heavy
@given(st.lists(steps, min_size=40, max_size=80))
def test_two_never_lead_at_once_and_terms_only_grow(
    drawn: list[tuple[int, int, list[Fate], str, bool]],
) -> None:
    etcd = PlayedLeases()
    candidates = [played_candidate(etcd, number) for number in range(CANDIDATES)]
    terms: dict[int, str] = {}
    last_term = 0
    for passed, number, fates, wish, comes_late in drawn:
        etcd.now_s += STEP_S * passed
        etcd.expire()
        # A candidate that is not drawn pauses; if it is not drawn for long, it pauses longer than a
        # lease.
        etcd.fates = iter(fates)
        if wish == "step down":
            candidates[number].step_down()
        with suppress(StoreError):
            candidates[number].turn()
        etcd.fates = iter(())
        if comes_late:
            # The lease may have ended when a late transaction is carried out.
            with suppress(NotLeaderError):
                etcd.carry_out_late()
        leading = [each.standing for each in candidates if each.leads()]
        assert len(leading) <= 1
        for standing in leading:
            assert isinstance(standing, Leading)
            row = etcd.rows[KEYS.leader]
            # The leader's belief is what etcd has, so its appends would succeed.
            assert row.create_revision == standing.revision
            record = standing.record
            assert terms.setdefault(record.term, record.name) == record.name
            assert record.term >= last_term
            last_term = record.term


def test_there_is_a_leader_soon_once_all_is_well() -> None:
    etcd = PlayedLeases()
    candidates = [played_candidate(etcd, number) for number in range(CANDIDATES)]
    for round_number in range(40):
        etcd.now_s += STEP_S
        for each in candidates:
            each.turn()
        assert sum(each.leads() for each in candidates) == 1, round_number
    assert etcd.rows[KEYS.term].value == b"1"


# --- A real etcd ---


def two_stores(address: EtcdAddress, folder: Path) -> tuple[EtcdStore, EtcdStore]:
    folder.mkdir()
    store = EtcdStore.create(address)
    return store, EtcdStore.open(replace(address, local=folder / "ledger"))


@pytest.fixture
def stores(address: EtcdAddress, tmp_path: Path) -> Iterator[tuple[EtcdStore, EtcdStore]]:
    one, two = two_stores(address, tmp_path / "other")
    with one, two:
        yield one, two


def is_leading(standing: object) -> bool:
    return isinstance(standing, Leading)


@pytest.mark.slow
def test_one_leads_and_the_other_follows_until_it_steps_down(
    stores: tuple[EtcdStore, EtcdStore],
) -> None:
    one, two = (
        store.stand_for_leader(name, f"http://{name}")
        for store, name in zip(stores, ("one", "two"), strict=True)
    )
    with pytest.raises(NotLeaderError):
        fill(stores[0], blocks=1)
    one.start()
    first = one.wait(is_leading, WAIT_S)
    assert isinstance(first, Leading)
    assert first.record.term == 1
    two.start()
    seen = two.wait(lambda each: isinstance(each, Following) and bool(each.leader), WAIT_S)
    assert seen == Following(leader=first.record)
    fill(stores[0], blocks=2)
    with pytest.raises(NotLeaderError, match="another program leads"):
        fill(stores[1], blocks=1)
    one.step_down()
    second = two.wait(is_leading, WAIT_S)
    assert isinstance(second, Leading)
    assert second.record.term == 2
    assert not one.leads()
    fill(stores[1], blocks=1)
    with pytest.raises(NotLeaderError):
        fill(stores[0], blocks=1)
    assert stores[0].head().height == 3
    # A candidate that is closed leaves at once.
    two.close()
    two.close()
    assert not two.leads()
    one.close()


@pytest.mark.slow
def test_a_leader_whose_lease_was_ended_by_others_follows_and_appends_nothing(
    stores: tuple[EtcdStore, EtcdStore], client: EtcdClient
) -> None:
    changes: list[bool] = []
    election = stores[0].stand_for_leader(
        "one", "", on_change=lambda standing: changes.append(is_leading(standing))
    )
    election.start()
    first = election.wait(is_leading, WAIT_S)
    assert isinstance(first, Leading)
    fill(stores[0], blocks=1)
    client.revoke(first.lease)
    # The candidate notices this, and is elected again with a new term.
    again = election.wait(lambda each: isinstance(each, Leading) and each.record.term > 1, WAIT_S)
    assert isinstance(again, Leading)
    assert again.revision > first.revision
    assert changes == [False, True, False, True]
    fill(stores[0], blocks=1)
    election.close()


@pytest.mark.slow
def test_a_leader_that_paused_is_deposed_and_the_compare_stops_it(
    stores: tuple[EtcdStore, EtcdStore], client: EtcdClient
) -> None:
    """The first leader gets no more turns, like a process that is paused longer than its lease."""
    paused = stores[0].stand_for_leader("one", "")
    paused.turn()
    first = paused.standing
    assert isinstance(first, Leading)
    fill(stores[0], blocks=1)
    client.revoke(first.lease)
    other = stores[1].stand_for_leader("two", "")
    other.start()
    assert isinstance(other.wait(is_leading, WAIT_S), Leading)
    assert isinstance(paused.standing, Leading), "it still believes"
    with pytest.raises(NotLeaderError):
        fill(stores[0], blocks=1)
    fill(stores[1], blocks=1)
    assert stores[1].head().height == 2
    assert stores[1].head() != GENESIS
    assert not leads_at(paused.standing, first.until_s)
    other.close()
