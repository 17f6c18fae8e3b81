"""Prepares a scenario: reads its files, draws its jobs, and makes the simulation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final, Protocol

from quorate.model.amounts import PPM
from quorate.model.specs import Discipline, FlavorRates, Pool
from quorate.policy.files.cluster_file import Cluster, read_cluster
from quorate.policy.files.file_faults import Faulty
from quorate.policy.files.throughputs_file import ThroughputTable, read_throughputs
from quorate.policy.plugin_policies import known_policies
from quorate.ports.store_port import EventStore
from quorate.sim.fleet_simulation import (
    WINDOW_MS,
    Costs,
    FleetPlay,
    Layout,
    budgets_by_use,
    needs_of,
    plain_fleet,
)
from quorate.sim.outcome import Outcome
from quorate.sim.policy_shares import COST_UNIT, COSTS, known_prices
from quorate.sim.report.metrics import metrics_of
from quorate.sim.saved_room import SavedPlay
from quorate.sim.scenario import Scenario, ScenarioError, drawn_of, measured_of
from quorate.sim.strict_play import Experiment, StrictPlay
from quorate.sim.table_rates import can_share_on, kinds_of, pool_rates, rates_on, templates_of
from quorate.sim.traces.generated import generated_jobs
from quorate.sim.traces.mapped_trace import column_map, read_mapped
from quorate.sim.traces.trace_formats import READERS, read_trace
from quorate.sim.traces.trace_job import Trace, TraceError, TraceJob

REFERENCE: Final = "v100"
"""The flavor on which generated jobs take the durations that were drawn for them.

If the table of rates does not have this flavor, the first flavor of the cluster is used.
"""
ROUNDS_AT_ONCE: Final = 200
PARTS: Final = 400
"""The number of parts in which the engine plays a trace, so that progress can be shown."""
_SECOND_MS: Final = 1_000
_UNPACKED: Final = "use a policy that is not packed"
_YEAR_S: Final = 365 * 86_400

Read = Callable[[str], bytes]
"""Returns the bytes of a file that a scenario names."""


class Stage(Protocol):
    """A running simulation, of the published mechanism or of the production engine."""

    def go_on(self) -> bool:
        """Play a part of the simulation; return whether the simulation can go on."""
        ...

    def done(self) -> float:
        """Return the part of the simulation that has been played, from 0 to 1."""
        ...

    def jobs_seen(self) -> int:
        """Return how many jobs have arrived."""
        ...

    def outcome(self) -> Outcome:
        """Return the outcome so far."""
        ...

    def refused(self) -> Sequence[str]:
        """Return the jobs that were not accepted, each with the reason."""
        ...

    def figures(self) -> dict[str, float | int | None]:
        """Return the figures to print first."""
        ...


@dataclass(slots=True)
class StrictStage:
    """A running simulation of a published experiment."""

    play: StrictPlay
    total: int

    def go_on(self) -> bool:
        """Play some rounds; return whether the simulation can go on."""
        return self.play.go_on(ROUNDS_AT_ONCE)

    def done(self) -> float:
        """Return the part of the jobs that has ended."""
        return min(1.0, len(self.play.tally.completion_s) / max(1, self.total))

    def jobs_seen(self) -> int:
        """Return how many jobs have arrived."""
        return len(self.play.jobs)

    def refused(self) -> Sequence[str]:
        """Return no jobs, because the published mechanism accepts every job."""
        return ()

    def outcome(self) -> Outcome:
        """Return the outcome of all jobs that have arrived."""
        return self.play.outcome()

    def figures(self) -> dict[str, float | int | None]:
        """Return the figures that the published experiments print."""
        return self.play.figures()


@dataclass(slots=True)
class FleetStage:
    """A running simulation with the production engine."""

    play: FleetPlay
    name: str
    measured: tuple[int, int] | None
    pause_ms: int | None = None
    """The instant of simulated time at which the simulation pauses, if any."""

    def go_on(self) -> bool:
        """Let a part of the trace's time pass, at most up to the pause."""
        jobs, play = self.play.jobs, self.play
        span_s = jobs[-1].arrives_s - jobs[0].arrives_s
        part_ms = max(3_600 * _SECOND_MS, round(span_s / PARTS) * _SECOND_MS)
        if self.pause_ms is not None and play.now_ms < self.pause_ms:
            part_ms = min(part_ms, self.pause_ms - play.now_ms)
        return play.go_on(part_ms)

    def is_at_pause(self) -> bool:
        """Return whether the simulation has reached its pause."""
        return self.play.now_ms == self.pause_ms

    def done(self) -> float:
        """Return the part of the jobs that has arrived."""
        return self.play.came / len(self.play.jobs)

    def jobs_seen(self) -> int:
        """Return how many jobs have arrived."""
        return self.play.came

    def refused(self) -> Sequence[str]:
        """Return the jobs whose runs were refused, each with the reason."""
        return self.play.refused

    def outcome(self) -> Outcome:
        """Return the outcome from the ledger of the simulation."""
        prices = known_prices(self.play.fleet.flavors)
        found = self.play.outcome(self.name, prices)
        found = replace(found, cost_unit=COST_UNIT if prices else "")
        return replace(found, measured=measured_names(self.play.jobs, self.measured))

    def figures(self) -> dict[str, float | int | None]:
        """Return how many measured jobs are done, and how many of all jobs were refused."""
        found = metrics_of(self.outcome())
        return {
            "jobs": found.runs,
            "jobs_done": found.completed,
            "jobs_refused": len(self.play.refused),
        }


def measured_names(
    jobs: Sequence[TraceJob], measured: tuple[int, int] | None
) -> frozenset[str] | None:
    """Return the names of the measured jobs; None means that all jobs are measured."""
    return None if measured is None else frozenset(job.name for job in jobs[slice(*measured)])


def staged(
    asked: Scenario,
    read: Read,
    opened: Callable[[], EventStore] | None = None,
    saved: SavedPlay | None = None,
) -> StrictStage | FleetStage:
    """Return the simulation of ``asked``; raises ``ScenarioError`` or ``TraceError``.

    After the scenario has been checked, ``opened`` makes the store for the ledger of the production
    engine; if ``opened`` is None, the ledger is in memory. If ``saved`` is given, the saved
    simulation, whose ledger is in the store, is continued.
    """
    cluster, table = cluster_of(asked), table_of(asked, read)
    if asked.policy is not None:
        _check_policy(asked.policy, cluster, table)
    measured = measured_of(asked)
    if asked.strict:
        assert asked.policy is not None, asked
        assert table is not None, asked
        _check_rates(cluster, table)
        jobs, total, seed = _stream(asked, read, cluster, table)
        experiment = Experiment(
            policy=asked.policy,
            cluster=cluster,
            table=table,
            seed=seed,
            measured=measured,
            round_s=asked.round_s,
        )
        return StrictStage(StrictPlay(experiment, jobs), total)
    trace = trace_of(asked, read, cluster, table)
    return FleetStage(
        _fleet_play(asked, trace, (cluster, table), opened, saved),
        asked.policy or asked.discipline,
        measured,
    )


def _check_policy(policy: str, cluster: Cluster, table: ThroughputTable | None) -> None:
    """Raise ``ScenarioError`` if ``policy`` does not exist.

    Also raise it if the policy needs prices or rates of pairs that are missing.
    """
    known = known_policies()
    if policy not in known.by_name:
        raise ScenarioError(
            "policy",
            f"is {policy!r}, which does not exist{known.hint()}",
            "list them: quorate policy list",
        )
    if known.by_name[policy].reads_costs:
        priceless = [flavor for flavor in cluster.flavors if flavor not in COSTS]
        if priceless:
            raise ScenarioError(
                "policy",
                f"weighs the cost of GPUs, but {priceless[0]} has no known price",
                f"use only the flavors {', '.join(COSTS)}, or a policy that ignores costs",
            )
    if not known.by_name[policy].reads_pairs:
        return
    lets = f"and {policy} lets two jobs share GPUs"
    if table is None:
        raise ScenarioError(
            "throughputs",
            f"is missing, {lets}",
            f"name a table of rates with pairs of job types, or {_UNPACKED}",
        )
    flavors = _flavors_of(cluster)
    if not can_share_on(table, flavors):
        raise ScenarioError(
            "throughputs",
            f"has no pair of job types that makes progress on {' or '.join(flavors)}, {lets}",
            f"add the rates of pairs, or {_UNPACKED}",
        )


def _check_rates(cluster: Cluster, table: ThroughputTable) -> None:
    """Raise ``ScenarioError`` if ``table`` has no rates on a flavor of ``cluster``."""
    unknown = [flavor for flavor in _flavors_of(cluster) if flavor not in table.flavors]
    if unknown:
        raise ScenarioError(
            "throughputs", f"has no rates on {unknown[0]}", "add these rates, or use other flavors"
        )


def _flavors_of(cluster: Cluster) -> list[str]:
    """Return the flavors of which ``cluster`` has GPUs."""
    return [f for f, gpus in zip(cluster.flavors, cluster.gpus, strict=True) if gpus]


def trace_of(
    asked: Scenario, read: Read, cluster: Cluster | None, table: ThroughputTable | None
) -> Trace:
    """Return the trace of the scenario, read from a file or drawn."""
    if asked.trace is not None:
        text = _text(read(asked.trace))
        if asked.columns is not None:
            return read_mapped(text, column_map(asked.columns))
        if asked.format is not None and asked.format not in READERS:
            raise ScenarioError(
                "format", f"is {asked.format!r}", f"write one of {', '.join(READERS)}"
            )
        return read_trace(text, asked.format)
    jobs, total, _ = _stream(asked, read, cluster, table)
    return Trace(jobs=tuple(islice(jobs, total)))


def _stream(
    asked: Scenario, read: Read, cluster: Cluster | None, table: ThroughputTable | None
) -> tuple[Iterable[TraceJob], int, int]:
    """Return the jobs, how many of them are needed, and the seed of the simulation.

    All jobs of a trace are needed. Of generated jobs, only the jobs up to the last measured job are
    needed.
    """
    measured = measured_of(asked)
    if asked.generate is None:
        jobs = trace_of(asked, read, cluster, table).jobs
        if measured is not None and measured[1] > len(jobs):
            raise ScenarioError("measure", f"ends beyond the {len(jobs)} jobs", "end it earlier")
        return jobs, len(jobs), asked.seed
    assert table is not None, asked
    drawn = drawn_of(asked.generate, asked.seed)
    total = drawn.jobs if measured is None else measured[1]
    if total is None:
        raise ScenarioError("generate", "has no end", "add jobs=100, or measure FROM:TO")
    if drawn.jobs is not None and drawn.jobs < total:
        raise ScenarioError(
            "generate.jobs", "is below the end of the measured jobs", "draw more jobs"
        )
    if cluster is not None:
        _check_rates(cluster, table)  # Generated jobs have types, and use only flavors with rates.
    flavors = table.flavors if cluster is None else _flavors_of(cluster)
    flavor = REFERENCE if REFERENCE in table.flavors else flavors[0]
    templates = templates_of(table, flavor)
    if not templates:
        raise ScenarioError("throughputs", f"has no type that runs on {flavor}", "add one")
    wishes = replace(drawn.wishes, templates=templates)
    stream = generated_jobs(wishes, rates_on(table, flavor))
    # As published, jobs arrive until all measured jobs have ended, unless all arrive at once.
    ends = drawn.jobs is not None or measured is None or not drawn.wishes.lam_s
    limit = drawn.jobs if drawn.jobs is not None else total
    return islice(stream, limit) if ends else stream, total, drawn.wishes.seed


def _fleet_play(
    asked: Scenario,
    trace: Trace,
    on: tuple[Cluster, ThroughputTable | None],
    opened: Callable[[], EventStore] | None,
    saved: SavedPlay | None,
) -> FleetPlay:
    cluster, table = on
    measured = measured_of(asked)
    if measured is not None and measured[1] > len(trace.jobs):
        raise ScenarioError("measure", f"ends beyond the {len(trace.jobs)} jobs", "end it earlier")
    gpus = sum(cluster.gpus)
    owners = dict.fromkeys(trace.owners, gpus)
    if asked.budgets is not None:
        owners = budgets_by_use(trace.jobs, gpus, asked.budgets)
    is_rounds = asked.discipline == Discipline.ROUNDS.value
    pool = Pool(
        name="simulated",
        discipline=Discipline(asked.discipline),
        policy=asked.policy if is_rounds else None,
        round_ms=round(asked.round_s * _SECOND_MS),
        grace_max_ms=round(asked.stop_s * _SECOND_MS),
        reservation_depth=Pool(name="simulated").reservation_depth
        if asked.depth is None
        else asked.depth,
        disruption_rate_ppm=Pool(name="simulated").disruption_rate_ppm if asked.conflicts else 0,
        costs_micros=_costs_micros(asked, cluster) if is_rounds else (),
        throughputs=_paired_rates(asked, trace, on) if is_rounds else (),
    )
    layout = Layout(gpus_per_node=asked.gpus_per_node, nodes_per_domain=asked.nodes_per_domain)
    fleet = plain_fleet(cluster, owners, pool, layout)
    fleet = replace(fleet, table=table, costs=costs_of(asked))
    for job in trace.jobs:
        flavors, rates, _ = needs_of(fleet, job)  # Errors are raised before a ledger is made.
        most = max(fleet.sizes[flavor][0] for flavor in rates or flavors)
        if job.gpus > most:
            raise ScenarioError(
                "cluster",
                f"has at most {most} GPUs of a flavor that job {job.name} may use, and "
                f"job {job.name} takes {job.gpus}",
                "make the cluster larger, or leave the job out",
            )
    late = next((job for job in trace.jobs if _ends_s(job) > WINDOW_MS // _SECOND_MS), None)
    if late is not None:
        raise ScenarioError(
            "trace",
            f"job {late.name} ends {_ends_s(late) / _YEAR_S:.3g} years after the first job begins, "
            f"but the budgets last {WINDOW_MS // _SECOND_MS / _YEAR_S:g} years",
            "leave the job out, or move the arrivals",
        )
    store = None if opened is None else opened()
    if saved is not None and (store is None or store.head() != saved.head):
        raise ScenarioError(
            "record",
            f"{asked.record} does not end where the simulation was paused",
            "name the checkpoint that was written last, or play the scenario again",
        )
    return FleetPlay(fleet, trace.jobs, seed=asked.seed, store=store, saved=saved)


def costs_of(asked: Scenario) -> Costs:
    """Return the cost of stops in ``asked``."""
    return Costs(
        checkpoint_every_ms=max(1, round(asked.checkpoint_s * _SECOND_MS)),
        saves_at_stop=asked.saves_at_stop,
        stop_ms=round(asked.stop_s * _SECOND_MS),
    )


def _costs_micros(asked: Scenario, cluster: Cluster) -> tuple[tuple[str, int], ...]:
    """Return the published prices of the flavors, if the policy considers prices."""
    policy = known_policies().by_name[asked.policy or ""]
    if not policy.reads_costs:
        return ()
    return tuple((flavor, round(COSTS[flavor] * PPM)) for flavor in cluster.flavors)


def _paired_rates(
    asked: Scenario, trace: Trace, on: tuple[Cluster, ThroughputTable | None]
) -> tuple[FlavorRates, ...]:
    """Return the rates of the types of jobs, if the policy decides which jobs share GPUs."""
    cluster, table = on
    if table is None or not known_policies().by_name[asked.policy or ""].reads_pairs:
        return ()
    kinds = kinds_of(table, trace.jobs)
    if not kinds:
        raise ScenarioError(
            "trace",
            f"has no job with a type and steps, and {asked.policy} lets two jobs share GPUs by "
            "their types",
            f"add job_type and steps, or {_UNPACKED}",
        )
    return pool_rates(table, _flavors_of(cluster), kinds)


def _ends_s(job: TraceJob) -> float:
    """Return the earliest end of ``job``, or its arrival if it has no duration."""
    return job.arrives_s + (job.duration_s or 0.0)


def cluster_of(asked: Scenario) -> Cluster:
    """Return the GPUs of ``asked``, or raise ``ScenarioError``."""
    assert asked.cluster is not None, asked
    found = read_cluster(asked.cluster)
    if isinstance(found, Faulty):
        fault = found.faults[0]
        where = f"{fault.place}: " if fault.place else ""
        raise ScenarioError("cluster", f"{where}{fault.message}", fault.remedy)
    if not sum(found.gpus):
        raise ScenarioError("cluster", "has no GPUs", "write v100=36,p100=36")
    return found


def table_of(asked: Scenario, read: Read) -> ThroughputTable | None:
    """Return the rates of ``asked``, if it has any, or raise ``ScenarioError``."""
    if asked.throughputs is None:
        return None
    found = read_throughputs(read(asked.throughputs))
    if isinstance(found, Faulty):
        raise ScenarioError("throughputs", found.faults[0].text(), "correct the table")
    return found


def _text(data: bytes) -> str:
    try:
        # Some programs write a byte order mark before the first line.
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise TraceError(line, "", "is no UTF-8 text", "save the file as UTF-8") from None
