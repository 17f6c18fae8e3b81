"""Writes specs as documents: ``apply -f`` accepts the output of ``get -o yaml``.

``parse(render(x)) == x`` for every spec that a document can state. Fields with their default value
are left out. Times are RFC 3339 in UTC, durations are written as ``90m``, and amounts as exact
decimals.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

from quorate.documents.head import (
    BUDGET,
    NODE,
    OWNER,
    POOL,
    RUN,
    SYSTEM,
    SYSTEM_NAME,
)
from quorate.documents.parse import Declared
from quorate.documents.times import duration_text, time_text
from quorate.documents.written import fraction, hours, seconds
from quorate.model.amounts import GRACE_DEFAULT_MS
from quorate.model.api_version import API_VERSION
from quorate.model.job_types import ALONE_KEY, JobType
from quorate.model.pod_template import PodTemplate, TolerationOperator
from quorate.model.selector import CLUSTER, DOMAIN, RACK, REGION
from quorate.model.specs import (
    DEFAULT_POOL,
    Budget,
    Cap,
    Discipline,
    Envelope,
    FlavorRates,
    Follow,
    Funding,
    Lending,
    Malleable,
    Node,
    OnQuota,
    Owner,
    Placement,
    Pool,
    Processes,
    Quota,
    Replace,
    RoundsWork,
    Run,
    RunMail,
    Sharing,
    System,
    TaskArray,
    TypeRates,
    UpstreamFailure,
)
from quorate.model.task_arrays import tasks_text

Tree = dict[str, object]


def kind_of(spec: Declared) -> str:
    """Return the kind of the document for ``spec``."""
    match spec:
        case Node():
            return NODE
        case Owner():
            return OWNER
        case Budget():
            return BUDGET
        case Pool():
            return POOL
        case System():
            return SYSTEM
        case Run():
            return RUN
        case _:
            assert_never(spec)


def render(spec: Declared) -> Tree:
    """Return ``spec`` as the tree of a document, with fields in their usual order."""
    match spec:
        case Node():
            return _document(spec, spec.name, _node(spec), labels=_labels(spec))
        case Owner():
            body = _set(parents=list(spec.parents), quota=_quota(spec.quota))
            return _document(spec, spec.name, body)
        case Budget():
            return _document(spec, spec.name, _budget(spec))
        case Pool():
            return _document(spec, spec.name, _pool(spec))
        case System():
            return _document(spec, SYSTEM_NAME, _system(spec))
        case Run():
            return _document(spec, spec.name, _run(spec))
        case _:
            assert_never(spec)


def _document(spec: Declared, name: str, body: Tree, *, labels: Tree | None = None) -> Tree:
    return {
        "apiVersion": API_VERSION,
        "kind": kind_of(spec),
        "metadata": _set(name=name, labels=labels),
        "spec": body,
    }


def _set(**fields: object) -> Tree:
    """Return ``fields`` without those that are None or an empty list, mapping or string."""
    return {
        name: value
        for name, value in fields.items()
        if value is not None and not (isinstance(value, list | dict | str) and not value)
    }


def _unless(value: object, default: object) -> object:
    """Return ``value``, or None if it equals ``default``."""
    return None if value == default else value


def _true(value: bool) -> bool | None:  # noqa: FBT001 - the value of a field, not a switch
    return value or None


def _duration(ms: int | None, default_ms: int | None = None) -> str | None:
    return None if ms is None or ms == default_ms else duration_text(ms)


def _hours(gpu_ms: int | None) -> object:
    return None if gpu_ms is None else hours(gpu_ms)


def _labels(node: Node) -> Tree:
    place = {REGION: node.region, CLUSTER: node.cluster, DOMAIN: node.domain}
    rack = {} if node.rack is None else {RACK: node.rack}
    return {**place, **rack, **dict(node.labels)}


def _node(node: Node) -> Tree:
    return {"flavor": node.flavor, "gpus": node.gpus}


def _quota(quota: Quota) -> Tree:
    share, burst = quota.fair_share_target_ppm, quota.burst_allowance_ppm
    return _set(
        maxNodes=quota.nodes_max,
        maxConcurrentRuns=quota.concurrent_runs_max,
        gpuHoursBudget=_hours(quota.gpu_ms_budget),
        nodeHoursBudget=_hours(quota.node_ms_budget),
        fairShareTarget=None if share is None else fraction(share),
        burstAllowance=None if burst is None else fraction(burst),
    )


def _budget(budget: Budget) -> Tree:
    return _set(
        owner=budget.owner,
        envelopes=[_envelope(envelope) for envelope in budget.envelopes],
        aggregateCaps=[_cap(cap) for cap in budget.caps],
    )


def _envelope(envelope: Envelope) -> Tree:
    return _set(
        name=envelope.name,
        flavor=envelope.flavor,
        selector=dict(envelope.selector),
        start=time_text(envelope.start_ms),
        end=time_text(envelope.end_ms),
        concurrency=envelope.concurrency,
        maxGPUHours=_hours(envelope.gpu_ms_max),
        preActivation=_set(
            allowReservations=_true(envelope.allow_reservations),
            allowAdmission=_true(envelope.allow_admission),
        ),
        sharing=_unless(envelope.sharing.value, Sharing.FAMILY.value),
        lending=_lending(envelope.lending),
    )


def _lending(lending: Lending) -> Tree:
    return _set(
        allow=_true(lending.allow),
        to=list(lending.to),
        maxConcurrency=lending.concurrency_max,
        maxGPUHours=_hours(lending.gpu_ms_max),
        recall=_set(notice=_duration(lending.recall_notice_ms)),
    )


def _cap(cap: Cap) -> Tree:
    return _set(
        name=cap.name,
        flavor=cap.flavor,
        envelopes=list(cap.envelopes),
        maxConcurrency=cap.concurrency_max,
        maxGPUHours=_hours(cap.gpu_ms_max),
    )


def _pool(pool: Pool) -> Tree:
    unset = Pool(name=pool.name)
    return _set(
        selector=dict(pool.selector),
        discipline=_unless(pool.discipline.value, Discipline.BIND.value),
        policy=pool.policy,
        roundLength=_duration(pool.round_ms, unset.round_ms),
        placement=_unless(pool.placement.value, Placement.TIGHT.value),
        wholeNodes=_true(pool.whole_nodes),
        reservationNotice=_duration(pool.notice_ms, unset.notice_ms),
        minRuntime=_duration(pool.runtime_min_ms),
        coolDown=_duration(pool.cool_down_ms),
        maxGrace=_duration(pool.grace_max_ms, unset.grace_max_ms),
        disruptionRate=None
        if pool.conflict_rate_ppm == unset.disruption_rate_ppm
        else fraction(pool.conflict_rate_ppm),
        maxCollateral=_unless(pool.collateral_max, unset.collateral_max),
        defaultExpectedDuration=_duration(pool.expected_duration_ms, unset.expected_duration_ms),
        reservationDepth=_unless(pool.reservation_depth, unset.reservation_depth),
        firmHorizon=_duration(pool.firm_horizon_ms, unset.firm_horizon_ms),
        throughputs={each.flavor: _type_rates(each) for each in pool.throughputs},
        costs={flavor: fraction(micros) for flavor, micros in pool.costs_micros},
        executor=None if pool.executor is None else pool.executor.value,
        cluster=pool.cluster,
    )


def _type_rates(rates: FlavorRates) -> Tree:
    """Return the rates of one flavor as a table, which lists each pair under both of its types."""
    found: dict[str, Tree] = {}
    for each in rates.types:
        found.setdefault(_key(each, each.job_type), {})[ALONE_KEY] = fraction(each.alone)
    for each in rates.types:
        for other, own, others in each.beside:
            both = [fraction(own), fraction(others)]
            found[_key(each, each.job_type)][_key(each, other)] = both
            found[_key(each, other)][_key(each, each.job_type)] = both[::-1]
    return {**found}


def _key(rates: TypeRates, job_type: str) -> str:
    return JobType(job_type, rates.gpus).key


def _system(system: System) -> Tree:
    unset = System()
    return _set(
        sensitivePoolSize=system.sensitive_pool_size,
        budgetPeriodDays=_unless(system.budget_period_days, unset.budget_period_days),
        halfLife=_duration(system.half_life_ms, unset.half_life_ms),
        weights={}
        if system.instant_weight_ppm == unset.instant_weight_ppm
        else {"instantShare": fraction(system.instant_weight_ppm)},
    )


def _run(run: Run) -> Tree:
    flavors: Mapping[str, object] = (
        {"gpuType": run.flavors[0]} if len(run.flavors) == 1 else {"gpuTypes": list(run.flavors)}
    )
    return _set(
        owner=run.owner,
        user=run.user,
        pool=_unless(run.pool, DEFAULT_POOL),
        resources={**flavors, "totalGPUs": run.gpus},
        locality=_set(
            groupGPUs=run.group_gpus,
            allowCrossGroupSpread=None if run.cross_group_spread else False,
            selector=dict(run.selector),
        ),
        malleable=None if run.malleable is None else _malleable(run.malleable),
        sparesPerGroup=_unless(run.spares_per_group, 0),
        replace=_unless(run.replace.value, Replace.SAME_DOMAIN.value),
        runtime=_set(
            expectedDuration=_duration(run.expected_duration_ms),
            checkpoint=_duration(run.checkpoint_ms, GRACE_DEFAULT_MS),
        ),
        funding=_funding(run.funding),
        follow=None if run.follow is None else _follow(run.follow),
        onQuota=_unless(run.on_quota.value, OnQuota.REFUSE.value),
        sensitive=_true(run.sensitive),
        command=list(run.command),
        env=dict(run.env),
        workingDir=run.working_dir,
        processes=_unless(run.processes.value, Processes.GPU.value),
        image=run.image,
        podTemplate=None if run.pod_template is None else _pod_template(run.pod_template),
        workload=run.workload,
        array=None if run.array is None else _array(run.array, run.task),
        mail=None if run.mail is None else _mail(run.mail),
        nonce=run.nonce,
        **({} if run.rounds is None else _rounds(run.rounds)),
    )


def _pod_template(template: PodTemplate) -> Tree:
    return _set(
        volumes=[
            _set(
                mountPath=volume.mount_path,
                **{volume.source.value: volume.name},
                readOnly=_true(volume.read_only),
            )
            for volume in template.volumes
        ],
        tolerations=[
            _set(
                key=each.key,
                operator=_unless(each.operator.value, TolerationOperator.EQUAL.value),
                value=each.value,
                effect=None if each.effect is None else each.effect.value,
            )
            for each in template.tolerations
        ],
        serviceAccountName=template.service_account,
        imagePullSecrets=list(template.pull_secrets),
        requests=_set(cpu=template.cpu, memory=template.memory),
    )


def _mail(mail: RunMail) -> Tree:
    kinds = [] if mail.kinds == RunMail(to=mail.to).kinds else [each.value for each in mail.kinds]
    return _set(to=mail.to, kinds=kinds)


def _malleable(malleable: Malleable) -> Tree:
    return _set(
        minTotalGPUs=malleable.gpus_min,
        maxTotalGPUs=malleable.gpus_max,
        stepGPUs=malleable.gpus_step,
        desiredTotalGPUs=_unless(malleable.gpus_desired, malleable.gpus_max),
    )


def _funding(funding: Funding) -> Tree:
    return _set(
        allowBorrow=_true(funding.allow_borrow),
        maxBorrowGPUs=funding.borrow_gpus_max,
        sponsors=list(funding.sponsors),
    )


def _array(array: TaskArray, task: int | None) -> Tree:
    """Return the field ``array``; for one task, it also has the array's name and the index."""
    found: Tree = {"tasks": tasks_text(array)}
    return found if task is None else {"name": array.name, **found, "task": task}


def _follow(follow: Follow) -> Tree:
    return _set(
        after=list(follow.after),
        afterAny=list(follow.after_any),
        afterTask=list(follow.after_task),
        onUpstreamFailure=_unless(follow.on_upstream_failure.value, UpstreamFailure.WAIT.value),
        grace=_duration(follow.grace_ms, Follow(after=()).grace_ms),
    )


def _rounds(work: RoundsWork) -> Tree:
    return _set(
        jobType=work.job_type,
        throughputs=dict(work.throughputs),
        totalSteps=work.total_steps,
        weight=_unless(work.weight, RoundsWork().weight),
        slo=None if work.slo_ms is None else seconds(work.slo_ms),
    )
