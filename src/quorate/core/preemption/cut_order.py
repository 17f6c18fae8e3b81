"""Lists the work that a conflict could end to make room, in the order of cuts.

1. Backfill that overstays.
2. Spares.
3. Steps of malleable runs, the highest first.
4. Burst: a run whose owner would still have its target share without this run.
5. Runs drawn in the lottery.

Within each of these five kinds, the run that started last is cut first. Of two runs that started
together, the one that was submitted later is cut first. Names never decide. The minimum of a run
ends only with the whole run, as kind 1, 4 or 5, so no run is ever cut below its minimum.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from msgspec import Struct

from quorate.core.preemption.goals import Room
from quorate.core.preemption.scope_survey import Survey
from quorate.core.profile.lease_ends import declared_end_ms
from quorate.model.events import CutStep, Role
from quorate.model.state.records import RunRecord
from quorate.model.state.state_view import StateView
from quorate.model.state.upstreams import overtaken_since

Burst = Callable[[StateView, RunRecord], bool]
"""Returns whether the owner of a run would still have its target share without the run."""

# Reading a member of an enumeration is slow in Python 3.11, so the inner loop compares with these
# constants.
_SPARE: Final = Role.SPARE
_CLAIM: Final = Role.CLAIM


class Candidate(Struct, frozen=True, gc=False):
    """Work that can only be ended as a whole: a bundle, a run or a spare.

    ``gpus`` is the number of GPUs that come free in all domains. ``room`` has, by domain, the GPUs
    that the goal gains. If ``is_beyond``, some of these GPUs are outside the scope. ``pledges`` are
    filled spares that are given up with the work, because the spares would otherwise take back the
    slots of the work.
    """

    step: CutStep
    run: str
    bundle: int
    gpus: int
    leases: tuple[str, ...]
    room: Room
    pledges: tuple[str, ...] = ()
    is_beyond: bool = False


class Cutter:
    """Makes candidates from a survey. No lease is in two candidates."""

    def __init__(self, survey: Survey) -> None:
        self._survey = survey
        self._view = survey.view
        self._taken: set[str] = set()

    def backfills(self, reservation: str, now_ms: int) -> Iterator[Candidate]:
        """Yield the bundles that overstay: backfill past its declared end.

        A bundle is yielded only if it started while the run of ``reservation`` was waiting. If
        ``reservation`` does not exist, it is enough that any run with a reservation was waiting. In
        both cases, a run that waits because it was itself stopped for overstaying is ignored.
        """
        view, runs = self._view, self._survey.runs
        firm = (reservation,) if reservation in view.reservations else tuple(view.reservations)
        found = (overtaken_since(view, view.runs[view.reservations[n].made.run]) for n in firm)
        waiting = [waits for waits in found if waits is not None]
        if not waiting:
            return
        marked = [name for name in view.backfilled if name in runs]
        for name in self._survey.newest_first(marked):
            record = view.runs[name]
            if declared_end_ms(view, record) > now_ms:
                continue
            for mark in sorted(record.backfills, reverse=True):
                if any(waits.is_before(mark) for waits in waiting):
                    yield from self._make(CutStep.BACKFILL, name, mark.bundle)

    def spares(self) -> Iterator[Candidate]:
        """Yield spares, lease by lease, and then filled spares that count against a limit."""
        leases, spares = self._view.leases, set(self._survey.spares)
        for run in self._survey.newest_first(leases[name].fact.run for name in spares):
            for name in reversed(self._view.runs[run].leases):
                if name in spares and name not in self._taken:
                    bundle = leases[name].fact.bundle
                    yield from self._take(self._new(CutStep.SPARE, run, bundle, (name,)))
        for name in reversed(self._survey.pledges):
            pledge = self._view.pledges[name]
            room = {"": pledge.gpus}
            yield Candidate(
                CutStep.SPARE, pledge.run, pledge.bundle, pledge.gpus, (), room, (name,)
            )

    def steps(self) -> Iterator[Candidate]:
        """Yield the steps of malleable runs, run by run, the highest first."""
        numbers: dict[str, set[int]] = {}
        for name in self._survey.steps:
            fact = self._view.leases[name].fact
            numbers.setdefault(fact.run, set()).add(fact.bundle)
        for run in self._survey.newest_first(numbers):
            for bundle in sorted(numbers[run], reverse=True):
                yield from self._make(CutStep.SHRINK, run, bundle)

    def bursts(self, burst: Burst, trial: Callable[[], StateView]) -> Iterator[Candidate]:
        """Yield the runs that are burst; ``trial`` gives the state after the cuts so far."""
        for run in self._survey.newest_first(self._survey.runs):
            if self._has_minimum(run, self._taken) and burst(trial(), self._view.runs[run]):
                yield from self._make(CutStep.BURST, run, 0)

    def tokens(
        self, gone: AbstractSet[str], enters: Callable[[RunRecord], bool]
    ) -> list[Candidate]:
        """Return the tokens of the lottery. The leases in ``gone`` are treated as cut already.

        A run has a token if its minimum is in scope, and ``enters`` returns True for the run. The
        token has the remaining leases of the run, which all end if the token is drawn.
        """
        candidates: list[Candidate] = []
        records = self._view.runs
        for run, held in self._survey.runs.items():
            record = records[run]
            if record.since_ms is None or not enters(record):
                continue
            if len(record.leases) == 1:
                # Most runs have one lease, which is the whole token.
                if not gone or gone.isdisjoint(held):
                    candidates += self._new(CutStep.LOTTERY, run, 0, tuple(held))
            elif self._has_minimum(run, gone):
                candidates += self._bundle(CutStep.LOTTERY, run, 0, gone)
        return candidates

    def _has_minimum(self, run: str, gone: Collection[str]) -> bool:
        leases = self._view.leases
        for name in self._survey.runs[run]:
            fact = leases[name].fact
            if fact.bundle == 0 and fact.role is not _SPARE and name not in gone:
                return True
        return False

    def _make(self, step: CutStep, run: str, bundle: int) -> Iterator[Candidate]:
        return self._take(self._bundle(step, run, bundle, self._taken))

    def _take(self, made: Sequence[Candidate]) -> Iterator[Candidate]:
        for candidate in made:
            self._taken.update(candidate.leases)
            yield candidate

    def _bundle(
        self, step: CutStep, run: str, bundle: int, gone: Collection[str]
    ) -> Sequence[Candidate]:
        """Return a bundle and its spares as a candidate, without the leases in ``gone``."""
        leases = self._view.leases
        names = tuple(
            name
            for name in self._view.runs[run].leases
            if name not in gone
            and (lease := leases[name]).ending is None
            and bundle in (0, lease.fact.bundle)
        )
        return self._new(step, run, bundle, names)

    def _new(
        self, step: CutStep, run: str, bundle: int, names: tuple[str, ...]
    ) -> Sequence[Candidate]:
        """Return the leases ``names`` as a candidate.

        Return no candidate if the leases make no room in scope, or may not be cut. If the goal can
        use room outside the scope, the room of leases outside the scope is added.
        """
        record = self._view.runs[run]
        if record.stopping is not None or record.spec.sensitive:
            return ()
        inside, scope = self._survey.runs[run], self._survey.scope
        leases, room_of = self._view.leases, self._survey.room_of
        rooms, gpus = [], 0
        for name in names:
            lease = leases[name]
            gpus += lease.gpus
            if lease.fact.role is _CLAIM:
                return ()
            if (name in inside or scope is not None) and (room := room_of(lease)):
                rooms.append(room)
        if not rooms:
            return ()
        room = rooms[0] if len(rooms) == 1 else summed(rooms)
        if scope is not None and scope.isdisjoint(room):
            return ()
        is_beyond = scope is not None and not scope.issuperset(room)
        filled = self._survey.filled
        pledges = tuple(c for name in names for c in filled.get(name, ())) if filled else ()
        return (Candidate(step, run, bundle, gpus, names, room, pledges, is_beyond),)


def summed(rooms: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Return the sum of ``rooms``, by domain."""
    total: dict[str, int] = {}
    for room in rooms:
        for domain, gpus in room.items():
            total[domain] = total.get(domain, 0) + gpus
    return total
