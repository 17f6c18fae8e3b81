"""Runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from quorate.client.answer_fields import Fields
from quorate.client.resources.any_resource import Number, Resource
from quorate.client.resources.lease_resources import Turn
from quorate.client.resources.owner_resources import ShareTerms
from quorate.client.resources.plan_resources import ReservationStatus


class RunResources(Fields):
    """The number of GPUs, and their type, or several types in order of preference."""

    gpu_type: str | None
    gpu_types: tuple[str, ...]
    total_gpus: int


class RunLocality(Fields):
    """How many GPUs have to be in one domain, and which regions, clusters and racks are allowed."""

    group_gpus: int | None
    allow_cross_group_spread: bool | None
    selector: Mapping[str, Any]


class RunMalleable(Fields):
    """The least and most GPUs of a malleable run, and the number of GPUs in a step."""

    min_total_gpus: int
    max_total_gpus: int
    step_gpus: int
    desired_total_gpus: int | None


class RunRuntime(Fields):
    """The expected duration of a run, and the time that it needs to checkpoint."""

    expected_duration: str | None
    checkpoint: str | None


class RunFunding(Fields):
    """The sponsors that may pay besides the owner's family."""

    allow_borrow: bool | None
    max_borrow_gpus: int | None
    sponsors: tuple[str, ...]


class RunArray(Fields):
    """The indexes of an array, such as ``0-9%4``.

    ``name`` and ``task`` are set only in the documents of the array's tasks.
    """

    tasks: str
    name: str | None
    task: int | None


class RunMail(Fields):
    """The mail address for notices of a run, and the kinds of these notices.

    If ``kinds`` is empty, only notices of the end of the run are sent.
    """

    to: str
    kinds: tuple[str, ...]


class RunFollow(Fields):
    """The runs that must complete before this run starts, and the runs that must only be over.

    If ``after_task`` is set, each task follows the task with the same index of another array.
    """

    after: tuple[str, ...]
    after_any: tuple[str, ...]
    after_task: tuple[str, ...]
    on_upstream_failure: str | None
    grace: str | None


class PodVolume(Fields):
    """A volume of every pod of a run; exactly one of its sources is not None."""

    mount_path: str
    persistent_volume_claim: str | None
    config_map: str | None
    secret: str | None
    empty_dir: str | None
    read_only: bool | None


class PodToleration(Fields):
    """A taint that the pods of a run tolerate."""

    key: str
    operator: str | None
    value: str | None
    effect: str | None


class PodRequests(Fields):
    """The resources that each pod of a run requests besides GPUs."""

    cpu: str | None
    memory: str | None


class PodTemplate(Fields):
    """The fields of a run's pods other than image, command and GPUs."""

    volumes: tuple[PodVolume, ...]
    tolerations: tuple[PodToleration, ...]
    service_account_name: str | None
    image_pull_secrets: tuple[str, ...]
    requests: PodRequests


class RunSpec(Fields):
    """A run as submitted; a field with its default value is None (docs/reference/documents.md)."""

    owner: str
    user: str | None
    pool: str | None
    resources: RunResources
    locality: RunLocality
    malleable: RunMalleable | None
    spares_per_group: int | None
    replace: str | None
    runtime: RunRuntime
    funding: RunFunding
    follow: RunFollow | None
    array: RunArray | None
    mail: RunMail | None
    on_quota: str | None
    sensitive: bool | None
    command: tuple[str, ...]
    env: Mapping[str, str]
    working_dir: str | None
    processes: str | None
    image: str | None
    pod_template: PodTemplate
    workload: str | None
    nonce: str | None
    job_type: str | None
    throughputs: Mapping[str, Any]
    total_steps: int | None
    weight: Number | None
    slo: Number | None


class TierFunding(Fields):
    """The part of a run that the payers of one tier pay for."""

    gpus: int
    spent_gpu_ms: int


class PayerFunding(Fields):
    """The amounts that one envelope pays for a run."""

    envelope: str
    tier: str
    gpus: int
    spent_gpu_ms: int


class FundingStatus(Fields):
    """Who pays for a run; ``lenders`` are payers outside the owner's family."""

    owned: TierFunding
    shared: TierFunding
    borrowed: TierFunding
    lenders: tuple[str, ...]
    payers: tuple[PayerFunding, ...]


class Stopping(Fields):
    """Why a run is stopping; ``outcome`` is its phase afterwards, or None if it waits again."""

    since: str
    reason: str
    outcome: str | None
    note: str


class PlanStatus(Fields):
    """The planned start of a run, and whether it is firm."""

    state: str
    start: str | None
    starts_in_ms: int | None


class ShortageInfo(Fields):
    """A domain, payer or limit that is not sufficient, and the missing amount."""

    where: str
    wanted: int
    available: int
    short: int
    limit: str


class RefusalTerms(Fields):
    """The numbers of a refusal; ``also`` is a second, independent reason."""

    code: str
    subject: str
    wanted: int
    short: int
    shortages: tuple[ShortageInfo, ...]
    current: int | None
    limit: int | None
    remedy: str | None
    also: RefusalTerms | None


class RefusalInfo(RefusalTerms):
    """Why a run does not start; ``since`` is None if this reason is not recorded yet."""

    since: str | None
    as_of: str | None
    message: str


class ReservationOfRun(ReservationStatus):
    """A firm start in the status of its run."""

    name: str


class QueuePlace(ShareTerms):
    """The position of a run in the queue, and the terms that determine the position."""

    position: int
    eligible_since: str | None


class RunStatus(Fields):
    """The state of a run. ``phase`` is Pending, Running, Completed, Cancelled or Failed.

    ``refusal`` is why the run waits. ``queue`` is set only if the request asked for it. ``tasks``
    counts the tasks of an array by phase; the array is Running while a task runs.
    """

    phase: str
    tasks: Mapping[str, int]
    sequence: int
    submitted: str
    started: str | None
    ended: str | None
    gpus: int
    width: int
    domains: Mapping[str, int]
    leases: tuple[str, ...]
    funding: FundingStatus
    note: str | None
    stopping: Stopping | None
    reservation: ReservationOfRun | None
    plan: PlanStatus | None
    cut_by: str | None
    turns: tuple[Turn, ...]
    startable: bool | None
    refusal: RefusalInfo | None
    queue: QueuePlace | None


class RunInfo(Resource[RunSpec, RunStatus], kw_only=True, frozen=True):
    """A run."""
