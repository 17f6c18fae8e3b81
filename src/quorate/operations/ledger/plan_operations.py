"""Requests and responses of forecasts and explanations."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import UNSET, Meta, UnsetType

from quorate.operations.caller import ANYBODY
from quorate.operations.common_requests import Asked, Name, Tree
from quorate.operations.common_responses import Given
from quorate.operations.fleet.observe_operations import RunProgress
from quorate.operations.operation import Area, Operation

PLANNED_MAX: Final = 50
"""The most runs that one request may plan. For each run, the runs before it are decided, too."""

QUEUE_STARTS: Final = 25
QUEUE_STARTS_MAX: Final = 100
"""The most waiting runs for which one request may ask. The start and the odds of each are computed
for the answer."""


class AboutRun(Asked, kw_only=True, frozen=True):
    """A submitted run.

    If ``exact``, the start is computed even if the run is beyond the planning depth of its pool.
    All runs ahead of the run are then planned for this answer, up to a number that the answer
    states.
    """

    run: Name
    exact: bool = False


class PlanRuns(Asked, kw_only=True, frozen=True):
    """Run documents that are not submitted, in the order of their submission.

    ``source`` is the name of their file, for the commands that the answer proposes. If ``exact``,
    there must be only one document, and its start is computed even beyond the planning depth of the
    pool.
    """

    documents: Annotated[tuple[Tree, ...], Meta(min_length=1, max_length=PLANNED_MAX)]
    source: Annotated[str, Meta(min_length=1, max_length=4_096)] = "FILE"
    exact: bool = False


class QueueStarts(Asked, kw_only=True, frozen=True):
    """The first waiting runs of one owner, or of all owners that the caller sees."""

    owner: Name | None = None
    limit: Annotated[int, Meta(ge=1, le=QUEUE_STARTS_MAX)] = QUEUE_STARTS


class PictureRequest(Asked, kw_only=True, frozen=True):
    """What to show: a run, a pool or all pools; with ``reservations``, only the firm starts."""

    run: Name | None = None
    pool: Name | None = None
    reservations: bool = False


class Forecast(Given, kw_only=True, frozen=True):
    """When a run starts, and the conditions of that start. Unknown values are null.

    ``exact`` is set if the start was searched beyond the pool's planning depth. Its field
    ``reached`` says whether the search reached the run. Its field ``runs`` is the number of waiting
    runs that the search planned, at most ``runsMax``. The run starts by ``p50Start`` in half of all
    cases, and by ``p90Start`` in nine of ten. Both instants are estimated from how long the last
    runs of the owners took. ``closingWindows`` has the payers whose windows close before
    ``expectedEnd``, and the closing times.
    """

    run: str
    as_of: str
    phase: str
    recorded_phase: str | None
    starts_now: bool
    queue_position: int | None
    queue_length: int
    reservation: str | None
    status: str | None
    plan_state: str | None
    exact: Tree | None
    cause: Tree | None
    parked: str | None
    planned_start: str | None
    natural_start: str | None
    starts_in_ms: int | None
    p50_start: str | None
    p90_start: str | None
    by_conflict: bool
    conflict: Tree | None
    confidence: str | None
    overdue: tuple[str, ...]
    expected_end: str | None
    slice: Tree | None
    payers: tuple[Tree, ...]
    loans: tuple[Tree, ...]
    returning_loans: tuple[Tree, ...]
    closing_windows: tuple[Tree, ...]
    deficit: int
    scope: Tree | None
    refusal: Tree | None
    remedies: tuple[Tree, ...]
    contest: Tree | None
    dangers: tuple[Tree, ...]


class OwnerOdds(Given, kw_only=True, frozen=True):
    """The probability that an owner is drawn first, as a fraction.

    Owners that the caller may not see are not named.
    """

    owner: str
    odds: str


class QueueStart(Given, kw_only=True, frozen=True):
    """The start of a waiting run: planned, P50 and P90. An unknown instant is null.

    If a conflict is to make room for the run, ``odds`` has the odds of the owners in this conflict.
    """

    run: str
    plan_state: str
    planned_start: str
    p50_start: str | None
    p90_start: str | None
    by_conflict: bool
    odds: tuple[OwnerOdds, ...]


class QueueStartsGiven(Given, kw_only=True, frozen=True):
    """Starts in the order of the queue, without runs that have no planned start."""

    as_of: str
    items: tuple[QueueStart, ...]


class Explanation(Given, kw_only=True, frozen=True):
    """The state of a run, the cause of this state, and the changes that would start the run.

    Each of these changes was tried in a dry run. ``wait`` has the time since the run's submission
    in which it had no GPUs, in milliseconds: ``totalMs`` is the whole time, and ``byCause`` divides
    it by the causes of the wait.
    """

    run: str
    phase: str
    recorded_phase: str
    since: str
    wait: Tree
    queue_position: int | None
    queue_length: int
    queue: Tree | None
    refusal: Tree | None
    quotas: tuple[Tree, ...]
    refused_since: str | None
    reservation: Tree | None
    plan: Tree | None
    loans: tuple[Tree, ...]
    conflicts: tuple[Tree, ...]
    remedies: tuple[Tree, ...]


class Shown(Given, kw_only=True, frozen=True):
    """The first resources of a kind, and their total number."""

    count: int
    items: tuple[Tree, ...]


class Picture(Given, kw_only=True, frozen=True):
    """The state of a run, of reservations or of a pool, after the event ``sequence``.

    The picture of a run has its ``forecast``, and the ``progress`` that it has reported.
    """

    as_of: str
    sequence: int
    forecast: Forecast | UnsetType = UNSET
    progress: RunProgress | UnsetType = UNSET
    reservations: Shown | UnsetType = UNSET
    open_conflicts: Shown | UnsetType = UNSET
    running: Shown | UnsetType = UNSET
    queue: Shown | UnsetType = UNSET


OPERATIONS: Final = (
    Operation(
        name="plan-run",
        area=Area.RUNS,
        summary="Show when a run starts, and the conditions of that start.",
        takes=AboutRun,
        gives=Forecast,
        roles=ANYBODY,
        method="GET",
        path="/runs/{run}/plan",
        handler="quorate.operations.ledger.plan_handlers:plan_run",
        refusals=("unknown-name",),
        cli=("plan",),
        is_long=True,
        of_queue=True,
    ),
    Operation(
        name="plan-runs",
        area=Area.RUNS,
        summary="Show when runs would start if they were submitted now.",
        takes=PlanRuns,
        gives=Forecast | tuple[Forecast, ...],
        roles=ANYBODY,
        method="POST",
        path="/plan",
        handler="quorate.operations.ledger.plan_handlers:plan_runs",
        refusals=(
            "invalid",
            "unknown-name",
            "already-exists",
            "max-nodes",
            "max-concurrent-runs",
            "sensitive-pool-size",
        ),
        cli=("plan",),
        is_long=True,
        of_queue=True,
    ),
    Operation(
        name="queue-starts",
        area=Area.RUNS,
        summary="Show when the first waiting runs start, with P50, P90 and odds.",
        takes=QueueStarts,
        gives=QueueStartsGiven,
        roles=ANYBODY,
        method="GET",
        path="/queue/starts",
        handler="quorate.operations.ledger.plan_handlers:queue_starts",
        refusals=("unknown-name",),
        cli=("plan",),
        is_long=True,
        of_queue=True,
    ),
    Operation(
        name="explain-run",
        area=Area.RUNS,
        summary="Explain why a run waits, and what would start it now.",
        takes=AboutRun,
        gives=Explanation,
        roles=ANYBODY,
        method="GET",
        path="/runs/{run}/explanation",
        handler="quorate.operations.ledger.plan_handlers:explain_run",
        refusals=("unknown-name",),
        cli=("explain",),
        is_long=True,
        of_queue=True,
    ),
    Operation(
        name="picture",
        area=Area.RUNS,
        summary="Show the current state of a run, of the reservations or of a pool.",
        takes=PictureRequest,
        gives=Picture,
        roles=ANYBODY,
        method="GET",
        path="/picture",
        handler="quorate.operations.ledger.watch_handlers:picture",
        refusals=("unknown-name",),
        cli=("watch",),
        of_queue=True,
    ),
)
