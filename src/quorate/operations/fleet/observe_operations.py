"""Requests and responses of operations on the whole fleet and on the output of runs."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta, field

from quorate.operations.caller import ANYBODY
from quorate.operations.common_requests import Asked, Name
from quorate.operations.common_responses import Given
from quorate.operations.operation import EVENT_STREAM, Area, Effect, Operation

LINES_MAX: Final = 1_000
"""The most lines of a run's output in one answer."""


class FleetTop(Asked, kw_only=True, frozen=True):
    """One pool, or all pools."""

    pool: Name | None = None


class ShowMap(Asked, kw_only=True, frozen=True):
    """One pool, or all pools."""

    pool: Name | None = None


class RunLogs(Asked, kw_only=True, frozen=True):
    """The output of a run: at most ``limit`` lines, from line ``from`` on, counted from 0.

    If ``tail`` is given, the answer has only the last ``tail`` lines that exist.
    """

    run: Name
    from_: Annotated[int, Meta(ge=0)] = 0
    limit: Annotated[int, Meta(ge=1, le=LINES_MAX)] = LINES_MAX
    tail: Annotated[int, Meta(ge=1, le=LINES_MAX)] | None = None


class WatchLogs(Asked, kw_only=True, frozen=True):
    """The output of a run from line ``from`` on, counted from 0."""

    run: Name
    first: Annotated[int, Meta(ge=0)] = field(default=0, name="from")


class RunReports(Asked, kw_only=True, frozen=True):
    """The run whose reports are requested."""

    run: Name


class Use(Given, kw_only=True, frozen=True):
    """GPUs of one domain, flavor and pool: in use, free, and out of service."""

    domain: str
    flavor: str
    pool: str
    gpus_used: int
    gpus_free: int
    gpus_out_of_service: int
    gpus_total: int
    nodes: int
    nodes_not_ready: int


class FlavorUse(Given, kw_only=True, frozen=True):
    """All GPUs of one flavor.

    ``gpus_queued`` are the GPUs of waiting runs. A run is counted for the first of its flavors that
    the fleet has.
    """

    flavor: str
    gpus_used: int
    gpus_free: int
    gpus_out_of_service: int
    gpus_total: int
    gpus_queued: int


class OwnerUse(Given, kw_only=True, frozen=True):
    """The GPUs of one flavor that the runs of one owner hold now."""

    owner: str
    flavor: str
    gpus: int
    gpus_spare: int
    runs: int


class Top(Given, kw_only=True, frozen=True):
    """The fleet as it is now: by flavor, by domain, and by owner."""

    flavors: tuple[FlavorUse, ...]
    domains: tuple[Use, ...]
    owners: tuple[OwnerUse, ...]


class NodeColumns(Given, kw_only=True, frozen=True):
    """Nodes as columns, domain by domain; ``status`` is ``Ready``, ``Cordoned`` or ``Failed``."""

    name: tuple[str, ...]
    domain: tuple[str, ...]
    flavor: tuple[str, ...]
    pool: tuple[str, ...]
    gpus: tuple[int, ...]
    status: tuple[str, ...]


class LeaseColumns(Given, kw_only=True, frozen=True):
    """Leases as columns, without the names of tenants that the caller may not see.

    Each lease began at ``startMs``, and is paid for until ``untilMs``.
    """

    name: tuple[str, ...]
    run: tuple[str, ...]
    owner: tuple[str, ...]
    role: tuple[str, ...]
    start_ms: tuple[int, ...]
    until_ms: tuple[int, ...]


class HeldColumns(Given, kw_only=True, frozen=True):
    """Consecutive GPUs that one lease has on one node, from the ordinal ``first`` on.

    ``node`` and ``lease`` are positions in the columns of nodes and of leases, counted from 0.
    """

    node: tuple[int, ...]
    first: tuple[int, ...]
    gpus: tuple[int, ...]
    lease: tuple[int, ...]


class MapGiven(Given, kw_only=True, frozen=True):
    """Every node, and the leases on its GPUs, after the event with the number ``sequence``."""

    sequence: int
    nodes: NodeColumns
    leases: LeaseColumns
    held: HeldColumns


class LogLine(Given, kw_only=True, frozen=True):
    """One line of output; ``stream`` is ``out`` or ``err``.

    ``rank`` is the number of the process that wrote the line. It is null if the executor itself
    wrote the line.
    """

    number: int
    at: str
    node: str
    rank: int | None
    stream: str
    text: str


class Logs(Given, kw_only=True, frozen=True):
    """Lines in order; ``next`` is the number of the next line to request.

    ``more`` means that further lines exist now. ``ended`` means that no further line will be
    written.
    """

    run: str
    lines: tuple[LogLine, ...]
    next: int
    ended: bool
    more: bool = False


class StepTold(Given, kw_only=True, frozen=True):
    """A step that a run has reported; a figure that is not a finite number is null.

    ``generation`` counts the starts of the run's processes.
    """

    step: int
    at: str
    generation: int
    figures: dict[str, float | None]


class RunProgress(Given, kw_only=True, frozen=True):
    """The reports of a run: its last step, and the reports before it, oldest first.

    ``total`` is the number of steps that the run declares, or reports as the figure ``total``.
    ``steps_per_second`` is the rate since the run's processes last started, or since the oldest
    report that is kept.
    """

    run: str
    step: int | None
    total: int | None
    steps_per_second: float | None
    at: str | None
    expected_end: str | None
    reports: tuple[StepTold, ...]


OPERATIONS: Final = (
    Operation(
        name="fleet-top",
        area=Area.FLEET,
        summary="Show the use of the fleet by flavor, by domain and by owner.",
        takes=FleetTop,
        gives=Top,
        roles=ANYBODY,
        method="GET",
        path="/top",
        handler="quorate.operations.fleet.observe_handlers:fleet_top",
        refusals=("unknown-name",),
        cli=("top",),
    ),
    Operation(
        name="fleet-map",
        area=Area.FLEET,
        summary="Show every node, and which lease has which of its GPUs.",
        takes=ShowMap,
        gives=MapGiven,
        roles=ANYBODY,
        method="GET",
        path="/map",
        handler="quorate.operations.fleet.observe_handlers:fleet_map",
        refusals=("unknown-name",),
        cli=("top",),
    ),
    Operation(
        name="run-logs",
        area=Area.RUNS,
        summary="Show the output of a run.",
        takes=RunLogs,
        gives=Logs,
        roles=ANYBODY,
        method="GET",
        path="/runs/{run}/logs",
        handler="quorate.operations.fleet.observe_handlers:run_logs",
        refusals=("unknown-name", "no-logs"),
        cli=("logs",),
    ),
    Operation(
        name="run-reports",
        area=Area.RUNS,
        summary="Show the steps, rate and figures that a run has reported.",
        takes=RunReports,
        gives=RunProgress,
        roles=ANYBODY,
        method="GET",
        path="/runs/{run}/reports",
        handler="quorate.operations.fleet.run_reports:run_reports",
        refusals=("unknown-name",),
        cli=("watch",),
    ),
    Operation(
        name="watch-logs",
        area=Area.RUNS,
        summary="Follow the output of a run until the run is over.",
        takes=WatchLogs,
        gives=Logs,
        roles=ANYBODY,
        method="GET",
        path="/runs/{run}/logs/watch",
        handler="quorate.operations.fleet.log_following:watch_logs",
        effect=Effect.STREAM,
        refusals=("unknown-name", "no-logs"),
        cli=("logs",),
        media=EVENT_STREAM,
    ),
)
