"""Leases and work in the simulated machine room: the progress and the GPUs of each run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from quorate.model.amounts import PPM
from quorate.model.events import LeaseStarted, Role
from quorate.model.job_types import SPREAD_SUFFIX
from quorate.model.specs import Run
from quorate.ports.executor_port import Order, StartLease


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """The real behaviour of a run: after ``work_ms`` on its declared GPUs it exits with ``code``.

    ``speeds_ppm`` has the speed on each flavor; a key that ends in ``SPREAD_SUFFIX`` has the speed
    on GPUs of several nodes. On other flavors the run has full speed. ``kind`` is the run's type of
    job, if known. ``paired_ppm`` has the run's speed on a flavor when it shares GPUs with a run of
    a listed type. When the run shares GPUs with any other run, its speed is ``shared_ppm``
    millionths of its speed alone. The run reports its steps after each ``tells_every_ms`` of work;
    0 means that its steps are known at any time.
    """

    work_ms: int
    checkpoint_every_ms: int
    code: int = 0
    speeds_ppm: tuple[tuple[str, int], ...] = ()
    shared_ppm: int = PPM * 6 // 10
    tells_every_ms: int = 0
    kind: str | None = None
    paired_ppm: Mapping[tuple[str, str], int] = field(default_factory=dict)

    def speed_ppm(self, flavor: str, *, is_spread: bool, beside: Truth | None) -> int:
        """Return the speed on GPUs of ``flavor``, which the run shares with ``beside``, if any.

        ``is_spread`` means that the GPUs are on several nodes.
        """
        speeds = dict(self.speeds_ppm)
        names = (flavor + SPREAD_SUFFIX, flavor) if is_spread else (flavor,)
        alone = next((speeds[name] for name in names if name in speeds), PPM)
        if beside is None:
            return alone
        for name in names:
            if beside.kind is not None and (name, beside.kind) in self.paired_ppm:
                return self.paired_ppm[name, beside.kind]
        return max(1, alone * self.shared_ppm // PPM)


@dataclass(slots=True)
class HeldLease:
    """A lease in the simulated machine room.

    ``lost`` has the nodes that lost power or were fenced since the lease started. No work of the
    lease runs on these nodes, even after the power is back.
    """

    fact: LeaseStarted
    gpus: int
    lost: set[str]
    is_broken: bool = False
    stopping_since_ms: int | None = None
    stop_by_ms: int | None = None
    stops: int = 0
    is_gone: bool = False

    @property
    def is_lost(self) -> bool:
        """Whether all nodes of the lease are lost, so that no work of the lease runs."""
        return all(node in self.lost for node, _ in self.fact.slots)


@dataclass(slots=True)
class Work:
    """The work of a run, through all its starts."""

    run: Run
    truth: Truth
    leases: dict[str, None] = field(default_factory=dict)
    done_gpu_ms: int = 0
    saved_gpu_ms: int = 0
    width: int = 0
    since_ms: int = 0
    plan: int = 0
    has_exited: bool = False
    code: int = 0
    speed_ppm: int = PPM
    lost_gpu_ms: int = 0
    """All the work that was lost, and so had to be done again."""
    best_gpu_ms: int = 0
    """The largest amount of checkpointed work that was left after a loss."""
    better_ms: int = 0
    """The instant at which ``best_gpu_ms`` last grew."""

    def accrue(self, now_ms: int) -> None:
        """Count the work since the last call."""
        self.done_gpu_ms, self.since_ms = self.done_by(now_ms), now_ms

    def done_by(self, now_ms: int) -> int:
        """Return the work that is done by ``now_ms`` and not lost."""
        return self.done_gpu_ms + self.width * (now_ms - self.since_ms) * self.speed_ppm // PPM

    def throw_back(self) -> None:
        """Lose the work since the last checkpoint; stop working until new GPUs are set."""
        kept = self._kept_of(self.done_gpu_ms)
        if kept > self.best_gpu_ms:
            self.best_gpu_ms, self.better_ms = kept, self.since_ms
        self._lose(self.done_gpu_ms - kept)
        self.width = 0
        self.plan += 1

    def progressed_ms(self, now_ms: int) -> int:
        """Return the last instant at which the checkpointed work exceeded its former maximum."""
        # Work that has ended kept all it did, but makes no more progress: it has no GPUs.
        is_better = self.width > 0 and self._kept_of(self.done_by(now_ms)) > self.best_gpu_ms
        return now_ms if is_better else self.better_ms

    def _kept_of(self, done_gpu_ms: int) -> int:
        """Return how much of ``done_gpu_ms`` a loss leaves: the work up to the last checkpoint."""
        every = self.truth.checkpoint_every_ms * self.run.gpus
        return max(self.saved_gpu_ms, done_gpu_ms - done_gpu_ms % every)

    def lose_since_checkpoint(self, lease: HeldLease, now_ms: int) -> None:
        """Lose the work that an immediate stop of ``lease`` loses.

        The first bundle of a run has the GPUs that the run needs at least. The stop of one of its
        leases loses all work since the last checkpoint. The stop of a lease of any other bundle
        loses only the part of this work that was done on the lease's GPUs. The stop of a spare
        loses nothing.
        """
        if lease.fact.role is Role.SPARE:
            return
        if lease.fact.bundle == 0:
            self.throw_back()
            return
        since_ms = (now_ms - lease.fact.start_ms) % self.truth.checkpoint_every_ms
        self._lose(min(lease.gpus * since_ms, self.done_gpu_ms - self.saved_gpu_ms))

    def _lose(self, gpu_ms: int) -> None:
        self.done_gpu_ms -= gpu_ms
        self.lost_gpu_ms += gpu_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkAccount:
    """The work that a run has done and kept, and the work it lost, in GPU time at full speed."""

    done_gpu_ms: int = 0
    lost_gpu_ms: int = 0


def runs_of(fact: LeaseStarted) -> tuple[str, ...]:
    """Return the run of a lease, and the run that shares the lease's GPUs, if any."""
    return (fact.run,) if fact.partner is None else (fact.run, fact.partner)


def slots_of(fact: LeaseStarted) -> list[tuple[str, int]]:
    """Return (node, ordinal) of every GPU of a lease."""
    return [
        (node, ordinal)
        for node, mask in fact.slots
        for ordinal in range(mask.bit_length())
        if mask >> ordinal & 1
    ]


def kept_slots(orders: Iterable[Order]) -> set[tuple[str, str, int]]:
    """Return (run, node, ordinal) of the slots on which ``orders`` start leases."""
    return {
        (order.lease.run, node, ordinal)
        for order in orders
        if isinstance(order, StartLease)
        for node, ordinal in slots_of(order.lease)
    }


def stands_still(held: Sequence[HeldLease]) -> bool:
    """Return whether a run with the leases ``held`` makes no progress.

    The run makes no progress if a lease is broken, or if a lease of the first bundle (the GPUs that
    the run needs at least) is stopping. Leases of spares are ignored.
    """
    for lease in held:
        if lease.fact.role is Role.SPARE:
            continue
        if lease.is_broken or (lease.fact.bundle == 0 and lease.stopping_since_ms is not None):
            return True
    return False


def width_of(held: Sequence[HeldLease]) -> int:
    """Return the number of GPUs on which a run with the leases ``held`` works."""
    return sum(
        lease.gpus
        for lease in held
        if lease.fact.role is not Role.SPARE and lease.stopping_since_ms is None
    )
