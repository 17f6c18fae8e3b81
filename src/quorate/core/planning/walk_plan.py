"""The queue of a walk, and the runs that the walk has planned and started so far."""

from __future__ import annotations

from dataclasses import dataclass

from quorate.core.admission.admit import Admitted
from quorate.core.decision_log import DecisionLog
from quorate.core.planning.fruitless import Fruitless
from quorate.core.planning.recall import Planned
from quorate.core.planning.start_search import Searcher
from quorate.core.profile.firm_places import place_of
from quorate.core.profile.plan_entry import Entry, shares_of, slice_of
from quorate.core.profile.profile import Profile
from quorate.core.tenancy.owner_scores import Scores
from quorate.core.tenancy.queue_order import Queue
from quorate.model.specs import Run
from quorate.model.state.line_ranks import Ranked


@dataclass(frozen=True, slots=True)
class Reach:
    """How far a reader's walk goes: up to ``run``, even if that is beyond the depth of ``pool``.

    The walk examines ``runs_max`` runs at most. Beyond the depth, no start becomes firm, no
    conflict is searched for and no loan is recalled. The walk of a decision skips runs if similar
    runs have no start; a reader's walk does not.
    """

    run: str
    pool: str
    runs_max: int


class WalkPlan:
    """The plan of one walk. When the walk ends, ``profile`` contains all planned starts.

    ``view`` is the state before the walk; ``log.view`` also has the events that the walk has
    written.
    """

    __slots__ = (
        "depths",
        "entries",
        "fruitless",
        "fruitless_runs",
        "is_waiting",
        "log",
        "pins",
        "planned",
        "profile",
        "reach",
        "scores",
        "search",
        "seen",
        "started_runs",
        "view",
    )

    def __init__(self, log: DecisionLog, reach: Reach | None) -> None:
        self.log = log
        self.reach = reach
        self.view = log.frozen()
        self.depths = [(name, pool.reservation_depth) for name, pool in self.view.pools.items()]
        self.profile = Profile(self.view, log.now_ms)
        self.search = Searcher(self.profile, has_executor=log.has_executor)
        self.scores = Scores(self.view, log.now_ms)
        self.pins: dict[str, Entry] = {}
        """The firm starts, by run."""
        self.entries: dict[str, Entry] = {}
        """The tentative starts, by run."""
        self.planned: dict[str, int] = {}
        """The number of planned runs of each pool."""
        self.seen: set[str] = set()
        """The waiting runs that the walk has examined."""
        self.fruitless = Fruitless(self.view, self.seen)
        self.fruitless_runs: set[str] = set()
        """The examined runs for which no start was found."""
        self.started_runs: dict[str, Entry] = {}
        """The entries, by run, of the runs that have started in this walk."""
        self.is_waiting = False
        """Whether a run with a planned start waits. Runs that start meanwhile are backfill."""

    def begin_again(self, planned: Planned) -> None:
        """Continue from the present state of the log, with the entries of ``planned``."""
        self.view = self.log.frozen()
        self.profile, self.pins = planned.profile(self.view, self.log.now_ms)
        self.search = Searcher(self.profile, has_executor=self.log.has_executor)

    def put_pin(self, pin: Entry) -> None:
        """Put a firm start into the profile."""
        self.profile.put(pin)
        self.pins[pin.run] = pin

    def lift_pin(self, pin: Entry) -> None:
        """Remove a firm start from the profile. Its GPU-hours stay held."""
        self.profile.lift(pin)
        del self.pins[pin.run]

    def hold_hours(self, pin: Entry, sign: int) -> None:
        """Count the GPU-hours of a firm start as free (``sign`` is -1), or as held again (1)."""
        if pin.is_firm:
            self.profile.count_hours(pin.shares, sign)

    def count(self, entry: Entry) -> None:
        """Count a planned run in its pool's depth and in its owner's share."""
        self.planned[entry.pool] = self.planned.get(entry.pool, 0) + 1
        self.scores.plan(entry.owner, entry.slice.flavor, entry.slice.gpus)
        self.is_waiting = True

    def note_started(self, run: Run, admitted: Admitted) -> None:
        """Put a run that has just started into the profile, until its expected end."""
        now_ms, legs = self.log.now_ms, admitted.legs
        entry = place_of(self.view, run, now_ms, slice_of(admitted), shares_of(legs))
        self.profile.put(entry)
        self.profile.headroom.hold_nodes(run.owner, admitted.plan.nodes, now_ms, entry.end_ms)
        self.started_runs[run.name] = entry
        self.scores.plan(run.owner, entry.slice.flavor, entry.slice.gpus)

    @property
    def started(self) -> int:
        """The number of runs that have started in this walk."""
        return len(self.started_runs)

    def has_started(self, run: str) -> bool:
        """Return whether ``run`` started in this walk."""
        return run in self.started_runs

    def is_fruitless(self, run: str) -> bool:
        """Return whether the walk found no start for ``run``."""
        return run in self.fruitless_runs

    @property
    def is_out_of_order(self) -> bool:
        """Whether a run that starts now is backfill.

        A start is backfill if any run with a firm start waits, or if an earlier run with a planned
        start waits.
        """
        return self.is_waiting or bool(self.pins)

    def is_beyond(self, pool: str) -> bool:
        """Return whether this walk has continued beyond the depth of ``pool``."""
        if self.reach is None or self.reach.pool != pool:
            return False
        return self.planned.get(pool, 0) >= self.view.pools[pool].reservation_depth

    def queue_of(self, ranked: list[Ranked]) -> Queue:
        """Return the queue that gives the walk its next waiting run."""
        lines = self.view.waiting.lines
        return Queue(
            ranked,
            lambda line: lines[line].places,
            self.scores,
            skip=self.fruitless.skip if self.reach is None else None,
        )

    def close_full(self, queue: Queue) -> None:
        """Close each pool that has reached its depth, except the pool of ``reach``.

        A pool has reached its depth if the walk has planned as many of its runs as the depth says.
        """
        closed, planned = queue.closed, self.planned
        open_pool = "" if self.reach is None else self.reach.pool
        for name, depth in self.depths:
            if planned.get(name, 0) >= depth and name != open_pool:
                closed.add(name)
        queue.is_closed = len(closed) == len(self.depths)
