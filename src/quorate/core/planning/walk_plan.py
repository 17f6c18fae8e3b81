"""The runs that one walk has planned and started so far."""

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
from quorate.model.specs import Run


@dataclass(frozen=True, slots=True)
class Reach:
    """How far a reader's walk goes on beyond the depth of ``pool``: up to ``run``.

    The walk examines ``runs_max`` runs at most. Beyond the depth no start becomes firm, no conflict
    is searched and no loan is recalled, as in a decision. Unlike in a decision, every run is
    planned, however many runs like it have no start.
    """

    run: str
    pool: str
    runs_max: int


class WalkPlan:
    """The plan of one walk. At its end, the profile contains all planned starts.

    ``view`` is the state before the walk, ``log.view`` the same with the runs started since.
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
        """The firm places by run."""
        self.entries: dict[str, Entry] = {}
        """The planned entries that are not firm, by run."""
        self.planned: dict[str, int] = {}
        """How many runs of each pool are planned."""
        self.seen: set[str] = set()
        """The waiting runs that were examined."""
        self.fruitless = Fruitless(self.view, self.seen)
        self.fruitless_runs: set[str] = set()
        """The examined runs that have no start."""
        self.started_runs: dict[str, Entry] = {}
        """The places of runs that have started in this walk."""
        self.is_waiting = False
        """Whether a run that has a start has stayed waiting: runs that start after that are
        backfill."""

    def begin_again(self, planned: Planned) -> None:
        """Go on from the present state of the log, with the entries of ``planned`` put in."""
        self.view = self.log.frozen()
        self.profile, self.pins = planned.profile(self.view, self.log.now_ms)
        self.search = Searcher(self.profile, has_executor=self.log.has_executor)

    def put_pin(self, pin: Entry) -> None:
        """Put a firm place into the profile."""
        self.profile.put(pin)
        self.pins[pin.run] = pin

    def lift_pin(self, pin: Entry) -> None:
        """Remove a firm place from the profile; its GPU-hours stay held."""
        self.profile.lift(pin)
        del self.pins[pin.run]

    def hold_hours(self, pin: Entry, sign: int) -> None:
        """Count the GPU-hours that a firm place holds as free (``sign`` -1), or held again (1)."""
        if pin.is_firm:
            self.profile.count_hours(pin.shares, sign)

    def count(self, entry: Entry) -> None:
        """Count a planned run towards its pool's depth and its owner's share."""
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
        """How many runs have started in this walk."""
        return len(self.started_runs)

    def has_started(self, run: str) -> bool:
        """Return whether ``run`` started in this walk."""
        return run in self.started_runs

    def is_fruitless(self, run: str) -> bool:
        """Return whether ``run`` was examined and no start was found for it."""
        return run in self.fruitless_runs

    @property
    def is_out_of_order(self) -> bool:
        """Whether a firm run, or an earlier run with a start, waits: a start is backfill then."""
        return self.is_waiting or bool(self.pins)

    def is_beyond(self, pool: str) -> bool:
        """Return whether this walk has gone on beyond the depth of ``pool``."""
        if self.reach is None or self.reach.pool != pool:
            return False
        return self.planned.get(pool, 0) >= self.view.pools[pool].reservation_depth
