"""Takes the steps of one run in a cluster: starts, warns, ends and restarts its pods.

The pure function that decides the next step of local processes (``keeper/next_step.py``) also
decides the steps here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic, time
from typing import Final

from quorate.adapters.kubernetes.kubelet_notes import note_of
from quorate.adapters.kubernetes.pod_gangs import KILLED_S, Crew
from quorate.adapters.kubernetes.pod_manifest import Placement
from quorate.adapters.kubernetes.pod_orders import PodOrders
from quorate.adapters.kubernetes.pod_readiness import HeldUp
from quorate.adapters.kubernetes.run_retries import RunRetries
from quorate.adapters.kubernetes.start_refusals import StartRefusals
from quorate.keeper.next_step import Drop, Kill, Rest, Start, Warn, next_step
from quorate.keeper.wanted import Exited, Wanted, Work
from quorate.model.amounts import SECOND_MS
from quorate.model.specs import Run
from quorate.model.task_arrays import array_variables
from quorate.ports.errors import ClusterRefusedError
from quorate.ports.executor_port import Readiness

_LOG = logging.getLogger(__name__)

FAILURE_GRACE_S: Final = 10
"""The longest grace period of pods of a run after one pod failed; their work is lost anyway."""
CODE_INVALID: Final = 126
"""The exit code of a run whose pods the API server does not accept."""
INVALID: Final = 422
PODS_READY_S: Final = 300.0
"""A run gives its GPUs back when its pods have been blocked for this long."""


@dataclass(frozen=True, slots=True)
class RunSteps:
    """Takes the steps of runs, on one thread. ``place_of`` returns the ``Placement`` of a run."""

    place_of: Callable[[Run], Placement]
    retries: RunRetries
    pods_ready_s: float = PODS_READY_S
    held_up: HeldUp = field(default_factory=HeldUp)
    refusals: StartRefusals = field(default_factory=StartRefusals)
    _invalid: dict[str, Exited] = field(default_factory=dict)

    def take(self, orders: PodOrders, spec: Run, wanted: Wanted) -> bool:
        """Take the step that is due; return whether another step may be due after it."""
        crew = orders.watch.crew(spec.name)
        strangers = [each for each in crew.pods if each.record.nonce != spec.nonce]
        if strangers:
            # A restored ledger may give the name of a run to another run.
            orders.kill(strangers)
            return all(each.is_over for each in strangers)
        gang = crew.gang
        if gang is not None and gang.life == wanted.life and gang.stop_by_ms is None:
            if crew.failed is not None:
                left = [each for each in crew.live if each.stop_by_ms is None]
                orders.end(left, min(FAILURE_GRACE_S, _seconds(wanted.work.grace_ms)))
                return False
            if crew.is_starting and _is_due(crew, wanted):
                return self._start(orders, spec, wanted, crew.generation)
        now_ms = clock_ms()
        step = next_step(wanted, gang, self.exit_of(spec.name, crew, wanted), now_ms)
        if isinstance(step, Rest):
            if step.until_ms is not None:
                due_s = monotonic() + max(0, step.until_ms - now_ms) / SECOND_MS
                self.retries.at(spec.name, due_s)
            return False
        if isinstance(step, Start):
            orders.end(crew.pods, 0)
            known = orders.watch.services(spec.name)
            last = max(crew.generation, *(each.generation for each in known), 0)
            return self._start(orders, spec, wanted, last + 1)
        return _end_some(orders, crew, step, now_ms)

    def exit_of(self, name: str, crew: Crew, wanted: Wanted) -> Exited | None:
        """Return how a run's work ended by itself, or why its pods are invalid; else None."""
        invalid = self._invalid.get(name)
        if invalid is not None and invalid.life != wanted.life:
            del self._invalid[name]
            invalid = None
        return invalid or crew.exited

    def overdue(self, name: str, wanted: Wanted | None, ready: Readiness) -> str:
        """Return why a run cannot be started; empty if it works, stops, or may still start.

        A run that may still start is scheduled to be checked again at its time limit.
        """
        if wanted is None or wanted.stands_still:
            self.held_up.forget(name)
            return ""
        now_s = monotonic()
        since_s = self.held_up.since_s(name, wanted.life, ready, now_s)
        if since_s is None:
            return ""
        if now_s < since_s + self.pods_ready_s:
            self.retries.at(name, since_s + self.pods_ready_s)
            return ""
        return note_of(ready.reason, ready.message)

    def forget(self, name: str) -> None:
        """Forget a run that has ended."""
        self.held_up.forget(name)
        self.refusals.forget(name)
        self._invalid.pop(name, None)

    def _start(self, orders: PodOrders, spec: Run, wanted: Wanted, generation: int) -> bool:
        """Start the pods of a run; return False, because later events show whether they work.

        A refused start is repeated after a pause. Changes of the run's pods do not shorten the
        pause, because these changes come from pods that were created before the refusal and are
        being deleted.
        """
        name, life = spec.name, wanted.life
        until_s = self.refusals.until_s(name, life)
        if monotonic() < until_s:
            self.retries.at(name, until_s)
            return False
        place = self.place_of(spec)
        try:
            orders.start(place, spec, wanted, generation)
        except ClusterRefusedError as error:
            if error.status == INVALID:
                note = f"the API server does not accept its pods: {error}"
                self._invalid[name] = Exited(life=life, code=CODE_INVALID, note=note)
                self.refusals.forget(name)
                return False
            why = place.without_numbers(str(error))
            if self.refusals.note(name, life, why, monotonic()):
                _LOG.warning("run %s could not be started; trying again: %s", name, why)
            self.retries.at(name, self.refusals.until_s(name, life))
            return False
        self.refusals.forget(name)
        return False


def end_all(orders: PodOrders, name: str) -> None:
    """Delete all pods of a run without open leases."""
    orders.kill(orders.watch.crew(name).pods)
    if not orders.watch.crew(name).pods:
        orders.forget(name)


def has_work(run: Run) -> bool:
    """Return whether a run has work under its leases: its own pods or a workload."""
    return run.image is not None or run.workload is not None


def work_of(run: Run, grace_ms: int) -> Work:
    """Return the command, environment and grace period of a run's pods."""
    return Work(
        run=run.name,
        command=run.command,
        env={**dict(run.env), **array_variables(run)},
        working_dir=run.working_dir or "",
        processes=run.processes.value,
        grace_ms=grace_ms,
    )


def clock_ms() -> int:
    """Return the time of day in Unix milliseconds; the deadlines of pods refer to this clock."""
    return int(time() * SECOND_MS)


def _is_due(crew: Crew, wanted: Wanted) -> bool:
    """Return whether the start in progress still matches the orders."""
    newest = crew.newest
    known = frozenset(slot for each in newest for slot in each.record.slots)
    whole = frozenset(wanted.slots)
    return known <= whole and (len(newest) < newest[0].record.world or known == whole)


def _end_some(orders: PodOrders, crew: Crew, step: Warn | Drop | Kill, now_ms: int) -> bool:
    """Order pods to stop as ``step`` says; return whether another step may be due after it."""
    if isinstance(step, Kill):
        orders.kill(crew.live)
        return False
    orders.end([each for each in crew.live if each.is_on(step.lost)], 0)
    if isinstance(step, Warn):
        left = [each for each in crew.live if not each.is_on(step.lost)]
        orders.end(
            [each for each in left if each.stop_by_ms is None], _seconds(step.by_ms - now_ms)
        )
    return True


def _seconds(ms: int) -> int:
    """Return ``ms`` in whole seconds, rounded up, and at least 1."""
    return max(KILLED_S, -(-ms // SECOND_MS))
