"""The values that users declare: nodes, owners, budgets, pools, runs.

The package ``documents`` reads YAML or JSON, validates it, and makes these values in the core's
units. Specs are stored inside events. So a field with a default may be added, but no field may be
renamed, removed or given another type. Any such change needs a new event version (CONTRIBUTING.md,
"A new event"). Times are Unix milliseconds, durations are milliseconds, budgets are
GPU-milliseconds.
"""

from __future__ import annotations

from typing import NewType

from quorate.model.amounts import GRACE_DEFAULT_MS, HOUR_MS, MINUTE_MS, PPM, SECOND_MS
from quorate.model.closed_words import Word
from quorate.model.notice_kinds import NoticeKind
from quorate.model.pod_template import PodTemplate
from quorate.model.selector import CLUSTER, DOMAIN, RACK, REGION, Selector
from quorate.model.spec_base import Spec

EnvelopeId = NewType("EnvelopeId", str)
"""An envelope as ``BUDGET/ENVELOPE``."""
CapId = NewType("CapId", str)
"""A cap as ``BUDGET/CAP``."""

DEFAULT_POOL = "default"


class Node(Spec, frozen=True, kw_only=True):
    """A machine: ``gpus`` slots of one flavor, with labels for region, cluster, domain and rack."""

    name: str
    flavor: str
    gpus: int
    region: str
    cluster: str
    domain: str
    rack: str | None = None
    labels: tuple[tuple[str, str], ...] = ()

    @property
    def domain_key(self) -> str:
        """``region/cluster/domain``: the name of the node's domain.

        Domains are ordered by this name.
        """
        return f"{self.region}/{self.cluster}/{self.domain}"

    @property
    def location(self) -> dict[str, str]:
        """The node's labels that say where it is, which every selector may name.

        Custom labels are left out, because only the selectors of pools may name custom labels.
        """
        found = {REGION: self.region, CLUSTER: self.cluster, DOMAIN: self.domain}
        if self.rack is not None:
            found[RACK] = self.rack
        return found


class Quota(Spec, frozen=True, kw_only=True):
    """An owner's limits. A limit of None means unlimited, and 0 means that nothing is allowed."""

    nodes_max: int | None = None
    concurrent_runs_max: int | None = None
    gpu_ms_budget: int | None = None
    node_ms_budget: int | None = None
    fair_share_target_ppm: int | None = None
    burst_allowance_ppm: int | None = None

    @property
    def is_soft(self) -> bool:
        """Whether the quota has a budget of hours, which affects the order of the queue."""
        return self.gpu_ms_budget is not None or self.node_ms_budget is not None

    @property
    def is_hard(self) -> bool:
        """Whether the quota has a hard limit: one that the owner may not exceed at any instant."""
        return self.nodes_max is not None or self.concurrent_runs_max is not None


class Owner(Spec, frozen=True, kw_only=True):
    """A team: a node of the family DAG, with a quota."""

    name: str
    parents: tuple[str, ...] = ()
    quota: Quota = Quota()


class Sharing(Word):
    """Whether siblings and children may spend an envelope."""

    FAMILY = "family"
    NONE = "none"


class Lending(Spec, frozen=True, kw_only=True):
    """To which owners outside the family an envelope lends, how much, and on which terms.

    If ``recall_notice_ms`` is set, the lender may recall a loan with this notice when a run of the
    lender waits only for the lent GPUs. If ``recall_notice_ms`` is None, a loan cannot be recalled.
    """

    allow: bool = False
    to: tuple[str, ...] = ()
    concurrency_max: int | None = None
    gpu_ms_max: int | None = None
    recall_notice_ms: int | None = None

    def admits(self, borrower: str) -> bool:
        """Return whether ``borrower`` may borrow; if ``to`` is empty, every owner may."""
        if not self.allow:
            return False
        if not self.to:
            return True
        return any(
            borrower.startswith(entry[:-1]) if entry.endswith("*") else entry == borrower
            for entry in self.to
        )


class Envelope(Spec, frozen=True, kw_only=True):
    """One line of a budget: GPUs of a flavor, in the places of a selector, during one window."""

    name: str
    flavor: str
    selector: Selector
    start_ms: int
    end_ms: int
    concurrency: int
    gpu_ms_max: int | None = None
    allow_reservations: bool = False
    allow_admission: bool = False
    sharing: Sharing = Sharing.FAMILY
    lending: Lending = Lending()

    @property
    def gpu_ms_granted(self) -> int:
        """The GPU-milliseconds that the envelope may pay in all.

        Without ``gpu_ms_max``, this is the envelope's full concurrency over its whole window.
        """
        if self.gpu_ms_max is not None:
            return self.gpu_ms_max
        return self.concurrency * (self.end_ms - self.start_ms)


class Cap(Spec, frozen=True, kw_only=True):
    """A limit on several envelopes of one budget together."""

    name: str
    flavor: str
    envelopes: tuple[str, ...]
    concurrency_max: int | None = None
    gpu_ms_max: int | None = None


class Budget(Spec, frozen=True, kw_only=True):
    """The amounts that an owner may spend."""

    name: str
    owner: str
    envelopes: tuple[Envelope, ...]
    caps: tuple[Cap, ...] = ()


class Discipline(Word):
    """How a pool shares its nodes."""

    BIND = "bind"
    ROUNDS = "rounds"


class Placement(Word):
    """How nodes are chosen inside a domain."""

    TIGHT = "tight"
    CLASSIC = "classic"


class PoolExecutor(Word):
    """The executor of a pool: processes on the service's machine, or pods of a cluster."""

    LOCAL = "local"
    KUBERNETES = "kubernetes"


class TypeRates(Spec, frozen=True, kw_only=True):
    """How fast a job of one type is on one flavor: the whole job's steps per second, in millionths.

    ``beside`` has, sorted, the types with which this type can share GPUs, as (other type, rate of
    this type, rate of the other type). A pair of types is stored only once: in the entry of the
    type whose name sorts first.
    """

    job_type: str
    gpus: int
    alone: int
    beside: tuple[tuple[str, int, int], ...] = ()


class FlavorRates(Spec, frozen=True, kw_only=True):
    """The rates of every known type of job on one flavor, sorted by type and GPUs."""

    flavor: str
    types: tuple[TypeRates, ...]


class Pool(Spec, frozen=True, kw_only=True):
    """A set of nodes shared by one discipline. Durations that are None follow from ``notice_ms``.

    ``disruption_gpu_ms_per_day`` occurs only in ledgers older than ``disruption_rate_ppm``; no
    document can set it. If it is 0, conflicts are forbidden; other values are ignored. If
    ``executor`` is None, the service's own executor runs the work of the pool. ``cluster`` names
    the cluster of the executor ``kubernetes``. ``costs_micros`` is the price of a GPU of each
    flavor for an hour, in millionths of the unit of currency.
    """

    name: str
    selector: Selector = ()
    discipline: Discipline = Discipline.BIND
    policy: str | None = None
    round_ms: int = 360 * SECOND_MS
    placement: Placement = Placement.TIGHT
    whole_nodes: bool = False
    notice_ms: int = 15 * MINUTE_MS
    runtime_min_ms: int | None = None
    cool_down_ms: int | None = None
    grace_max_ms: int = 5 * MINUTE_MS
    disruption_gpu_ms_per_day: int | None = None
    collateral_max: int = 4
    expected_duration_ms: int = HOUR_MS
    reservation_depth: int = 20
    throughputs: tuple[FlavorRates, ...] = ()
    firm_horizon_ms: int = HOUR_MS
    disruption_rate_ppm: int = PPM // 100
    executor: PoolExecutor | None = None
    cluster: str | None = None
    costs_micros: tuple[tuple[str, int], ...] = ()

    @property
    def executor_name(self) -> str:
        """``local`` or ``kubernetes/CLUSTER``; empty for the service's own executor."""
        if self.executor is None:
            return ""
        return self.executor if self.cluster is None else f"{self.executor}/{self.cluster}"

    @property
    def counts_gpus(self) -> bool:
        """Whether a lease says how many GPUs of a node it has, but not which GPUs these are.

        In a cluster, the device plugin chooses the devices. The slots of a lease are then not
        device numbers: they only reserve a part of the node in the ledger, so that no GPU is given
        to two leases.
        """
        return self.executor is PoolExecutor.KUBERNETES

    @property
    def conflict_rate_ppm(self) -> int:
        """The part of the pool's GPU time that disruption accounts get; 0 forbids conflicts."""
        return 0 if self.disruption_gpu_ms_per_day == 0 else self.disruption_rate_ppm

    @property
    def least_runtime_ms(self) -> int:
        """How long a bundle runs before a lottery may draw it: by default four notice periods.

        The time is never less than a second, and by default never less than a minute. Even a short
        time is safe, because ``pause_ms`` keeps two runs from ending each other in turn.
        """
        if self.runtime_min_ms is None:
            return max(MINUTE_MS, 4 * self.notice_ms)
        return max(SECOND_MS, self.runtime_min_ms)

    @property
    def pause_ms(self) -> int:
        """How long a run that was cut may not call a conflict: by default eight notice periods.

        The time is never less than a minute. Otherwise two runs could end each other again and
        again.
        """
        stated_ms = 8 * self.notice_ms if self.cool_down_ms is None else self.cool_down_ms
        return max(MINUTE_MS, stated_ms)


class System(Spec, frozen=True, kw_only=True):
    """Settings of the whole installation that affect decisions.

    ``instant_weight_ppm`` is the weight, in millionths, of an owner's present use in the owner's
    share. The remaining millionths are the weight of the owner's past use.
    """

    sensitive_pool_size: int | None = None
    budget_period_days: int = 90
    half_life_ms: int = 24 * HOUR_MS
    instant_weight_ppm: int = 500_000


class Malleable(Spec, frozen=True, kw_only=True):
    """The widths at which a run can work: ``gpus_min``, then steps, up to ``gpus_max``."""

    gpus_min: int
    gpus_max: int
    gpus_step: int
    gpus_desired: int


class Funding(Spec, frozen=True, kw_only=True):
    """Whether a run may borrow outside its family, from which sponsors, and how many GPUs."""

    allow_borrow: bool = False
    borrow_gpus_max: int | None = None
    sponsors: tuple[str, ...] = ()


class UpstreamFailure(Word):
    """What a follower does if a run that it follows fails or is cancelled."""

    WAIT = "wait"
    FAIL = "fail"
    START = "start"


class Follow(Spec, frozen=True, kw_only=True):
    """The runs and arrays that a run follows.

    Runs and arrays in ``after`` must complete; if ``on_upstream_failure`` is ``START``, it is
    enough that they end. Runs and arrays in ``after_any`` must be over, however they end.
    ``after_task`` names arrays: each task of the following array follows the task with the same
    index in each of these arrays.
    """

    after: tuple[str, ...]
    on_upstream_failure: UpstreamFailure = UpstreamFailure.WAIT
    grace_ms: int = 30 * MINUTE_MS
    after_any: tuple[str, ...] = ()
    after_task: tuple[str, ...] = ()


class OnQuota(Word):
    """What to do with a run that would exceed its owner's hard quota now: refuse it, or wait."""

    REFUSE = "refuse"
    WAIT = "wait"


class Processes(Word):
    """How many processes a run has: one for each GPU, one for each node, or one in all."""

    GPU = "gpu"
    NODE = "node"
    RUN = "run"


class Replace(Word):
    """How a lost node is replaced."""

    SAME_DOMAIN = "SameDomain"
    RESTART = "Restart"


class RoundsWork(Spec, frozen=True, kw_only=True):
    """What a run declares if it is in a pool of discipline ``rounds``.

    ``throughputs`` are the run's rates in steps per second, for each flavor.
    """

    job_type: str | None = None
    throughputs: tuple[tuple[str, float], ...] = ()
    total_steps: int | None = None
    weight: float = 1.0
    slo_ms: int | None = None


class TaskArray(Spec, frozen=True, kw_only=True):
    """The array of a task: its indexes, such as ``0-9,20``, and how many tasks run at once.

    If ``at_once_max`` is None, the number of tasks that run at once is not limited.
    """

    name: str
    tasks: str
    at_once_max: int | None = None


class RunMail(Spec, frozen=True, kw_only=True):
    """The receivers of mail about a run, and the kinds of notices that they get."""

    to: str
    kinds: tuple[NoticeKind, ...] = (NoticeKind.RUN_COMPLETED, NoticeKind.RUN_FAILED)


class Run(Spec, frozen=True, kw_only=True):
    """One piece of work.

    A run with an ``array`` and without a ``task`` is the document of the whole array. The runs that
    this document submits are the tasks of the array (``model/task_arrays.py``).
    """

    name: str
    owner: str
    flavors: tuple[str, ...]
    gpus: int
    user: str = ""
    pool: str = DEFAULT_POOL
    group_gpus: int | None = None
    cross_group_spread: bool = True
    selector: Selector = ()
    malleable: Malleable | None = None
    spares_per_group: int = 0
    replace: Replace = Replace.SAME_DOMAIN
    expected_duration_ms: int | None = None
    checkpoint_ms: int = GRACE_DEFAULT_MS
    funding: Funding = Funding()
    follow: Follow | None = None
    on_quota: OnQuota = OnQuota.REFUSE
    sensitive: bool = False
    command: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    working_dir: str | None = None
    nonce: str = ""
    rounds: RoundsWork | None = None
    processes: Processes = Processes.GPU
    image: str | None = None
    pod_template: PodTemplate | None = None
    workload: str | None = None
    """The object of the pool's cluster whose pods are the work: KIND.GROUP/NAMESPACE/NAME@UID."""
    array: TaskArray | None = None
    task: int | None = None
    mail: RunMail | None = None

    def widths(self) -> tuple[int, ...]:
        """Return the widths at which the run may start, widest first."""
        if self.malleable is None:
            return (self.gpus,)
        return tuple(range(self.gpus, self.malleable.gpus_min - 1, -self.malleable.gpus_step))


def envelope_id(budget: str, envelope: str) -> EnvelopeId:
    """Return the id of ``envelope`` of ``budget``."""
    return EnvelopeId(f"{budget}/{envelope}")


def cap_id(budget: str, cap: str) -> CapId:
    """Return the id of ``cap`` of ``budget``."""
    return CapId(f"{budget}/{cap}")
