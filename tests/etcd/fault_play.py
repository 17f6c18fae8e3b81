"""Carries out a schedule of faults, and judges the ledger and the answers afterwards.

A failure prints its seed. ``QUORATE_FAULT_SEED=17`` has that schedule again.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from random import Random
from typing import Protocol

from quorate.adapters.stores import store_urls
from quorate.core.audit.history_audit import audit
from quorate.core.audit.invariants import sweep
from quorate.ledger.chain import Block, Broken, open_blocks, verify_blocks
from quorate.loop.engine import Engine
from quorate.model.events import Event
from quorate.testing.client_history import Operation, check_history
from quorate.testing.memory_engines import HandClock
from tests.etcd.fault_cluster import Cluster
from tests.etcd.fault_schedule import Fault, Kind, schedule
from tests.etcd_server import pause


class Machines(Protocol):
    """Programs that are killed, paused and started again, by name."""

    @property
    def names(self) -> Sequence[str]:
        """All of them."""
        ...

    def process(self, name: str) -> subprocess.Popen[bytes]:
        """Return the process of ``name``, which runs."""
        ...

    def kill(self, name: str) -> None:
        """End ``name`` at once; one that has ended by itself is an error."""
        ...

    def start(self, name: str) -> None:
        """Start ``name`` again."""
        ...

    def start_all(self) -> None:
        """Start all of them again."""
        ...


def chosen_seed() -> int:
    """Return the seed that is asked for, or another one each time."""
    named = os.environ.get("QUORATE_FAULT_SEED")
    return Random().randrange(1_000_000) if named is None else int(named)


def play(seed: int, for_s: float, cluster: Cluster, clients: Machines) -> int:
    """Carry out the schedule of ``seed`` for so long; return how many faults there were."""
    faults = schedule(seed, for_s, members=len(cluster.names), writers=len(clients.names))
    began_s = time.monotonic()
    for number, fault in enumerate(faults):
        wait_until(began_s + fault.at_s)
        if time.monotonic() - began_s > for_s:
            return number
        print(f"{time.monotonic() - began_s:7.2f} s: {fault}")  # noqa: T201 - when it fails
        carry_out(fault, cluster, clients)
    return len(faults)


def carry_out(fault: Fault, cluster: Cluster, clients: Machines) -> None:
    """Do what ``fault`` says, wait for as long as it says, and undo it."""
    end_s = time.monotonic() + fault.for_s
    links = cluster.links
    is_member = fault.machine.startswith("m")
    machines: Machines = cluster if is_member else clients
    match fault.kind:
        case Kind.KILL:
            machines.kill(fault.machine)
            wait_until(end_s)
            machines.start(fault.machine)
        case Kind.PAUSE:
            process = machines.process(fault.machine)
            pause(process)
            wait_until(end_s)
            process.send_signal(signal.SIGCONT)
        case Kind.RESTART_ALL:
            for each in (clients, cluster):
                for name in each.names:
                    each.kill(name)
            wait_until(end_s)
            cluster.start_all()
            clients.start_all()
        case Kind.SLOW:
            links.slow(fault.links, fault.delay_s)
            wait_until(end_s)
        case Kind.FLAP:
            while time.monotonic() < end_s:
                links.cut(fault.links)
                wait_until(time.monotonic() + fault.delay_s)
                links.mend(fault.links)
                links.reset(fault.links)
                wait_until(time.monotonic() + fault.delay_s)
        case Kind.CUT | Kind.CUT_THERE | Kind.CUT_BACK:
            there = fault.kind is not Kind.CUT_BACK
            links.cut(fault.links, there=there, back=fault.kind is not Kind.CUT_THERE)
            wait_until(end_s)
    links.mend()


def wait_until(end_s: float) -> None:
    """Return at ``end_s``: how long a fault lasts is what is tried, and no test waits for it."""
    time.sleep(max(0.0, end_s - time.monotonic()))


def check(url: str, operations: Sequence[Operation]) -> list[str]:
    """Return what is wrong with the ledger at ``url``, and with what clients were answered."""
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


def events_in(blocks: Sequence[Block]) -> list[Event]:
    return [event for _, events in open_blocks(blocks) for event in events]
