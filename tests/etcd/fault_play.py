"""Carries out a schedule of faults, and checks the ledger and the answers afterwards.

A failure prints its seed. ``QUORATE_FAULT_SEED=17`` repeats that schedule.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from random import Random
from typing import Protocol

import pytest

from quorate.adapters.stores import store_urls
from quorate.core.audit.history_audit import audit
from quorate.core.audit.invariants import sweep
from quorate.ledger.chain import Block, Broken, open_blocks, verify_blocks
from quorate.loop.engine import Engine
from quorate.model.events import Event
from quorate.testing.client_history import Operation, check_history
from quorate.testing.memory_engines import HandClock
from tests.etcd.fault_cluster import MEMBERS, Cluster
from tests.etcd.fault_proxy import Links
from tests.etcd.fault_schedule import Fault, Kind, schedule


class Machines(Protocol):
    """Programs, by name, that can be killed, paused and restarted."""

    @property
    def names(self) -> Sequence[str]:
        """The names of all programs."""
        ...

    def pause(self, name: str) -> None:
        """Stop ``name`` with SIGSTOP; return when it has stopped."""
        ...

    def go_on(self, name: str) -> None:
        """Continue ``name`` with SIGCONT."""
        ...

    def kill(self, name: str) -> None:
        """Kill ``name``; fail if it has ended by itself before."""
        ...

    def start(self, name: str) -> None:
        """Restart ``name``."""
        ...

    def start_all(self) -> None:
        """Restart all programs."""
        ...


class Clients(Machines, Protocol):
    """Programs that use etcd, each with a separate clock."""

    def set_ahead(self, name: str, ahead_ms: int) -> None:
        """Set the clock of ``name`` ahead of the machine's clock by ``ahead_ms`` from now on."""
        ...


MOST_KINDS = tuple(each for each in Kind if each is not Kind.RESTART_ALL)
"""All kinds but restarting everything, which takes as much CPU as a minute of all other faults."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """How long faults are played, and at most how many.

    Between two requests each client waits for ``next_s``, and for the duration of its last request
    up to ``way_s``: so the clients leave CPU to other tests on a busy machine. A form with a
    ``seed`` has the same schedule each time.
    """

    for_s: float
    faults_max: float = inf
    kinds: Sequence[Kind] = tuple(Kind)
    members: int = MEMBERS
    next_s: float = 0.4
    way_s: float = 0.0
    seed: int | None = None

    def chosen_seed(self) -> int:
        """Return the requested seed, the seed of the form, or a random one."""
        named = os.environ.get("QUORATE_FAULT_SEED")
        if named is not None:
            return int(named)
        return Random().randrange(1_000_000) if self.seed is None else self.seed


TEST = Form(for_s=120, kinds=MOST_KINDS, way_s=5.0, seed=1)
"""The form of ``make test``: it mostly waits, and takes little CPU."""
LONE = Form(for_s=60, kinds=MOST_KINDS, members=1, seed=1)
"""A cluster of one member: while it is away, no other member answers."""
FORMS = [
    pytest.param(TEST, id="two-minutes"),
    pytest.param(LONE, id="one-member", marks=pytest.mark.soak),
    pytest.param(Form(for_s=8, faults_max=3), id="seconds", marks=pytest.mark.soak),
    pytest.param(Form(for_s=120), id="two-minutes-of-all", marks=pytest.mark.soak),
    pytest.param(Form(for_s=1_200), id="twenty-minutes", marks=pytest.mark.soak),
]


def play(
    seed: int, form: Form, cluster: Cluster, clients: Clients, wait_recorded: Callable[[], None]
) -> int:
    """Carry out the schedule of ``seed``; return the number of faults.

    ``wait_recorded`` returns when a request that was sent after the call is recorded.
    """
    faults = schedule(seed, members=cluster.names, clients=clients.names, kinds=form.kinds)
    began_s = time.monotonic()
    for number, fault in enumerate(faults):
        if number >= form.faults_max or time.monotonic() - began_s > form.for_s:
            return number
        wait_until(time.monotonic() + fault.after_s)
        print(f"{time.monotonic() - began_s:7.2f} s: {fault}")  # noqa: T201 - when it fails
        carry_out(fault, cluster, clients)
        if fault.is_got_over:
            wait_recorded()
    raise AssertionError("a schedule has no end")


def carry_out(fault: Fault, cluster: Cluster, clients: Clients) -> None:
    """Carry out ``fault`` for its duration, and undo it."""
    end_s = time.monotonic() + fault.for_s
    links = cluster.links
    machines: Machines = cluster if fault.machine in cluster.names else clients
    match fault.kind:
        case Kind.KILL:
            machines.kill(fault.machine)
            wait_until(end_s)
            machines.start(fault.machine)
        case Kind.PAUSE:
            machines.pause(fault.machine)
            wait_until(end_s)
            machines.go_on(fault.machine)
        case Kind.RESTART_ALL:
            _kill_all(clients)
            _kill_all(cluster)
            wait_until(end_s)
            cluster.start_all()
            clients.start_all()
        case Kind.CLOCK:
            _set_clocks(fault, clients)
            wait_until(end_s)
        case Kind.SLOW:
            links.slow(fault.links, fault.delay_s)
            wait_until(end_s)
        case Kind.FLAP:
            _flap(fault, links, end_s)
        case Kind.CUT | Kind.CUT_THERE | Kind.CUT_BACK:
            there = fault.kind is not Kind.CUT_BACK
            links.cut(fault.links, there=there, back=fault.kind is not Kind.CUT_THERE)
            wait_until(end_s)
    links.mend()


def _set_clocks(fault: Fault, clients: Clients) -> None:
    for name, ahead_ms in fault.clocks:
        clients.set_ahead(name, ahead_ms)


def _kill_all(machines: Machines) -> None:
    for name in machines.names:
        machines.kill(name)


def _flap(fault: Fault, links: Links, end_s: float) -> None:
    while time.monotonic() < end_s:
        links.cut(fault.links)
        wait_until(time.monotonic() + fault.delay_s)
        links.mend(fault.links)
        links.reset(fault.links)
        wait_until(time.monotonic() + fault.delay_s)


def wait_until(end_s: float) -> None:
    """Sleep until ``end_s``: the duration of a fault is part of the test."""
    time.sleep(max(0.0, end_s - time.monotonic()))


def check(url: str, operations: Sequence[Operation]) -> list[str]:
    """Return the faults of the ledger at ``url`` and of the answers to clients."""
    with store_urls.read_store(url) as store:
        blocks = list(store.blocks())
        found = verify_blocks(blocks, deep=True)
        if isinstance(found, Broken):
            sound = events_in(blocks[: found.height - 1])
            return [str(found), *check_history(operations, sound)]
        view = Engine.open(store, HandClock()).view
        violations = [str(each) for each in sweep(view)]
    events = events_in(blocks)
    violations += [str(each) for each in audit(events, view=view)]
    return violations + check_history(operations, events)


def assert_sound(url: str, operations: Sequence[Operation]) -> None:
    """Fail if ``check`` finds a fault, and show all requests about the runs in it.

    They are the message, because pytest shortens lists.
    """
    found = check(url, operations)
    told = "\n".join(found)
    about = {each.run for each in operations if each.run in told}
    asked = sorted((each for each in operations if each.run in about), key=lambda each: each.sent)
    assert not found, "\n".join([told, *(str(each) for each in asked)])


def events_in(blocks: Sequence[Block]) -> list[Event]:
    return [event for _, events in open_blocks(blocks) for event in events]
