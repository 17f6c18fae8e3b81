"""Gaming: an owner's gain from false declarations, or from arranging its work against others.

One owner, the player, follows a strategy; its honest twin declares the truth. Both play the same
random worlds: the same fleet, the same runs of three other owners at the same instants, and the
same work for the player. The production engine makes all decisions. The table reports (i) how many
firm starts of other owners moved later, and how many of them because of a lease of the player, and
(ii) how much more of its work the player completed than its twin. ``python -m benchmarks.gaming``
prints the table.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from statistics import mean, stdev
from typing import ClassVar, Final

from msgspec.structs import replace

from benchmarks.figure import Effort, Figure
from quorate.adapters.stores.store_memory import MemoryStore
from quorate.core.commands import Applied, Apply, Cancel, Command, Submit
from quorate.ledger.chain import GENESIS, open_blocks
from quorate.loop.commit_types import Receipt
from quorate.model.amounts import HOLD_QUANTUM_MS, HOUR_MS, MINUTE_MS
from quorate.model.events import (
    ConflictAnnounced,
    Event,
    MoveCode,
    ReservationMade,
    ReservationMoved,
    RunEnded,
)
from quorate.model.selector import DOMAIN
from quorate.model.specs import Malleable, Owner, Pool, Run
from quorate.model.state.records import Phase
from quorate.model.state.state_view import StateView
from quorate.sim.room_work import Truth
from quorate.sim.sim_executor import SimExecutor
from quorate.sim.simulation import (
    LOTTERY_LENGTH,
    LOTTERY_SECRET,
    Observer,
    Simulation,
    Timeline,
    VirtualClock,
)
from quorate.testing.builders import NOW_MS, budget, envelope, fleet
from quorate.testing.promise_books import PromiseBooks

PLAYER: Final = "player"
OTHERS: Final = ("ant", "bee", "cat")
DOMAINS: Final = ("A", "B")
GPUS: Final = 32
FUNDED: Final = 16
"""The GPUs that each owner's budget can pay for: twice its equal share."""
WIDTHS: Final = (1, 2, 4, 4, 8)
DEMAND_PERCENT: Final = {PLAYER: 200, **dict.fromkeys(OTHERS, 120)}
"""The GPUs that each owner requests, relative to its equal share."""
WITH_CONFLICTS: Final = Pool(name="default")
"""The default settings of a pool."""
WITHOUT_CONFLICTS: Final = Pool(name="default", disruption_rate_ppm=0)
"""No conflicts are called, so planning alone decides; simulating a day takes a tenth as long."""
GAIN_MAX: Final = 5.0
"""Gains over the honest twin above this percentage are discussed in docs/reference/gaming.md."""


@dataclass(frozen=True, slots=True)
class Job:
    """Work that an owner has from ``at_ms`` on: ``work_ms`` on ``gpus``."""

    name: str
    owner: str
    at_ms: int
    gpus: int
    work_ms: int


def jobs_of(seed: int, hours: int) -> list[Job]:
    """Return the work of all owners in the world of ``seed``, in the order of arrival."""
    chance = Random(seed)
    found: list[Job] = []
    for owner, percent in DEMAND_PERCENT.items():
        left = GPUS // len(DEMAND_PERCENT) * percent * (hours + 4) * HOUR_MS // 100
        while left > 0:
            gpus, work_ms = chance.choice(WIDTHS), chance.randrange(30, 480) * MINUTE_MS
            # The work of earlier hours arrives in the first hour, which fills the fleet.
            at_ms = max(0, chance.randrange(-4 * HOUR_MS, hours * HOUR_MS))
            at_ms = at_ms or chance.randrange(HOUR_MS)
            found.append(Job(f"{owner}{len(found):03d}", owner, NOW_MS + at_ms, gpus, work_ms))
            left -= gpus * work_ms
    return sorted(found, key=lambda job: (job.at_ms, job.name))


def honest_run(job: Job) -> Run:
    """Return the run that declares a job truthfully."""
    return Run(
        name=job.name,
        owner=job.owner,
        flavors=("H100",),
        gpus=job.gpus,
        expected_duration_ms=job.work_ms,
        nonce=job.name,
    )


# --- Strategies ---


class Strategy:
    """How the player submits its work; this class is the twin, which declares the truth."""

    name: ClassVar[str] = "honest"
    needs_conflicts: ClassVar[bool] = False
    """Whether the strategy equals its twin if no conflicts are called."""

    def __init__(self, life: Life) -> None:
        self.life = life

    def arrive(self, job: Job) -> None:
        """Submit a job that has arrived."""
        self.life.submit(honest_run(job), job.work_ms)

    def look(self) -> None:
        """React to the present state; called every ten minutes."""

    def seen(self, event: Event) -> None:
        """React to an event; the commands in response are sent after the commit."""


class Splitting(Strategy):
    """Submits every job as runs of at most two GPUs, which are easier to place."""

    name = "splitting"

    def arrive(self, job: Job) -> None:
        """Submit a job in parts."""
        width = min(2, job.gpus)
        for part in range(job.gpus // width):
            spec = replace(honest_run(job), name=f"{job.name}-{part}", gpus=width)
            self.life.submit(spec, job.work_ms)


class ShortStages(Strategy):
    """Submits every job as half-hour runs, one after another, because short runs fit into gaps."""

    name = "splitting in time"
    stage_ms: ClassVar[int] = 30 * MINUTE_MS

    def __init__(self, life: Life) -> None:
        super().__init__(life)
        self._left: dict[str, tuple[Job, int, int]] = {}

    def arrive(self, job: Job) -> None:
        """Submit the first stage of a job."""
        self._next(job, job.work_ms, 0)

    def _next(self, job: Job, left_ms: int, stage: int) -> None:
        work_ms = min(left_ms, self.stage_ms)
        name = f"{job.name}-{stage}"
        self._left[name] = (job, left_ms - work_ms, stage + 1)
        spec = replace(honest_run(job), name=name, expected_duration_ms=work_ms)
        self.life.submit(spec, work_ms)

    def seen(self, event: Event) -> None:
        """Submit the next stage when a stage has ended."""
        if isinstance(event, RunEnded) and event.run in self._left:
            job, left_ms, stage = self._left.pop(event.run)
            if left_ms:
                self.life.soon(lambda: self._next(job, left_ms, stage))


class Decoys(Strategy):
    """Submits large runs without work, which take GPUs in the plan, and cancels them in time."""

    name = "decoys"
    count: ClassVar[int] = 4

    def __init__(self, life: Life) -> None:
        super().__init__(life)
        self._decoys: list[str] = []
        self._made = 0

    def look(self) -> None:
        """Cancel decoys that have started or will start soon, and submit others."""
        view, now_ms = self.life.view, self.life.timeline.now_ms
        for name in tuple(self._decoys):
            record = view.runs[name]
            promise = view.reservations.get(record.reservation or "")
            start_ms = None if promise is None else promise.planned_start_ms
            if record.leases or (start_ms is not None and start_ms <= now_ms + 15 * MINUTE_MS):
                self._decoys.remove(name)
                self.life.send(Cancel(name))
        while len(self._decoys) < self.count:
            self._made += 1
            name = f"decoy{self._made:04d}"
            self._decoys.append(name)
            self.life.send(Submit(honest_run(Job(name, PLAYER, now_ms, 16, 4 * HOUR_MS))))


class TooShort(Strategy):
    """Declares an eighth of each job's duration: the run fits into gaps, and then overstays."""

    name = "durations too short"

    def arrive(self, job: Job) -> None:
        """Submit a job with too short a duration."""
        told_ms = max(HOLD_QUANTUM_MS, job.work_ms // 8)
        spec = replace(honest_run(job), expected_duration_ms=told_ms)
        self.life.submit(spec, job.work_ms)


class TooLong(Strategy):
    """Declares four times each job's duration, so that others cannot count on its end."""

    name = "durations too long"

    def arrive(self, job: Job) -> None:
        """Submit a job with too long a duration."""
        spec = replace(honest_run(job), expected_duration_ms=4 * job.work_ms)
        self.life.submit(spec, job.work_ms)


class Dodging(Strategy):
    """Cancels runs that an announced conflict may end, and submits their remaining work again."""

    name = "cancel and resubmit around conflicts"
    needs_conflicts = True

    def __init__(self, life: Life) -> None:
        super().__init__(life)
        self._jobs: dict[str, tuple[Job, int]] = {}
        self._withdrawn: set[str] = set()

    def arrive(self, job: Job) -> None:
        """Submit a job."""
        self._submit(job, job.work_ms, 0)

    def _submit(self, job: Job, work_ms: int, turn: int) -> None:
        spec = replace(honest_run(job), expected_duration_ms=work_ms)
        spec = replace(spec, name=f"{job.name}-{turn}")
        self._jobs[spec.name] = (replace_work(job, work_ms), turn + 1)
        self.life.submit(spec, work_ms)

    def seen(self, event: Event) -> None:
        """Cancel runs that may be drawn, and submit their remaining work."""
        if isinstance(event, ConflictAnnounced):
            for each in event.runs:
                if each.owner == PLAYER and each.run not in self._withdrawn:
                    self._withdrawn.add(each.run)
                    self.life.soon(partial(self._withdraw, each.run))
        elif isinstance(event, RunEnded) and event.run in self._withdrawn:
            job, turn = self._jobs[event.run]
            left_ms = job.work_ms - self.life.done_gpu_ms((event.run,)) // job.gpus
            if left_ms > 0:
                self.life.soon(lambda: self._submit(job, left_ms, turn))

    def _withdraw(self, name: str) -> None:
        if self.life.view.runs[name].phase is Phase.RUNNING:
            self.life.send(Cancel(name))
        else:
            self._withdrawn.discard(name)


class SelfInflicted(Strategy):
    """Asks for GPUs in the domain where it has most, so that conflicts also end its own runs."""

    name = "self-inflicted conflicts"
    needs_conflicts = True

    def arrive(self, job: Job) -> None:
        """Submit a job in the domain where the player has most GPUs."""
        held = Counter[str]()
        for name in self.life.view.owner_leases.get(PLAYER, ()):
            lease = self.life.view.leases[name]
            for node, mask in lease.fact.slots:
                held[self.life.view.nodes[node].spec.domain] += mask.bit_count()
        spec = honest_run(job)
        if held:
            ((domain, _),) = held.most_common(1)
            spec = replace(spec, selector=((DOMAIN, domain),))
        self.life.submit(spec, job.work_ms)


class ParkedSpares(Strategy):
    """Submits every job with as many spares as GPUs; its next runs can fill the spares."""

    name = "parked spares"

    def arrive(self, job: Job) -> None:
        """Submit a job with spares."""
        spec = replace(honest_run(job), spares_per_group=min(8, job.gpus))
        self.life.submit(spec, job.work_ms)


class TinySteps(Strategy):
    """Submits jobs that shrink by single GPUs to half of their GPUs, with twice the duration."""

    name = "tiny steps"

    def arrive(self, job: Job) -> None:
        """Submit a job that may shrink and grow by one GPU."""
        spec = honest_run(job)
        if job.gpus > 1:
            elastic = Malleable(
                gpus_min=job.gpus // 2, gpus_max=job.gpus, gpus_step=1, gpus_desired=job.gpus
            )
            spec = replace(spec, malleable=elastic, expected_duration_ms=2 * job.work_ms)
        self.life.submit(spec, job.work_ms)


STRATEGIES: Final[tuple[type[Strategy], ...]] = (
    Splitting,
    ShortStages,
    Decoys,
    TooShort,
    TooLong,
    Dodging,
    SelfInflicted,
    ParkedSpares,
    TinySteps,
)


def replace_work(job: Job, work_ms: int) -> Job:
    """Return ``job`` with ``work_ms`` of work left."""
    return Job(job.name, job.owner, job.at_ms, job.gpus, work_ms)


# --- A world, played ---


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """The result of a world: the player's work done, and other owners' firm starts.

    ``moved`` counts the firm starts that moved later, by cause. ``by_player`` counts the moves
    whose cause names a lease or a run of the player, and ``by_player_ms`` is their total delay.
    ``faults`` has the faults that ``PromiseBooks`` found, if it was used. Work is in
    GPU-milliseconds.
    """

    player_gpu_ms: int
    others_gpu_ms: int
    firm: int
    moved: Counter[MoveCode]
    by_player: int
    by_player_ms: int
    faults: tuple[str, ...] = ()


class Life(Observer):
    """A simulated pool in which the player follows a strategy and all other owners are honest."""

    def __init__(
        self,
        strategy: type[Strategy],
        seed: int,
        hours: int,
        *,
        pool: Pool = WITH_CONFLICTS,
        checked: bool = False,
    ) -> None:
        self.timeline = Timeline(VirtualClock(NOW_MS))
        self._work: dict[str, int] = {}
        self._mine: set[str] = set()
        self._books = PromiseBooks(LOTTERY_SECRET, LOTTERY_LENGTH) if checked else None
        self.faults: list[str] = []
        self._read = GENESIS
        self.executor = SimExecutor(
            self.timeline,
            truth_of=lambda run: Truth(
                work_ms=self._work.get(run.name, 100 * HOUR_MS), checkpoint_every_ms=HOUR_MS
            ),
            stop_delay=lambda left_ms: left_ms // 2,
            notice_ms=HOUR_MS,
            saves_at_stop=False,
        )
        self.store = MemoryStore()
        self.strategy = strategy(self)
        self.simulation = Simulation(self.timeline, self.store, self.executor, observers=[self])
        self.send(Apply(_specs(pool)), actor="operator")
        for job in jobs_of(seed, hours):
            self.timeline.at(job.at_ms, partial(self._arrive, job))
        for number in range(6 * hours):
            self.timeline.at(NOW_MS + number * 10 * MINUTE_MS, self.strategy.look)
        self._hours = hours

    @property
    def view(self) -> StateView:
        """The recorded state."""
        assert self.simulation.engine is not None
        return self.simulation.engine.view

    def _arrive(self, job: Job) -> None:
        if job.owner == PLAYER:
            self.strategy.arrive(job)
        else:
            self.submit(honest_run(job), job.work_ms)

    def submit(self, run: Run, work_ms: int) -> None:
        """Submit a run whose real work is ``work_ms`` on its declared number of GPUs."""
        self._work[run.name] = work_ms
        if run.owner == PLAYER:
            self._mine.add(run.name)
        self.send(Submit(run))

    def send(self, command: Command, *, actor: str = "people") -> None:
        """Send a command, which must not be refused."""
        receipt = self.simulation.send(command, actor=actor)
        assert receipt is not None
        assert not receipt.decision.refusals, receipt.decision.refusals

    def soon(self, action: Callable[[], None]) -> None:
        """Plan ``action`` for this instant, after the commit."""
        self.timeline.after(0, action)

    def done_gpu_ms(self, runs: Iterable[str]) -> int:
        """Return the work that ``runs`` have done and kept."""
        return self.executor.done_gpu_ms(frozenset(runs))

    # --- As an observer ---

    def asked(self, commands: Sequence[Command], now_ms: int) -> None:
        """Record that a decision is in progress."""
        del commands
        if self._books is not None:
            self._books.looked(now_ms)

    def decided(self, command: Command, receipt: Receipt, view: StateView) -> None:
        """Do nothing: ``committed`` reads the blocks."""

    def committed(self, receipts: Sequence[Receipt], view: StateView) -> None:
        """Show the recorded events to the strategy, and enter them in the books."""
        del receipts
        blocks = self.store.blocks(from_height=self._read.height + 1)
        for head, events in open_blocks(blocks, after=self._read):
            self._read = head
            for event in events:
                self.strategy.seen(event)
            if self._books is not None:
                self.faults += self._books.enter(head.height, events, view)

    def reopened(self, view: StateView) -> None:
        """Do nothing: the engine never ends here."""

    def play(self) -> Played:
        """Play the world, and return the result."""
        self.simulation.run(NOW_MS + self._hours * HOUR_MS)
        assert not self.executor.wrongs, self.executor.wrongs
        others = {name for name in self._work if name not in self._mine}
        tally = _Tally(self.view)
        for _, events in open_blocks(self.store.blocks()):
            tally.enter(events)
        return Played(
            player_gpu_ms=self.done_gpu_ms(self._mine),
            others_gpu_ms=self.done_gpu_ms(others),
            firm=tally.firm,
            moved=tally.moved,
            by_player=tally.by_player,
            by_player_ms=tally.by_player_ms,
            faults=tuple(self.faults),
        )


@dataclass
class _Tally:
    """Counts the firm starts of other owners, and the firm starts that moved later."""

    view: StateView
    firm: int = 0
    moved: Counter[MoveCode] = field(default_factory=Counter)
    by_player: int = 0
    by_player_ms: int = 0
    _planned: dict[str, int | None] = field(default_factory=dict)

    def enter(self, events: Sequence[Event]) -> None:
        for event in events:
            if isinstance(event, ReservationMade):
                if self._owner(event.run) != PLAYER:
                    self.firm += 1
                    self._planned[event.reservation] = event.planned_start_ms
            elif isinstance(event, ReservationMoved) and event.reservation in self._planned:
                self._move(event)

    def _move(self, event: ReservationMoved) -> None:
        before_ms, after_ms = self._planned[event.reservation], event.planned_start_ms
        self._planned[event.reservation] = after_ms
        if before_ms is None or (after_ms is not None and after_ms <= before_ms):
            return
        self.moved[event.cause.code] += 1
        if any(self._is_players(kind, name) for kind, name in event.cause.objects):
            self.by_player += 1
            self.by_player_ms += 0 if after_ms is None else after_ms - before_ms

    def _is_players(self, kind: str, name: str) -> bool:
        run = name.rsplit("/", 1)[0] if kind == "lease" else name
        return kind in ("lease", "run") and self._owner(run) == PLAYER

    def _owner(self, run: str) -> str:
        return self.view.runs[run].spec.owner


def _specs(pool: Pool) -> tuple[Applied, ...]:
    nodes = fleet(dict.fromkeys(DOMAINS, GPUS // len(DOMAINS)))
    money = (budget(owner, owner, envelope("all", FUNDED)) for owner in DEMAND_PERCENT)
    return (pool, *nodes, *(Owner(name=name) for name in DEMAND_PERCENT), *money)


def play(
    strategy: type[Strategy],
    seed: int,
    hours: int,
    *,
    pool: Pool = WITH_CONFLICTS,
    checked: bool = False,
) -> Played:
    """Return the result of the world of ``seed``; ``checked`` uses ``PromiseBooks``."""
    return Life(strategy, seed, hours, pool=pool, checked=checked).play()


# --- The search ---


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The results of a strategy over all worlds, relative to its honest twin; gains in percent."""

    strategy: str
    worlds: int
    gain: float
    gain_error: float
    gain_least: float
    gain_most: float
    others_gain: float
    firm: int
    moved: int
    by_player: int
    by_player_hours: float
    causes: dict[str, int]


def row_of(name: str, pairs: Sequence[tuple[Played, Played]]) -> Row:
    """Return the row of a strategy; ``pairs`` has (honest, gaming) for every world."""
    gains = [_percent(game.player_gpu_ms, twin.player_gpu_ms) for twin, game in pairs]
    causes = sum((game.moved for _, game in pairs), Counter[MoveCode]())
    return Row(
        strategy=name,
        worlds=len(pairs),
        gain=_percent(
            sum(game.player_gpu_ms for _, game in pairs),
            sum(twin.player_gpu_ms for twin, _ in pairs),
        ),
        gain_error=1.96 * stdev(gains) / len(gains) ** 0.5 if len(gains) > 1 else 0.0,
        gain_least=min(gains),
        gain_most=max(gains),
        others_gain=mean(_percent(game.others_gpu_ms, twin.others_gpu_ms) for twin, game in pairs),
        firm=sum(game.firm for _, game in pairs),
        moved=causes.total(),
        by_player=sum(game.by_player for _, game in pairs),
        by_player_hours=sum(game.by_player_ms for _, game in pairs) / HOUR_MS,
        causes={code.value: count for code, count in sorted(causes.items())},
    )


def _percent(some: int, base: int) -> float:
    return 100 * (some / max(1, base) - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """The worlds to play: ``seeds`` worlds of ``hours`` hours, in pools like ``pool``.

    ``players`` is the number of processes; the results do not depend on it.
    """

    name: str
    pool: Pool
    seeds: int
    hours: int
    strategies: Sequence[type[Strategy]]
    players: int = 1

    def rows(self) -> Iterator[Row]:
        """Yield a row for the honest twin, then a row for each strategy, as they are computed."""
        with ProcessPoolExecutor(self.players) as players:
            twins = list(players.map(partial(self._play, Strategy), range(self.seeds)))
            yield row_of(Strategy.name, [(twin, twin) for twin in twins])
            for strategy in self.strategies:
                games = players.map(partial(self._play, strategy), range(self.seeds))
                yield row_of(strategy.name, list(zip(twins, games, strict=True)))

    def _play(self, strategy: type[Strategy], seed: int) -> Played:
        return play(strategy, seed, self.hours, pool=self.pool)


def searches(effort: Effort, *, players: int = 1) -> tuple[Search, Search]:
    """Return both searches: many days without conflicts, and fewer half days with conflicts."""
    return (
        Search(
            name="without conflicts",
            pool=WITHOUT_CONFLICTS,
            seeds=effort.of(20, 2),
            hours=effort.of(24, 6),
            strategies=[each for each in STRATEGIES if not each.needs_conflicts],
            players=players,
        ),
        Search(
            name="with conflicts",
            pool=WITH_CONFLICTS,
            seeds=effort.of(4, 1),
            hours=effort.of(8, 4),
            strategies=STRATEGIES,
            players=players,
        ),
    )


_HEAD: Final = (
    "strategy",
    "gain, %",
    "from .. to, %",
    "others' gain, %",
    "others' firm starts",
    "moved later",
    "of these for a lease of the player",
)


def cells(row: Row) -> tuple[str, ...]:
    """Return a row of the table as text."""
    hours = f" ({row.by_player_hours:.1f} h in all)" if row.by_player else ""
    return (
        row.strategy,
        f"{row.gain:+.1f} ± {row.gain_error:.1f}",
        f"{row.gain_least:+.1f} .. {row.gain_most:+.1f}",
        f"{row.others_gain:+.1f}",
        f"{row.firm:,}",
        str(row.moved),
        f"{row.by_player}{hours}",
    )


def measure(effort: Effort) -> list[Figure]:
    """Return the gain of each strategy; docs/reference/gaming.md discusses the gains."""
    return [
        Figure(
            name=f"gaming {each.name}: gain by {row.strategy}",
            unit="%",
            value=row.gain,
            better="less",
            details={
                "±": row.gain_error,
                "worlds": row.worlds,
                "others' firm starts": row.firm,
                "moved later by the player": row.by_player,
            },
        )
        for each in searches(effort)
        for row in each.rows()
        if row.strategy != Strategy.name
    ]


def main(args: Sequence[str]) -> int:
    """Print the table as text, and write it as JSON where requested."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gaming", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a few short worlds")
    parser.add_argument("--players", type=int, default=1, help="the number of processes that play")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the table to FILE")
    asked = parser.parse_args(args)
    tree = {}
    for each in searches(Effort(quick=asked.quick), players=asked.players):
        print(f"\n{each.name}: {each.seeds} worlds of {each.hours} hours\n")
        print("\n".join(("| " + " | ".join(_HEAD) + " |", "|---" * len(_HEAD) + "|")), flush=True)
        rows = []
        for row in each.rows():
            rows.append({name: getattr(row, name) for name in Row.__slots__})
            print("| " + " | ".join(cells(row)) + " |", flush=True)
        tree[each.name] = rows
        if asked.json is not None:
            asked.json.write_text(json.dumps(tree, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
