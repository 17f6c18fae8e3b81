"""Simulates rounds: jobs arrive, run round by round, and leave.

The mechanism is the same as in a pool (``policy/rounds/round_book.py``); this module adds time,
arrivals and work. When the last lease of a round ends, the round ends. Then ended jobs leave, new
jobs arrive, the allocation may be renewed, and the next round is chosen. The caller gives the
allocations, and the order in which flavors choose jobs.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from quorate.policy.rounds.round_book import (
    Book,
    Ran,
    Row,
    Rules,
    Shares,
    credited,
    is_due,
    joined,
    parted,
    renewed,
)
from quorate.policy.rounds.round_places import Place, Places, Server, stays
from quorate.policy.rounds.row_choice import Candidate, candidates, choose
from quorate.policy.rounds.strict_choice import StrictChoice

FAILURES_MAX: Final = 5
"""If jobs can fail, a job is abandoned after ``FAILURES_MAX`` failed rounds in a row."""
ROUNDS_MAX: Final = 100_000
"""The most rounds of a simulation: more than a year at 360 s each."""
IDLE_MAX: Final = 3
"""When all jobs have arrived, the simulation stops after ``IDLE_MAX`` rounds in a row in which no
job runs."""

Rates = Callable[[Row, str, bool], tuple[float, ...]]
"""Takes a row (a job or a pair), a flavor, and whether the GPUs are on several servers. Returns the
steps per second of each job of the row."""
_TOGETHER: Final = False
_SHORTEN: Final = "make the jobs shorter, or the rounds longer"


class RoundsStuckError(ValueError):
    """Some jobs will never run in any round, or would take too many rounds."""


class NeverRunError(RoundsStuckError):
    """No round can ever run ``jobs``; all other jobs have ended."""

    def __init__(self, jobs: tuple[str, ...]) -> None:
        self.jobs = jobs
        super().__init__(
            f"{len(jobs)} jobs never run, job {jobs[0]!r} among them;"
            " give each job a share of a flavor that it runs on and that has enough GPUs"
        )

    def __reduce__(self) -> tuple[type[NeverRunError], tuple[tuple[str, ...]]]:
        """Return the class and arguments from which another process can make the same error."""
        return NeverRunError, (self.jobs,)


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundJob:
    """A job of a simulation: its GPUs, its steps, and its arrival.

    ``deadline_s`` is a time on the clock, like ``arrives_s``.
    """

    name: str
    gpus: int
    steps: float
    arrives_s: float
    deadline_s: float = math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """The input of a simulation. ``jobs`` is in the order of arrival, and may be without end.

    If ``has_pairs``, any two jobs of one size may share GPUs, even if the allocation gives the pair
    no share. The simulation ends when all jobs of ``measured`` have ended; None means all jobs.
    """

    jobs: Iterable[RoundJob]
    servers: tuple[Server, ...]
    rules: Rules
    has_pairs: bool = False
    measured: frozenset[str] | None = None

    @property
    def flavors(self) -> tuple[str, ...]:
        """The flavors that have GPUs, by name."""
        return tuple(sorted({server.flavor for server in self.servers}))

    @property
    def gpus(self) -> dict[str, int]:
        """How many GPUs of each flavor there are."""
        found = dict.fromkeys(self.flavors, 0)
        for server in self.servers:
            found[server.flavor] += len(server.gpus)
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """The input of an allocation: the remaining steps and the ages of the present jobs."""

    at_s: float
    steps_left: Mapping[str, float]
    ages_s: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One round as it begins."""

    at_s: float
    is_renewed: bool
    book: Book
    places: Mapping[Row, Place]
    steps_left: Mapping[str, float]


class Lasting(NamedTuple):
    """The work of a row (a job or a pair) in a round: its GPUs, the steps per job, and its end."""

    row: Row
    place: Place
    steps: tuple[float, ...]
    until_s: float


class Span(NamedTuple):
    """An interval in which a job had the same GPUs.

    If ``is_second``, the job is the second of a pair, and the first job has the same GPUs.
    """

    start_s: float
    end_s: float
    place: Place
    is_second: bool = False


@dataclass(slots=True, kw_only=True)
class Tally:
    """The result of a simulation so far. A job that was abandoned has no completion time.

    ``charged_gpu_s`` is the GPU time charged to each job on each flavor: each job of a pair pays
    for all GPUs of the pair, as published. ``spans`` are the times in which a job had GPUs.
    ``stops`` counts how often a job was not done after a round, but had other GPUs, or none, in the
    next round.
    """

    completion_s: dict[str, float | None] = field(default_factory=dict)
    busy_s: dict[int, float] = field(default_factory=dict)
    charged_gpu_s: dict[tuple[str, str], float] = field(default_factory=dict)
    spans: dict[str, list[Span]] = field(default_factory=dict)
    stops: Counter[str] = field(default_factory=Counter)
    rounds: int = 0
    extensions: int = 0
    extension_chances: int = 0
    ended_s: float = 0.0

    @property
    def mean_completion_s(self) -> float | None:
        """The mean of the completion times, or None if no job completed."""
        return self.mean_of(self.completion_s)

    def mean_of(self, jobs: Iterable[str]) -> float | None:
        """Return the mean of the completion times of ``jobs``, or None if no job completed."""
        times = (self.completion_s.get(job) for job in jobs)
        known = [time for time in times if time is not None]
        return sum(known) / len(known) if known else None

    @property
    def utilisation(self) -> float:
        """The part of the time in which GPUs were busy, averaged over GPUs."""
        if not self.ended_s:
            return 0.0
        return sum(busy / self.ended_s for busy in self.busy_s.values()) / len(self.busy_s)


class Play:
    """A running simulation. ``rounds`` plays it, and ``tally`` has the result so far."""

    def __init__(
        self,
        setting: Setting,
        rates: Rates,
        allocate: Callable[[Moment], Shares],
        orders: Iterator[Sequence[str]],
    ) -> None:
        self.setting = setting
        self.tally = Tally(busy_s={gpu: 0.0 for server in setting.servers for gpu in server.gpus})
        self._rates = rates
        self._allocate = allocate
        self._orders = orders
        self._gpus_of = setting.gpus
        self._turn: dict[str, int] = {}
        self._gpus: dict[str, int] = {}
        self._arrived_s: dict[str, float] = {}
        self._came: list[RoundJob] = []
        self._stream = iter(setting.jobs)
        self._coming = next(self._stream, None)
        self._left: dict[str, float] = {}
        self._unmeasured = None if setting.measured is None else set(setting.measured)
        self._failures: dict[str, int] = {}
        self._book = Book(flavors=setting.flavors, given_s=dict.fromkeys(setting.flavors, 0.0))
        rules = setting.rules
        self._strictly = (
            StrictChoice(self._gpus, self._can_run, rules)
            if rules.forgets_owed and rules.has_queue_per_flavor
            else None
        )
        self._places = Places(setting.servers, rules)
        self._before: dict[Row, Place] = {}
        self._noted: dict[str, tuple[int, Place]] = {}
        """For each job: the last round in which it had GPUs, and which GPUs it had."""
        self._running: list[Lasting] = []
        self._now_s = 0.0 if self._coming is None else self._coming.arrives_s
        self._started_s = self._began_s = 0.0
        self._ended_s: float | None = None

    def rounds(self) -> Iterator[Round]:
        """Yield every round as it begins, until all jobs have ended; the last round is empty.

        Raises ``RoundsStuckError`` when no round will ever run the remaining jobs.
        """
        idle = 0
        for _ in range(ROUNDS_MAX):
            if self._is_over():
                self.tally.ended_s = self._now_s
                return
            self._pass_time()
            self._settle()
            self._arrive()
            self.tally.rounds += 1
            yield self._begin()
            waits = not self._running and self._coming is None and self._left
            idle = idle + 1 if waits else 0
            if idle == IDLE_MAX:
                self.tally.ended_s = self._now_s
                raise NeverRunError(tuple(self._left))
        raise RoundsStuckError(f"the simulation takes more than {ROUNDS_MAX} rounds; {_SHORTEN}")

    @property
    def came(self) -> Sequence[RoundJob]:
        """The jobs that have arrived so far."""
        return self._came

    def steps_left(self, job: str) -> float:
        """Return the remaining steps of ``job``, which has arrived; 0 if it is done."""
        return max(0.0, self._left.get(job, 0.0))

    def _is_over(self) -> bool:
        if self._unmeasured is not None and not self._unmeasured:
            return True
        return not self._left and self._coming is None

    def missed(self) -> tuple[str, ...]:
        """Return the jobs that were done after their deadline, or were abandoned."""
        by_age = self.setting.rules.compares_age_to_deadline
        found = []
        for job in self._came:
            took_s = self.tally.completion_s.get(job.name, 0.0)
            done_s = math.inf if took_s is None else took_s + (0.0 if by_age else job.arrives_s)
            if done_s > job.deadline_s:
                found.append(job.name)
        return tuple(found)

    def _pass_time(self) -> None:
        if self._coming is None and not self._running and self.setting.rules.reset_gap_s:
            # As published: when no job runs or arrives, the allocation may be renewed at once.
            self._book = replace(self._book, since_s=0.0)
        latest_s = max((lasting.until_s for lasting in self._running), default=0.0)
        if latest_s > 0.0:
            if self._ended_s is not None:
                self._began_s = self._ended_s
            self._now_s = self._ended_s = latest_s
        elif self._coming is not None:
            self._now_s = self._coming.arrives_s

    def _settle(self) -> None:
        """Count the results of the last round, beginning with the row that ends last."""
        rules = self.setting.rules
        ran, gone = [], []
        for lasting in sorted(self._running, key=self._last_first):
            began_s = self._began_s if rules.charges_gaps else self._started_s
            ran_s = lasting.until_s - began_s
            if self._has_failed(lasting, ran_s):
                gone += self._fail(lasting)
                continue
            self._failures.pop(lasting.row[0], None)
            for job, steps in zip(lasting.row, lasting.steps, strict=True):
                self._left[job] -= steps
                if self._left[job] <= 0:
                    self.tally.completion_s[job] = lasting.until_s - self._arrived_s[job]
                    gone.append(job)
            ran.append(Ran(row=lasting.row, flavor=lasting.place.flavor, ran_s=ran_s))
            for gpu in lasting.place.gpus:
                self.tally.busy_s[gpu] += ran_s
            self._note(lasting, ran_s)
        self._running = []
        self._book = credited(self._book, ran)
        if gone:
            self._book = parted(self._book, gone)
        for job in gone:
            del self._left[job]
            if self._unmeasured is not None:
                self._unmeasured.discard(job)

    def _note(self, lasting: Lasting, ran_s: float) -> None:
        """Charge the jobs of a row, and record when they had their GPUs and when they lost them."""
        where, tally = lasting.place, self.tally
        for job in lasting.row:
            key = (job, where.flavor)
            number, before = self._noted.get(job, (0, where))
            tally.stops[job] += bool(number) and not (
                number == tally.rounds - 1 and stays(before, where)
            )
            self._noted[job] = (tally.rounds, where)
            charged = ran_s * len(where.gpus)
            tally.charged_gpu_s[key] = tally.charged_gpu_s.get(key, 0.0) + charged
            spans = tally.spans.setdefault(job, [])
            began_s, is_second = self._started_s, job != lasting.row[0]
            if spans:
                last = spans[-1]
                if (last.end_s, last.is_second, last.place) == (began_s, is_second, where):
                    began_s = spans.pop().start_s
            spans.append(Span(began_s, lasting.until_s, where, is_second))

    def _last_first(self, lasting: Lasting) -> tuple[float, int, list[int]]:
        return -lasting.until_s, len(lasting.row), [self._turn[job] for job in lasting.row]

    def _has_failed(self, lasting: Lasting, ran_s: float) -> bool:
        if not self.setting.rules.needs_step_per_gpu:
            return False
        gpus = len(lasting.place.gpus)
        fewest = min(lasting.steps)
        return ran_s <= 0.0 or (fewest // gpus if gpus > 1 else fewest) <= 0

    def _fail(self, lasting: Lasting) -> list[str]:
        self._book = replace(self._book, is_stale=True)
        if len(lasting.row) > 1:
            return []
        job = lasting.row[0]
        self._failures[job] = self._failures.get(job, 0) + 1
        if self._failures[job] < FAILURES_MAX:
            return []
        self.tally.completion_s[job] = None
        return [job]

    def _arrive(self) -> None:
        rules = self.setting.rules
        while (job := self._coming) is not None and job.arrives_s <= self._now_s:
            self._coming = next(self._stream, None)
            self._turn[job.name] = len(self._came)
            self._gpus[job.name], self._arrived_s[job.name] = job.gpus, job.arrives_s
            self._came.append(job)
            self._check_length(job)
            rows: list[Row] = [(job.name,)]
            if self.setting.has_pairs and rules.starts_pairs_at_zero:
                # Without this rule, a pair enters the book with the first allocation that gives it
                # a share.
                rows += [(other, job.name) for other in self._left if self._fit(other, job)]
            self._left[job.name] = job.steps
            self._book = joined(self._book, rows, rules)

    def _check_length(self, job: RoundJob) -> None:
        """Raise ``RoundsStuckError`` if ``job`` alone takes more than ``ROUNDS_MAX`` rounds."""
        flavors = self.setting.flavors
        rate = max(
            (self._rates((job.name,), flavor, _TOGETHER)[0] for flavor in flavors), default=0
        )
        if job.steps > rate * self.setting.rules.round_s * ROUNDS_MAX > 0:
            raise RoundsStuckError(
                f"job {job.name!r} takes more than {ROUNDS_MAX} rounds; {_SHORTEN}"
            )

    def _fit(self, other: str, job: RoundJob) -> bool:
        return self._gpus[other] == job.gpus

    def _begin(self) -> Round:
        rules, now_s = self.setting.rules, self._now_s
        renews = is_due(self._book, now_s, rules)
        if renews:
            ages_s = {job: now_s - self._arrived_s[job] for job in self._left}
            moment = Moment(at_s=now_s, steps_left=dict(self._left), ages_s=ages_s)
            self._book = renewed(self._book, self._allocate(moment), now_s, rules)
        order = next(self._orders)
        if self._strictly is None:
            chosen = choose(self.candidates(), self._gpus_of, order, rules)
        else:
            chosen = self._strictly.choose(self._book, self._gpus_of, order)
        places = self._places.of(chosen, self._before)
        self._count_extensions(places)
        self._before = places
        self._started_s = now_s
        self._running = [
            lasting for row, where in places.items() if (lasting := self._lasting(row, where))
        ]
        return Round(
            at_s=now_s,
            is_renewed=renews,
            book=self._book,
            places=places,
            steps_left=dict(self._left),
        )

    def candidates(self) -> list[Candidate]:
        """Return the candidates of the latest round: all rows, on every flavor."""
        rules = self.setting.rules
        return candidates(self._book, self._gpus, self._can_run, self._now_s, rules)

    def _can_run(self, row: Row, flavor: str) -> bool:
        return min(self._rates(row, flavor, _TOGETHER)) > 0.0

    def _count_extensions(self, places: Mapping[Row, Place]) -> None:
        is_over = self._left.keys().isdisjoint
        self.tally.extension_chances += sum([not is_over(row) for row in self._before])
        for row, where in places.items():
            self.tally.extensions += stays(self._before.get(row), where)

    def _lasting(self, row: Row, where: Place) -> Lasting | None:
        """Return the work of ``row`` in the round; None if it makes no progress on these GPUs."""
        rules = self.setting.rules
        is_spread = where.is_spread and not rules.ignores_spread
        rates = self._rates(row, where.flavor, is_spread)
        if min(rates) <= 0.0:
            return None
        # A step longer than a round is done whole, because the job would otherwise never progress.
        least = 0 if rules.needs_step_per_gpu else 1
        steps, until_s = [], 0.0
        for job, rate in zip(row, rates, strict=True):
            count = max(steps_in(rate, rules.round_s, self._left[job]), least)
            steps.append(count)
            until_s = max(until_s, self._now_s + count / rate)
        return Lasting(row=row, place=where, steps=tuple(steps), until_s=until_s)


def steps_in(rate: float, seconds: float, steps_left: float) -> float:
    """Return how many whole steps a job does at ``rate`` in ``seconds``, at most ``steps_left``."""
    return min(int(rate * seconds), steps_left)
