"""The table of all metrics; docs/reference/metrics.md lists them.

Base units only (seconds, bytes, GPU-seconds). A label's values come from a closed list or have a
named limit; values above the limit are counted under ``other``. Runs and users are never labels,
because their number has no limit.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from quorate.model.events import (
    ConflictOutcome,
    EndReason,
    NodeStatus,
    Outcome,
    ReservationStatus,
)
from quorate.model.refusal import RefusalCode
from quorate.model.state.crossings import PERCENTS

TENANTS_MAX: Final = 100
"""How many tenants have their own series: the first by name among tenants with a quota."""
ENVELOPES_MAX: Final = 200
"""How many envelopes have their own series: the first by name among those that may pay now."""
PLACES_MAX: Final = 100
"""How many pools, and how many flavors, have their own series: the first by name."""
OPERATIONS_MAX: Final = 200
"""How many operations may have series; the table of operations is far shorter."""
WEBHOOKS_MAX: Final = 20
"""How many webhooks may be configured; the number is limited because each has its own thread."""
MAIL_RECEIVERS_MAX: Final = 20
"""How many mail receivers may be configured, beside the addresses of runs."""
OUTAGES_MAX: Final = 100
"""How many clusters and parts of clusters have series for outages: the first with an outage."""
OTHER: Final = "other"
"""The label value for the sum of all values above a limit."""
NO_CODE: Final = "none"
"""The code of a waiting run that was not refused yet, because its start was not tried yet."""

SURFACES: Final = ("rest", "grpc")
STATUS_CLASSES: Final = ("2xx", "3xx", "4xx", "5xx")
DOOR, QUEUE = "door", "queue"
ABOVE, BELOW = "above", "below"
LEDGER, ACCOUNTING = "ledger", "accounting"


class GpuState(StrEnum):
    """The state of a GPU of the fleet."""

    USED = "used"
    FREE = "free"
    WITHHELD = "withheld"


class StopState(StrEnum):
    """The state of a stop."""

    UNDER_WAY = "under-way"
    OVERDUE = "overdue"


class WipeState(StrEnum):
    """The state of a node that a claim has or had."""

    CLAIMED = "claimed"
    TO_WIPE = "to-wipe"
    QUARANTINED = "quarantined"


class GpuUse(StrEnum):
    """The GPUs that an envelope pays for."""

    ACTIVE = "active"
    RESERVED = "reserved"


class MoneyState(StrEnum):
    """The state of an envelope's GPU-seconds."""

    SPENT = "spent"
    HELD = "held"


class DeliveryResult(StrEnum):
    """The result of an attempt to deliver a notice."""

    DELIVERED = "delivered"
    FAILED = "failed"
    GIVEN_UP = "given-up"


class Purpose(StrEnum):
    """The purpose of a request to an accounting system."""

    REMAINING = "remaining"
    CONSUMPTION = "consumption"


class Way(StrEnum):
    """How a request to an accounting system ended."""

    DONE = "done"
    FAILED = "failed"


UNREAD: Final = "unread"
READ: Final = "read"
"""The stage at which a request was rejected: before its body was received, or after."""

LABELS: Final[dict[str, int]] = {
    "code": len(RefusalCode) + 1,
    "where": len((DOOR, QUEUE)),
    "outcome": max(len(Outcome), len(ConflictOutcome)),
    "reason": len(EndReason),
    "percent": len(PERCENTS),
    "direction": len((ABOVE, BELOW)),
    "status": max(len(ReservationStatus), len(NodeStatus)),
    "state": max(map(len, (GpuState, StopState, WipeState, GpuUse, MoneyState))),
    "pool": PLACES_MAX + 1,
    "flavor": PLACES_MAX + 1,
    "tenant": TENANTS_MAX + 1,
    "envelope": ENVELOPES_MAX + 1,
    "surface": len(SURFACES),
    "operation": OPERATIONS_MAX + 1,
    "status_class": len(STATUS_CLASSES),
    "stage": len((UNREAD, READ)),
    "webhook": WEBHOOKS_MAX,
    "mail": MAIL_RECEIVERS_MAX + 1,
    "result": len(DeliveryResult),
    "purpose": len(Purpose),
    "way": len(Way),
    "source": len((LEDGER, ACCOUNTING)),
    "of": OUTAGES_MAX,
    "version": 1,
}
"""Every label, and the largest number of its values in one metric."""


class Kind(StrEnum):
    """The Prometheus type of a metric."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric; ``buckets`` are the upper limits of a histogram's buckets, in the metric's unit."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()


_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400
_WAITS: Final = (
    *(0.01, 0.1, 1, 10, _MINUTE, 5 * _MINUTE, 15 * _MINUTE),
    *(_HOUR, 4 * _HOUR, 12 * _HOUR, _DAY, 3 * _DAY, 7 * _DAY, 30 * _DAY),
)
_REPLIES: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_SIZES: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024)


def _counter(name: str, told: str, *labels: str) -> Metric:
    return Metric(f"quorate_{name}_total", Kind.COUNTER, told, labels)


def _gauge(name: str, told: str, *labels: str) -> Metric:
    return Metric(f"quorate_{name}", Kind.GAUGE, told, labels)


def _histogram(name: str, told: str, buckets: tuple[float, ...], *labels: str) -> Metric:
    return Metric(f"quorate_{name}", Kind.HISTOGRAM, told, labels, buckets)


RUNS_SUBMITTED = _counter("runs_submitted", "Runs accepted into the queue.")
ADMISSION = _histogram(
    "admission_seconds", "Seconds from a run's submission to its first start.", _WAITS
)
REFUSALS = _counter(
    "refusals",
    "Refusals: of a request (nothing is recorded), or of a waiting run (it keeps waiting).",
    "code",
    "where",
)
RUNS_ENDED = _counter("runs_ended", "Runs that are over.", "outcome")
RUNS_REQUEUED = _counter("runs_requeued", "Runs that were stopped and wait again.", "reason")
LEASES_ENDED = _counter("leases_ended", "Leases whose slots are free again.", "reason")
INVOCATIONS = _counter("resolver_invocations", "Conflicts declared: calls of the resolver.")
SPARES_DROPPED = _counter("resolver_spares_dropped", "Spares dropped by the resolver.")
SHRINKS = _counter("resolver_shrinks", "Steps taken from malleable runs by the resolver.")
DRAWS = _counter("resolver_lottery_draws", "Lottery draws, including draws whose run was spared.")
LOST = _counter("resolver_lost_gpu_seconds", "Estimated work lost by cuts.")
CONFLICTS = _counter("conflicts_resolved", "Conflicts settled.", "outcome")
THRESHOLDS = _counter(
    "thresholds_crossed",
    "How often a tenant's usage of a soft budget crossed a threshold, upwards or downwards.",
    "percent",
    "direction",
)
EVENTS: Final = (
    *(RUNS_SUBMITTED, ADMISSION, REFUSALS, RUNS_ENDED, RUNS_REQUEUED, LEASES_ENDED),
    *(INVOCATIONS, SPARES_DROPPED, SHRINKS, DRAWS, LOST, CONFLICTS, THRESHOLDS),
)
"""Metrics of committed events."""

QUEUE_RUNS = _gauge("queue_runs", "Waiting runs, by the code of their last refusal.", "code")
QUEUE_OLDEST = _gauge(
    "queue_oldest_seconds",
    "Seconds since the submission of the waiting run that was submitted first.",
    "code",
)
RUNNING = _gauge("running_runs", "Runs that have leases.")
RESERVATIONS = _gauge("reservations", "Firm starts in the future.", "status")
RESERVED_GPUS = _gauge("reserved_gpus", "GPUs of future firm starts.", "status")
CONFLICTS_OPEN = _gauge("conflicts_open", "Conflicts declared and not settled yet.")
GPUS = _gauge(
    "gpus",
    "GPUs of the fleet; withheld: GPUs without a lease on nodes that are not in service.",
    "pool",
    "flavor",
    "state",
)
NODES = _gauge("nodes", "Nodes of the fleet.", "status")
UNWIPED = _gauge(
    "unwiped_nodes", "Nodes of open claims, and nodes not wiped after a claim.", "state"
)
STOPS = _gauge(
    "stops",
    "Leases that were ordered to stop and still run; overdue: past their deadline.",
    "state",
)
TENANTS = _gauge("tenants", "Tenants.")
TENANTS_OVER = _gauge(
    "tenants_over_threshold",
    "Tenants whose usage of a soft budget is at or above the threshold.",
    "percent",
)
TENANT_NODES = _gauge("tenant_nodes", "Nodes that count against max_nodes.", "tenant")
TENANT_NODES_LIMIT = _gauge("tenant_nodes_limit", "max_nodes.", "tenant")
TENANT_RUNS = _gauge("tenant_runs", "Runs that count against max_concurrent_runs.", "tenant")
TENANT_RUNS_LIMIT = _gauge("tenant_runs_limit", "max_concurrent_runs.", "tenant")
TENANT_GPU_SECONDS = _gauge(
    "tenant_gpu_seconds", "GPU-seconds used in the budget period.", "tenant"
)
TENANT_GPU_SECONDS_BUDGET = _gauge(
    "tenant_gpu_seconds_budget", "The soft budget of GPU-hours, in GPU-seconds.", "tenant"
)
TENANT_NODE_SECONDS = _gauge(
    "tenant_node_seconds", "Node-seconds used in the budget period.", "tenant"
)
TENANT_NODE_SECONDS_BUDGET = _gauge(
    "tenant_node_seconds_budget", "The soft budget of node-hours, in node-seconds.", "tenant"
)
ENVELOPE_GPUS = _gauge("envelope_gpus", "GPUs that an envelope pays for.", "envelope", "state")
ENVELOPE_GPUS_LIMIT = _gauge("envelope_gpus_limit", "Concurrency of an envelope.", "envelope")
ENVELOPE_GPU_SECONDS = _gauge(
    "envelope_gpu_seconds", "GPU-seconds of an envelope, spent or held.", "envelope", "state"
)
ENVELOPE_GPU_SECONDS_GRANTED = _gauge(
    "envelope_gpu_seconds_granted", "The GPU-seconds that an envelope may pay in all.", "envelope"
)
LEDGER_SEQ = _gauge("ledger_sequence", "Sequence of the last event.")
LEDGER_HEIGHT = _gauge("ledger_height", "Height of the last block.")
STANDING: Final = (
    *(QUEUE_RUNS, QUEUE_OLDEST, RUNNING, RESERVATIONS, RESERVED_GPUS, CONFLICTS_OPEN),
    *(GPUS, NODES, UNWIPED, STOPS, TENANTS, TENANTS_OVER, TENANT_NODES, TENANT_NODES_LIMIT),
    *(TENANT_RUNS, TENANT_RUNS_LIMIT, TENANT_GPU_SECONDS, TENANT_GPU_SECONDS_BUDGET),
    *(TENANT_NODE_SECONDS, TENANT_NODE_SECONDS_BUDGET, ENVELOPE_GPUS, ENVELOPE_GPUS_LIMIT),
    *(ENVELOPE_GPU_SECONDS, ENVELOPE_GPU_SECONDS_GRANTED, LEDGER_SEQ, LEDGER_HEIGHT),
)
"""Metrics that are read from the state at a scrape."""

REQUESTS = _counter("requests", "Requests answered.", "surface", "operation", "status_class")
IN_FLIGHT = _gauge("requests_in_flight", "Requests that are being answered.", "surface")
REQUESTS_SHED = _counter(
    "requests_shed",
    "Requests rejected by overload protection, before or after their bodies were read.",
    "stage",
)
REQUEST_SECONDS = _histogram(
    "request_seconds",
    "Seconds from a request's arrival to its answer; for a stream, to its first event.",
    _REPLIES,
    "surface",
    "operation",
)
COMMIT_SECONDS = _histogram(
    "commit_seconds",
    "Seconds from deciding a block of requests until it is durable.",
    _REPLIES,
)
COMMIT_COMMANDS = _histogram("commit_commands", "Commands that were committed together.", _SIZES)
COMMIT_FAILURES = _counter("commit_failures", "Blocks that the store refused or failed to write.")
LEDGER_EVENTS = _counter("ledger_events", "Events committed.")
LAG = _histogram(
    "ledger_lag_seconds",
    "Seconds from an event's time until it is durable and visible to readers and watchers.",
    _REPLIES,
)
DISK_FREE = _gauge("disk_free_bytes", "Free bytes on the disk that holds the ledger.")
WATCHERS = _gauge("watchers", "Open watches.")
WATCHERS_DROPPED = _counter("watchers_dropped", "Watches ended because they were too slow.")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryMetrics:
    """The metrics of one kind of receiver; the kind is also the label for the receivers' names."""

    deliveries: Metric
    waiting: Metric
    oldest: Metric
    failing: Metric
    up: Metric

    @property
    def all(self) -> tuple[Metric, ...]:
        """Return the metrics, in the order of the reference."""
        return (self.deliveries, self.waiting, self.oldest, self.failing, self.up)


def _deliveries(kind: str, failing: Metric) -> DeliveryMetrics:
    return DeliveryMetrics(
        deliveries=_counter(
            f"{kind}_deliveries",
            "Attempts to deliver a notice; given-up: a notice that will not be delivered.",
            kind,
            "result",
        ),
        waiting=_gauge(f"{kind}_waiting", "Notices that wait to be delivered.", kind),
        oldest=_gauge(
            f"{kind}_oldest_seconds", "Seconds that the oldest waiting notice has waited.", kind
        ),
        failing=failing,
        up=_gauge(
            f"{kind}_up",
            ("1 while notices are sent, 0 after the receiver declined further notices."),
            kind,
        ),
    )


DELIVERY_METRICS: Final[dict[str, DeliveryMetrics]] = {
    "webhook": _deliveries(
        "webhook",
        _gauge(
            "webhook_failing_owners",
            "Owners whose notices could not be delivered lately.",
            "webhook",
        ),
    ),
    "mail": _deliveries(
        "mail",
        _gauge(
            "mail_failing_lines",
            "Owners, or addresses of runs, whose mail could not be delivered lately.",
            "mail",
        ),
    ),
}
"""The metrics of deliveries, by the kind of receiver."""
ACCOUNTING_REQUESTS = _counter(
    "accounting_requests", "Requests to an accounting system.", "purpose", "way"
)
ACCOUNTING_OWNERS = _gauge(
    "accounting_owners",
    "Linked owners, by the source of the budget that is used for them.",
    "source",
)
ACCOUNTING_ANSWERED = _gauge(
    "accounting_answered_timestamp_seconds",
    "The earliest of the linked owners' times of the last answer; 0 if an owner has none.",
)
ACCOUNTING_WAITING = _gauge(
    "accounting_waiting", "Amounts that wait to be reported to an accounting system."
)
ACCOUNTING_OLDEST = _gauge(
    "accounting_oldest_seconds", "Seconds that the oldest waiting amount has waited."
)
READY = _gauge("ready", "1 if the service accepts commands, else 0.")
LEADING = _gauge("leading", "1 if the service leads, 0 if another service of its ledger leads.")
LEADER_TERM = _gauge(
    "leader_term", ("Term of the leader; 0 if the service does not take part in elections.")
)
FOLLOW_LAG = _gauge(
    "follow_lag_seconds", "Greatest possible lag of the state of a following service."
)
OUTAGE = _gauge(
    "outage",
    "1 while a cluster, or a part of it, cannot be used, else 0; /readyz says why.",
    "of",
)
BUILD = _gauge("build_info", "1, with the running version as a label.", "version")
SERVING: Final = (
    *(
        REQUESTS,
        IN_FLIGHT,
        REQUESTS_SHED,
        REQUEST_SECONDS,
        COMMIT_SECONDS,
        COMMIT_COMMANDS,
        COMMIT_FAILURES,
    ),
    *(LEDGER_EVENTS, LAG, DISK_FREE, WATCHERS, WATCHERS_DROPPED),
    *(metric for of in DELIVERY_METRICS.values() for metric in of.all),
    READY,
    *(LEADING, LEADER_TERM, FOLLOW_LAG, OUTAGE, BUILD),
    *(ACCOUNTING_REQUESTS, ACCOUNTING_OWNERS, ACCOUNTING_ANSWERED),
    *(ACCOUNTING_WAITING, ACCOUNTING_OLDEST),
)
"""Metrics of the service itself."""

METRICS: Final = {metric.name: metric for metric in (*EVENTS, *STANDING, *SERVING)}
"""Name -> metric, in the order of the reference page."""
