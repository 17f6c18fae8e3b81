"""Services, schedulers and clients of one ledger while machines and links fail: answers are right.

Three services of one ledger with three members of etcd elect a leader; clients send requests to any
of them. Four schedulers, one for each pool, append to the same ledger. Members, services and
schedulers are killed, paused and restarted; links are slow, interrupted again and again, or cut in
one direction or both; clocks step. Afterwards the ledger must be a valid chain, no prefix of it may
exceed a quota or lease a slot twice, and one order of all requests must explain the answers to
every client and every scheduler (``quorate.testing.client_history``).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.bounds import until
from tests.etcd.fault_cluster import faulty_cluster
from tests.etcd.fault_play import FORMS, Form, Machines, assert_sound, check, play
from tests.etcd.fault_schedulers import SCHEDULERS, Schedulers
from tests.etcd.fault_services import CLIENTS, Clients, Services
from tests.etcd.fault_world import documents
from tests.etcd.history_file import counts_of
from tests.service.program import START_S


class Fleet:
    """The services and the schedulers of one ledger, which fail in the same ways."""

    def __init__(self, services: Services, schedulers: Schedulers) -> None:
        self._services, self._schedulers = services, schedulers

    @property
    def names(self) -> Sequence[str]:
        return [*self._services.names, *self._schedulers.names]

    def pause(self, name: str) -> None:
        self._having(name).pause(name)

    def go_on(self, name: str) -> None:
        self._having(name).go_on(name)

    def kill(self, name: str) -> None:
        self._having(name).kill(name)

    def start(self, name: str) -> None:
        self._having(name).start(name)

    def start_all(self) -> None:
        self._services.start_all()
        self._schedulers.start_all()

    def set_ahead(self, name: str, ahead_ms: int) -> None:
        is_service = name in self._services.names
        (self._services if is_service else self._schedulers).set_ahead(name, ahead_ms)

    def _having(self, name: str) -> Machines:
        return self._services if name in self._services.names else self._schedulers


@pytest.mark.slow
@pytest.mark.timeout(2_400)
@pytest.mark.parametrize("form", FORMS)
def test_every_answer_is_true_while_machines_and_links_fail(
    etcd_program: Path, tmp_path: Path, form: Form
) -> None:
    seed = form.chosen_seed()
    print(f"QUORATE_FAULT_SEED={seed}")  # noqa: T201 - shown when it fails
    with faulty_cluster(etcd_program, tmp_path, form.members) as cluster, ExitStack() as stack:
        services = Services(cluster, tmp_path, stack)
        stack.callback(services.close)
        services.begin()
        services.apply(documents())
        clients = Clients(services, seed, next_s=form.next_s, way_s=form.way_s)
        schedulers = Schedulers(
            cluster, tmp_path, stack, seed, next_s=form.next_s, way_s=form.way_s
        )

        def wait_recorded() -> None:
            clients.wait_recorded(fewest=1)
            schedulers.wait_recorded(fewest=1)

        with clients.asking():
            # A client does not wait longer for its turn than for an answer, which may be too short
            # on a busy machine while schedulers race.
            clients.wait_recorded()
            schedulers.start_all()
            schedulers.wait_recorded()
            fleet = Fleet(services, schedulers)
            faults = play(seed, form, cluster, fleet, wait_recorded)
            services.wait_agreed()
            schedulers.wait_recorded()
            schedulers.end()
            clients.wait_recorded()
        services.end()
        operations = [*clients.operations(), *schedulers.operations()]
        print(f"{faults} faults; by REST: {dict(counts_of(clients.operations()))}")  # noqa: T201
        print(f"schedulers: {dict(counts_of(schedulers.operations()))}")  # noqa: T201
        assert_sound(services.url, operations)
    assert counts_of(operations)["done"] >= 2 * (CLIENTS + SCHEDULERS)


@pytest.mark.soak
@pytest.mark.parametrize("bug", ["no-compare", "early-answer", "stale-reads"])
def test_a_planted_bug_is_found(etcd_program: Path, tmp_path: Path, bug: str) -> None:
    with faulty_cluster(etcd_program, tmp_path) as cluster, ExitStack() as stack:
        race = Schedulers(cluster, tmp_path, stack, seed=1, next_s=0)
        race.make_ledger()
        race.start_all()
        until(lambda: len(race.clients()) == SCHEDULERS, "all ask", START_S, tell=race.logs)
        race.plant(bug)
        more = len(race.operations()) + 1_500
        until(
            lambda: len(race.operations()) > more, "they race", START_S, every_s=1.0, tell=race.logs
        )
        race.end()
        found = check(race.url, race.operations())
        print(f"{bug}: {len(found)} found, first: {found[:3]}")  # noqa: T201 - shown with -s
        assert [each for each in found if "run e" in each or "of e" in each], found
