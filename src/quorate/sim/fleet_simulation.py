"""Plays a trace of jobs through the production engine, with a simulated clock.

Runs are submitted when their jobs arrive. Budgets pay for the runs, and the pool shares its nodes
in rounds or gives a run its GPUs until the run ends. ``decide`` makes the decisions; this module
has only the fleet, the arrivals and the real behaviour of each job. Only the lottery depends on the
seed, so two simulations of the same jobs with the same seed are equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import sha256
from math import ceil
from time import process_time
from typing import Final

from quorate.adapters.stores.store_memory import MemoryStore
from quorate.core.commands import Applied, Apply, Submit
from quorate.ledger.chain import open_blocks
from quorate.model.amounts import DAY_MS, HOUR_MS, SECOND_MS
from quorate.model.events import LeaseEnded, LeaseStarted, RunSubmitted
from quorate.model.job_types import SPREAD_SUFFIX
from quorate.model.refusal import sentence
from quorate.model.selector import REGION
from quorate.model.specs import (
    Budget,
    Discipline,
    Envelope,
    Node,
    OnQuota,
    Owner,
    Pool,
    RoundsWork,
    Run,
)
from quorate.policy.files.cluster_file import Cluster
from quorate.policy.files.throughputs_file import ThroughputTable
from quorate.ports.store_port import EventStore
from quorate.sim.outcome import Outcome, SimulatedRun
from quorate.sim.report.metrics import is_complete
from quorate.sim.report.outcome_of_ledger import outcome_of_ledger
from quorate.sim.room_work import Truth, WorkAccount
from quorate.sim.round_simulation import RoundsStuckError
from quorate.sim.saved_room import SavedPlay, Timer
from quorate.sim.sim_executor import SimExecutor
from quorate.sim.simulation import Action, Simulation, Timeline, VirtualClock
from quorate.sim.table_rates import kind_of, kinds_of, pool_rates, speeds_of
from quorate.sim.traces.trace_job import TraceError, TraceJob

START_MS: Final = 1_700_000_000_000
"""When simulated time begins, if a trace has no dates."""
REGION_NAME: Final = "sim"
WINDOW_MS: Final = 10 * 365 * DAY_MS
"""The window of budgets, which is longer than any trace."""
ACTOR: Final = "trace"
STALE_ROUNDS: Final = 1_000
"""The simulation is stuck if no run has had GPUs, or made progress, for more rounds than this."""
QUIET_MS: Final = 366 * DAY_MS
"""The simulation is stuck if runs still wait this long after the last arrival."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """The cost of stops. A run checkpoints every ``checkpoint_every_ms``.

    If ``saves_at_stop``, a run also checkpoints when its lease is stopped; otherwise a stop loses
    the work since the last checkpoint. A lease keeps its GPUs for ``stop_ms`` after it was stopped.
    """

    checkpoint_every_ms: int = HOUR_MS
    saves_at_stop: bool = True
    stop_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """Nodes, a pool, owners and budgets, and the cost of stops.

    ``sizes`` has, for each flavor, the number of its GPUs and the GPUs of its largest node.
    """

    specs: tuple[Applied, ...]
    sizes: Mapping[str, tuple[int, int]]
    pool: Pool
    costs: Costs = field(default_factory=Costs)
    table: ThroughputTable | None = None

    @property
    def flavors(self) -> tuple[str, ...]:
        """The flavors that have GPUs."""
        return tuple(self.sizes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How the GPUs of a flavor are arranged: equal nodes, ``nodes_per_domain`` in each domain."""

    gpus_per_node: int = 8
    nodes_per_domain: int = 16


def plain_fleet(
    cluster: Cluster,
    owners: Mapping[str, int],
    pool: Pool,
    layout: Layout = Layout(),  # noqa: B008 - a frozen value
) -> Fleet:
    """Return a fleet of equal nodes for each flavor.

    ``owners`` has the number of GPUs that the budget of each owner pays for. An owner's envelope
    for a flavor never has more GPUs than the fleet has of this flavor.
    """
    nodes, envelopes = list[Node](), dict[str, int]()
    for flavor, gpus in zip(cluster.flavors, cluster.gpus, strict=True):
        if gpus:
            envelopes[flavor] = gpus
            nodes += _nodes(flavor, gpus, layout)
    budgets = [
        Budget(
            name=owner,
            owner=owner,
            envelopes=tuple(
                Envelope(
                    name=flavor,
                    flavor=flavor,
                    selector=((REGION, REGION_NAME),),
                    start_ms=START_MS,
                    end_ms=START_MS + WINDOW_MS,
                    concurrency=min(most, gpus),
                )
                for flavor, gpus in envelopes.items()
            ),
        )
        for owner, most in owners.items()
    ]
    specs: tuple[Applied, ...] = (pool, *nodes, *(Owner(name=owner) for owner in owners), *budgets)
    sizes = {flavor: (gpus, min(gpus, layout.gpus_per_node)) for flavor, gpus in envelopes.items()}
    return Fleet(specs=specs, sizes=sizes, pool=pool)


def _nodes(flavor: str, gpus: int, layout: Layout) -> Iterator[Node]:
    each = layout.gpus_per_node
    for number in range(ceil(gpus / each)):
        yield Node(
            name=f"{flavor}-{number:05d}",
            flavor=flavor,
            gpus=min(each, gpus - number * each),
            region=REGION_NAME,
            cluster=flavor,
            domain=f"d{number // layout.nodes_per_domain}",
        )


def budgets_by_use(jobs: Iterable[TraceJob], gpus: int, part: float = 1.0) -> dict[str, int]:
    """Return each owner's part of ``gpus``, in proportion to the GPU time of the owner's jobs.

    All parts are multiplied by ``part``. No owner gets fewer GPUs than its largest job takes:
    otherwise that job could never run.
    """
    used: dict[str, float] = {}
    widest: dict[str, int] = {}
    for job in jobs:
        used[job.owner] = used.get(job.owner, 0.0) + job.gpus * (job.duration_s or job.steps or 0.0)
        widest[job.owner] = max(widest.get(job.owner, 0), job.gpus)
    total = sum(used.values()) or 1.0
    return {
        owner: max(widest[owner], round(gpus * part * used[owner] / total))
        for owner in sorted(used)
    }


def needs_of(fleet: Fleet, job: TraceJob) -> tuple[tuple[str, ...], dict[str, float], int]:
    """Return the flavors of ``job``, its rates, and its duration on its fastest flavor.

    Raises ``TraceError`` if the cluster has none of the job's flavors, if the job's duration is not
    known, or if the job needs several nodes and makes no progress on several nodes.
    """
    flavors = tuple(each for each in fleet.flavors if not job.flavors or each in job.flavors)
    if not flavors:
        raise TraceError(
            job.line,
            "flavors",
            f"of job {job.name} are {', '.join(job.flavors)}, which the cluster does not have",
            f"the cluster has {', '.join(fleet.flavors)}: add them, or choose other jobs",
        )
    rates = _rates(fleet, job, flavors)
    if rates:
        work_ms = ceil((job.steps or 0.0) * SECOND_MS / max(rates.values()))
    elif job.duration_s is not None:
        work_ms = _ms(job.duration_s)
    elif fleet.table is not None and kind_of(fleet.table, job) is not None:
        raise TraceError(
            job.line,
            "job_type",
            f"of job {job.name} runs on none of {', '.join(flavors)}, says the table of rates",
            "choose a cluster with other flavors, or leave the job out",
        )
    else:
        remedy = "add it, or add job_type and steps, from which the table of rates gives a duration"
        if fleet.table is None:
            remedy = "add it, or give the job's type and steps, and --throughputs"
        raise TraceError(job.line, "", f"job {job.name} has no duration_s", remedy)
    return flavors, rates, max(1, work_ms)


def _rates(fleet: Fleet, job: TraceJob, flavors: Sequence[str]) -> dict[str, float]:
    """Return the steps per second of ``job`` on each flavor that runs it.

    The result is empty if there is no table or the table does not have the job's type: the job is
    then equally fast on every flavor. A flavor is left out if the job needs several nodes of the
    flavor but makes no progress on several nodes.
    """
    table = fleet.table
    kind = None if table is None else kind_of(table, job)
    if table is None or kind is None:
        return {}
    row = table.types.index(kind)
    together = dict(zip(table.flavors, table.together.alone[row].tolist(), strict=True))
    spread = dict(zip(table.flavors, table.spread.alone[row].tolist(), strict=True))
    rates = {f: together[f] for f in flavors if together.get(f, 0.0) > 0.0}
    stuck = [f for f in rates if spread[f] == 0.0 and job.gpus > fleet.sizes[f][1]]
    if stuck and all(f in stuck or job.gpus > fleet.sizes[f][0] for f in rates):
        names = ", ".join(f"{flavor}{SPREAD_SUFFIX}" for flavor in stuck)
        raise TraceError(
            job.line,
            "job_type",
            f"of job {job.name} is {kind.key}, which makes no progress on several nodes, says the "
            f"table of rates; nodes have at most {max(each for _, each in fleet.sizes.values())} "
            "GPUs",
            f"give nodes {job.gpus} GPUs (gpus_per_node), correct the rates of {names}, or leave "
            "the job out",
        )
    return {f: rate for f, rate in rates.items() if f not in stuck}


class FleetPlay:
    """A running simulation: each call of ``go_on`` lets simulated time pass.

    If ``saved`` is given, this play continues the saved play, whose ledger is in ``store``.
    """

    def __init__(  # noqa: PLR0913 - what is played, and where it goes on
        self,
        fleet: Fleet,
        jobs: Sequence[TraceJob],
        *,
        seed: int = 0,
        start_ms: int = START_MS,
        store: EventStore | None = None,
        saved: SavedPlay | None = None,
    ) -> None:
        self.fleet, self.jobs, self.seed, self.start_ms = fleet, jobs, seed, start_ms
        self.refused: list[str] = []
        self._jobs = {job.name: job for job in self.jobs}
        table = fleet.table
        self._rates = (
            () if table is None else pool_rates(table, fleet.flavors, kinds_of(table, jobs))
        )
        self.came = 0
        self._cpu_s = 0.0
        self._idle_since_ms = start_ms
        """The last instant at which ``go_on`` paused while a run had a lease."""
        self._timeline = Timeline(VirtualClock(start_ms))
        self._store: EventStore = MemoryStore() if store is None else store
        flavor_of = {spec.name: spec.flavor for spec in fleet.specs if isinstance(spec, Node)}
        costs = fleet.costs
        self._executor = SimExecutor(
            self._timeline,
            truth_of=lambda run: self._truth_of(self._jobs[run.name]),
            stop_delay=lambda left_ms: min(left_ms, costs.stop_ms),
            notice_ms=HOUR_MS,
            saves_at_stop=costs.saves_at_stop,
            flavor_of=flavor_of.__getitem__,
        )
        if saved is not None:
            self._restore(saved)
        self._simulation = Simulation(self._timeline, self._store, self._executor)
        self._simulation.is_crowded = True
        if saved is not None:
            self._simulation.due_ms = saved.due_ms
            return
        receipt = self._simulation.send(Apply(fleet.specs), actor=ACTOR)
        assert receipt is not None, "nothing crashes here"
        for refusal in receipt.decision.refusals:
            raise TraceError(0, "", f"the fleet is refused: {sentence(refusal)}", "change it")
        self._plan_next()

    @property
    def store(self) -> EventStore:
        """The ledger, for reading."""
        return self._store

    @property
    def now_ms(self) -> int:
        """The present instant of simulated time."""
        return self._timeline.now_ms

    @property
    def waiting(self) -> int:
        """How many runs wait now."""
        engine = self._simulation.engine
        return 0 if engine is None else len(engine.view.pending)

    @property
    def lost_gpu_ms(self) -> int:
        """The work that was lost by stops so far, and had to be done again."""
        return self._executor.lost_gpu_ms

    def go_on(self, for_ms: int) -> bool:
        """Let ``for_ms`` of simulated time pass; return whether the simulation can continue."""
        began_s = process_time()
        self._simulation.run(self.now_ms + for_ms)
        self._cpu_s += process_time() - began_s
        assert not self._executor.wrongs, self._executor.wrongs[:3]
        self._check_progress()
        if self._timeline.next_ms() is not None:
            return True
        last_ms = self.start_ms + _ms(self.jobs[-1].arrives_s) if self.jobs else self.start_ms
        if not self.waiting:
            return self._are_in_rounds()
        if self.now_ms > last_ms + QUIET_MS:
            raise TraceError(
                0, "", f"{self.waiting} runs will never start", "raise their owners' budgets"
            )
        return True

    def _check_progress(self) -> None:
        """Raise ``RoundsStuckError`` if the remaining runs would never end.

        Either these runs get no GPUs, or every stop loses all the work since the previous stop.
        """
        pool, costs = self.fleet.pool, self.fleet.costs
        if pool.discipline is not Discipline.ROUNDS:
            return
        if self.came < len(self.jobs) or not self._are_in_rounds():
            return
        last_ms = self.start_ms + _ms(self.jobs[-1].arrives_s)
        if self._executor.known():
            self._idle_since_ms = self.now_ms
        if self.now_ms - max(last_ms, self._idle_since_ms) > STALE_ROUNDS * pool.round_ms:
            raise RoundsStuckError(
                f"the remaining runs get no GPUs: in {STALE_ROUNDS:,} rounds none had a lease; "
                f"choose a policy that gives every run a share, and budgets that can pay for it"
            )
        if costs.saves_at_stop:
            return
        since_ms = max(last_ms, self._executor.progressed_ms())
        if self.now_ms - since_ms > STALE_ROUNDS * pool.round_ms:
            raise RoundsStuckError(
                f"the remaining runs make no progress: in {STALE_ROUNDS:,} rounds none reached its "
                f"next checkpoint, and every stop lost the work since the last checkpoint "
                f"({self.lost_gpu_ms / HOUR_MS:,.0f} GPU-hours in all); set checkpoint_s to less "
                f"than the rounds of {pool.round_ms / SECOND_MS:g} s, or saves_at_stop to true"
            )

    # --- Pauses ---

    def saved(self) -> SavedPlay:
        """Return the state of the paused play, except its ledger."""
        sequence, planned = self._timeline.planned()
        return SavedPlay(
            now_ms=self.now_ms,
            due_ms=self._simulation.due_ms,
            came=self.came,
            refused=tuple(self.refused),
            cpu_s=self._cpu_s,
            sequence=sequence,
            timers=tuple((at_ms, number, self._timer_of(act)) for at_ms, number, act in planned),
            room=self._executor.saved(),
            head=self._store.head(),
        )

    def _timer_of(self, action: Action) -> Timer | None:
        """Return the timer of a planned action; None if the action is the next arrival."""
        assert isinstance(action, partial), action
        if action.func == self._arrive:
            return None
        assert action.func == self._executor.fire, action
        (timer,) = action.args
        assert isinstance(timer, Timer), timer
        return timer

    def _restore(self, saved: SavedPlay) -> None:
        """Continue from ``saved``; the ledger in the store must end where it ended at the pause."""
        assert self._store.head() == saved.head, (
            "the ledger is not the ledger of the checkpoint, or has grown since the checkpoint"
        )
        facts, runs = dict[str, LeaseStarted](), dict[str, Run]()
        for _, events in open_blocks(self._store.blocks()):
            for event in events:
                match event:
                    case LeaseStarted():
                        facts[event.lease] = event
                    case LeaseEnded():
                        del facts[event.lease]
                    case RunSubmitted():
                        runs[event.run.name] = event.run
                    case _:
                        pass
        self.came, self.refused, self._cpu_s = saved.came, [*saved.refused], saved.cpu_s
        self._idle_since_ms = saved.now_ms
        self._timeline.clock.true_ms = saved.now_ms
        self._timeline.restore(
            saved.sequence,
            [(at_ms, number, self._action_of(timer)) for at_ms, number, timer in saved.timers],
        )
        self._executor.restore(saved.room, facts.__getitem__, runs.__getitem__)

    def _action_of(self, timer: Timer | None) -> Action:
        if timer is None:
            return partial(self._arrive)
        return partial(self._executor.fire, timer)

    def _are_in_rounds(self) -> bool:
        engine = self._simulation.engine
        return engine is not None and bool(engine.view.in_rounds)

    def outcome(self, name: str, prices: Mapping[str, float] | None = None) -> Outcome:
        """Return the outcome that the play's ledger shows; ``prices`` are per GPU and hour."""
        events = (event for _, block in open_blocks(self._store.blocks()) for event in block)
        found = outcome_of_ledger(events, name=name, prices=prices or {}, seed=self.seed)
        accounts = self._executor.accounts()
        runs = tuple(self._true_run(run, accounts.get(run.name)) for run in found.runs)
        return replace(found, runs=runs, cpu_s=self._cpu_s, estimated=())

    def _true_run(self, run: SimulatedRun, account: WorkAccount | None) -> SimulatedRun:
        """Return ``run`` with its real work and losses, which the ledger does not record.

        The trace has the whole work of the run, and the simulated machine room has the work that
        was done or lost. The deadline comes ``slo`` times the job's duration after the submission.
        The run does not declare this deadline, because a run is refused if its declared deadline
        cannot be met.
        """
        job, account = self._jobs[run.name], account or WorkAccount()
        _, _, work_ms = needs_of(self.fleet, job)
        asked, done = run.steps_asked, run.steps_done
        if self.fleet.pool.discipline is not Discipline.ROUNDS:
            asked = done = float(work_ms)
            if not is_complete(run):
                done = min(account.done_gpu_ms / run.gpus, work_ms - 1.0)
        took_ms = work_ms if job.duration_s is None else _ms(job.duration_s)
        return replace(
            run,
            ideal_ms=work_ms,
            steps_asked=asked,
            steps_done=done,
            lost_gpu_ms=account.lost_gpu_ms,
            deadline_ms=None if job.slo is None else run.submitted_ms + round(job.slo * took_ms),
        )

    # --- Arrivals ---

    def _plan_next(self) -> None:
        if self.came < len(self.jobs):
            self._timeline.at(self._arrives_ms(self.came), partial(self._arrive))

    def _arrives_ms(self, place: int) -> int:
        return self.start_ms + _ms(self.jobs[place].arrives_s)

    def _arrive(self) -> None:
        """Submit the next job, together with all jobs that arrive at the same instant.

        If jobs were submitted one after the other, the first would begin a round in an empty pool,
        and the others would wait until the round ends.
        """
        begun, at_ms = self.came, self._arrives_ms(self.came)
        while self.came < len(self.jobs) and self._arrives_ms(self.came) == at_ms:
            self.came += 1
        jobs = self.jobs[begun : self.came]
        self._plan_next()
        submits = [Submit(self._run_of(job)) for job in jobs]
        receipts = self._simulation.send_all(submits, actor=ACTOR)
        for job, receipt in zip(jobs, receipts, strict=True):
            if receipt.decision.refusals:
                self.refused.append(f"{job.name}: {sentence(receipt.decision.refusals[0])}")

    def _run_of(self, job: TraceJob) -> Run:
        """Return the run that is submitted for ``job``."""
        fleet = self.fleet
        flavors, rates, work_ms = needs_of(self.fleet, job)
        return Run(
            name=job.name,
            owner=job.owner,
            flavors=tuple(rates) or flavors,
            gpus=job.gpus,
            pool=fleet.pool.name,
            expected_duration_ms=work_ms if job.declared_s is None else max(1, _ms(job.declared_s)),
            checkpoint_ms=fleet.costs.stop_ms,
            on_quota=OnQuota.WAIT,
            nonce=sha256(f"{self.seed}/{job.name}".encode()).hexdigest()[:16],
            rounds=self._rounds_work(job, flavors, rates, work_ms),
        )

    def _truth_of(self, job: TraceJob) -> Truth:
        """Return the real behaviour of the run of ``job``."""
        _, rates, work_ms = needs_of(self.fleet, job)
        truth = Truth(work_ms=work_ms, checkpoint_every_ms=self.fleet.costs.checkpoint_every_ms)
        if not rates or self.fleet.table is None:
            return truth
        kind = kind_of(self.fleet.table, job)
        assert kind is not None, job
        alone, paired = speeds_of(self._rates, kind, max(rates.values()))
        return replace(truth, speeds_ppm=alone, kind=kind.model, paired_ppm=paired)

    def _rounds_work(
        self, job: TraceJob, flavors: Sequence[str], rates: Mapping[str, float], work_ms: int
    ) -> RoundsWork | None:
        if self.fleet.pool.discipline is not Discipline.ROUNDS:
            return None
        if rates:
            is_typed = bool(self.fleet.pool.throughputs)
            return RoundsWork(
                job_type=job.job_type if is_typed else None,
                throughputs=() if is_typed else tuple(rates.items()),
                total_steps=max(1, round(job.steps or 0.0)),
                weight=job.weight,
            )
        steps = max(1, work_ms // SECOND_MS)
        return RoundsWork(
            throughputs=tuple((flavor, 1.0) for flavor in flavors),
            total_steps=steps,
            weight=job.weight,
        )


def _ms(seconds: float) -> int:
    return round(seconds * SECOND_MS)
