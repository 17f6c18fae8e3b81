"""Run documents: the resources that a run needs, its funding and its command.

``run_parts`` reads the parts that do not depend on other parts: command, borrowing, follow, and
work in a rounds pool. This module reads the fields that depend on each other.
"""

from __future__ import annotations

from typing import Final

from quorate.documents import values
from quorate.documents.document_problem import quoted
from quorate.documents.field_reader import At, Fields, fields_of
from quorate.documents.head import Head
from quorate.documents.labels import place_selector
from quorate.documents.pod_document import image, pod_template, workload
from quorate.documents.run_parts import (
    ROUNDS_FIELDS,
    array_reader,
    command,
    environment,
    follow_reader,
    funding,
    mail,
    nonce,
    rounds_work,
)
from quorate.documents.synonyms import Words, in_own_words
from quorate.documents.times import any_duration, positive_duration
from quorate.model.amounts import (
    FLAVORS_MAX,
    GPUS_MAX,
    GRACE_DEFAULT_MS,
    GROUPS_MAX,
    STEPS_MAX,
)
from quorate.model.pod_template import PodTemplate
from quorate.model.selector import Selector
from quorate.model.specs import (
    DEFAULT_POOL,
    Follow,
    Funding,
    Malleable,
    OnQuota,
    Processes,
    Replace,
    Run,
    TaskArray,
)

_SPEC: Final = ROUNDS_FIELDS | {
    "owner",
    "user",
    "pool",
    "resources",
    "locality",
    "malleable",
    "sparesPerGroup",
    "replace",
    "runtime",
    "funding",
    "follow",
    "onQuota",
    "sensitive",
    "command",
    "env",
    "workingDir",
    "processes",
    "nonce",
    "image",
    "podTemplate",
    "workload",
    "array",
    "mail",
}
_WORDS: Final[Words] = {
    ("flavor",): ("resources", "gpuType"),
    ("totalGPUs",): ("resources", "totalGPUs"),
    ("groupGPUs",): ("locality", "groupGPUs"),
    ("allowCrossGroupSpread",): ("locality", "allowCrossGroupSpread"),
    ("spares",): ("sparesPerGroup",),
    ("checkpoint",): ("runtime", "checkpoint"),
}
_ONE_COMMAND: Final = "a run has one command: write command, env and workingDir"
_NO_PRIORITY: Final = "remove it: there are no priorities; budgets and the lottery decide"
_HINTS: Final = {
    "priority": _NO_PRIORITY,
    "priorityClass": _NO_PRIORITY,
    "priorityClassName": _NO_PRIORITY,
    "roles": _ONE_COMMAND,
    "template": _ONE_COMMAND,
    **dict.fromkeys(
        ("expectedDuration", "duration", "time", "timeLimit", "walltime"),
        "write it under spec.runtime, as in runtime: {expectedDuration: 4h}",
    ),
    **dict.fromkeys(("gpuType", "gpuTypes", "gpus"), "write it under spec.resources"),
}
_RESOURCE_HINTS: Final = {
    **dict.fromkeys(("flavor", "type"), "did you mean 'gpuType'?"),
    **dict.fromkeys(("gpus", "gpu", "count"), "did you mean 'totalGPUs'?"),
}
_RUNTIME_HINTS: Final = dict.fromkeys(
    ("expected", "duration", "time", "walltime"), "did you mean 'expectedDuration'?"
)
_RESOURCES: Final = frozenset({"gpuType", "gpuTypes", "totalGPUs"})
_LOCALITY: Final = frozenset({"groupGPUs", "allowCrossGroupSpread", "selector"})
_MALLEABLE: Final = frozenset({"minTotalGPUs", "maxTotalGPUs", "stepGPUs", "desiredTotalGPUs"})
_RUNTIME: Final = frozenset({"expectedDuration", "checkpoint"})
_FEW_FLAVORS: Final = values.few_names(FLAVORS_MAX)
_SPARES: Final = values.whole(low=0, high=GPUS_MAX)
_REPLACE: Final = values.choice(Replace)
_ON_QUOTA: Final = values.choice(OnQuota)
_PROCESSES: Final = values.choice(Processes)
_NO_BORROWING: Final = Funding()
# Python 3.11 looks up members of an enumeration slowly, and most runs have these values.
_SAME_DOMAIN: Final = Replace.SAME_DOMAIN
_REFUSE: Final = OnQuota.REFUSE
_PER_GPU: Final = Processes.GPU

_Resources = tuple[tuple[str, ...] | None, int | None]
_Locality = tuple[int | None, bool, Selector]
_Runtime = tuple[int | None, int]


def read_run(spec: object, at: At, head: Head) -> Run | None:
    """Return the run; report its faults and return None if it is faulty.

    The document may leave out the owner in two cases: ``calc`` reads it (``head.lenient``), or the
    caller knows the owner (``head.needs_owner`` is false).
    """
    return in_own_words(spec, at, _WORDS, lambda tree: _own_run(tree, at, head))


def _own_run(spec: object, at: At, head: Head) -> Run | None:
    fields = fields_of(spec, at, _SPEC, _HINTS)
    if fields is None:
        return None
    owner = fields.required(
        "owner",
        values.name,
        remedy="name the owner, e.g. owner: rai",
        otherwise="" if head.lenient or not head.needs_owner else None,
    )
    flavors, gpus = fields.required(
        "resources", _resources, remedy="add resources: {gpuType: H100-80GB, totalGPUs: 8}"
    ) or (None, None)
    malleable = fields.maybe("malleable", _malleable)
    if malleable is not None and gpus is not None:
        total_at = fields.at("resources").child("totalGPUs")
        _check_on_grid(gpus, malleable, total_at, "must fall within malleable min/max")
    if malleable is not None and flavors is not None:
        _check_steps_of_all(malleable, len(flavors), fields.at("malleable").child("stepGPUs"))
    group_gpus, spread, selector = fields.optional("locality", _locality, (None, True, ()))
    most = gpus if malleable is None else malleable.gpus_max
    if group_gpus is not None and most is not None and most > group_gpus * GROUPS_MAX:
        fields.at("locality").child("groupGPUs").fault(
            f"must divide {most} GPUs into at most {GROUPS_MAX} groups, got {group_gpus}",
            f"use groups of {-(-most // GROUPS_MAX)} GPUs or more",
        )
    duration_ms, checkpoint_ms = fields.optional("runtime", _runtime, (None, GRACE_DEFAULT_MS))
    follow = _follow(fields, head)
    array, task = _array(fields, head, follow)
    run = Run(
        name=head.name,
        owner=owner or "",
        flavors=flavors or (),
        gpus=gpus or 0,
        user=fields.optional("user", values.line, ""),
        pool=fields.optional("pool", values.name, DEFAULT_POOL),
        group_gpus=group_gpus,
        cross_group_spread=spread,
        selector=selector,
        malleable=malleable,
        spares_per_group=fields.optional("sparesPerGroup", _SPARES, 0),
        replace=fields.optional("replace", _REPLACE, _SAME_DOMAIN),
        expected_duration_ms=duration_ms,
        checkpoint_ms=checkpoint_ms,
        funding=fields.optional("funding", funding, _NO_BORROWING),
        follow=follow,
        on_quota=fields.optional("onQuota", _ON_QUOTA, _REFUSE),
        sensitive=fields.optional("sensitive", values.truth, default=False),
        command=fields.optional("command", command, ()),
        env=fields.optional("env", environment, ()),
        working_dir=fields.maybe("workingDir", _working_dir),
        nonce=fields.optional("nonce", nonce, ""),
        rounds=rounds_work(fields),
        processes=fields.optional("processes", _PROCESSES, _PER_GPU),
        image=fields.maybe("image", image),
        pod_template=_pod_template(fields),
        workload=_workload(fields),
        array=array,
        task=task,
        mail=fields.maybe("mail", mail),
    )
    return None if owner is None or flavors is None or gpus is None else run


def _follow(fields: Fields, head: Head) -> Follow | None:
    if "follow" not in fields:
        return None
    return fields.maybe("follow", follow_reader(head.name, lenient=head.lenient))


def _array(
    fields: Fields, head: Head, follow: Follow | None
) -> tuple[TaskArray | None, int | None]:
    """Return the array, and the index of the task if the document is for one task."""
    if "array" not in fields:
        if follow is not None and follow.after_task:
            fields.at("follow").child("afterTask").fault(
                "is for arrays: each task follows the task with the same index",
                "add array, or use after",
            )
        return None, None
    at = fields.at("array")
    for other in ("sensitive", "workload"):
        if other in fields:
            at.fault(f"cannot be combined with {other}", f"remove {other}, or remove array")
    found = fields.maybe("array", array_reader(head.name))
    return (None, None) if found is None else found


def _pod_template(fields: Fields) -> PodTemplate | None:
    found = fields.maybe("podTemplate", pod_template)
    if found in (None, PodTemplate()):
        return None
    if "image" not in fields:
        fields.at("podTemplate").fault(
            "has no effect without an image", "add image, or remove podTemplate"
        )
    return found


def _workload(fields: Fields) -> str | None:
    found = fields.maybe("workload", workload)
    for other in ("command", "image"):
        if found is not None and other in fields:
            fields.at("workload").fault(
                f"has its own program, so {other} cannot be set",
                f"remove {other}, or remove workload",
            )
    return found


def _resources(value: object, at: At) -> _Resources | None:
    fields = fields_of(value, at, _RESOURCES, _RESOURCE_HINTS)
    if fields is None:
        return None
    gpus = fields.required(
        "totalGPUs", values.gpus, remedy=("state the number of GPUs, e.g. totalGPUs: 8")
    )
    return _flavors(fields), gpus


def _flavors(fields: Fields) -> tuple[str, ...] | None:
    if "gpuType" in fields and "gpuTypes" in fields:
        fields.at("gpuTypes").fault(
            "is set beside gpuType",
            ("use gpuType for one kind, or gpuTypes for several in order of preference"),
        )
        return None
    if "gpuTypes" in fields:
        return fields.maybe("gpuTypes", _flavor_list)
    flavor = fields.required(
        "gpuType",
        values.name,
        remedy="name the kind of GPU, e.g. gpuType: H100-80GB, or list several in gpuTypes",
    )
    return None if flavor is None else (flavor,)


def _flavor_list(value: object, at: At) -> tuple[str, ...] | None:
    if value == []:
        at.fault("must list at least one kind of GPU", "list them in order of preference")
        return None
    return _FEW_FLAVORS(value, at)


def _locality(value: object, at: At) -> _Locality | None:
    fields = fields_of(value, at, _LOCALITY)
    if fields is None:
        return None
    return (
        fields.maybe("groupGPUs", values.gpus),
        fields.optional("allowCrossGroupSpread", values.truth, default=True),
        fields.optional("selector", place_selector, ()),
    )


def _runtime(value: object, at: At) -> _Runtime | None:
    fields = fields_of(value, at, _RUNTIME, _RUNTIME_HINTS)
    if fields is None:
        return None
    return (
        fields.maybe("expectedDuration", positive_duration),
        fields.optional("checkpoint", any_duration, GRACE_DEFAULT_MS),
    )


def _malleable(value: object, at: At) -> Malleable | None:
    fields = fields_of(value, at, _MALLEABLE)
    if fields is None:
        return None
    low = fields.required(
        "minTotalGPUs", values.gpus, remedy=("state the least number of GPUs that the run can use")
    )
    high = fields.required(
        "maxTotalGPUs",
        values.gpus,
        remedy=("state the largest number of GPUs that the run can use"),
    )
    step = fields.required(
        "stepGPUs", values.gpus, remedy=("state by how many GPUs the run grows and shrinks")
    )
    desired = fields.maybe("desiredTotalGPUs", values.gpus)
    if low is not None and high is not None and low > high:
        fields.at("minTotalGPUs").fault(
            f"must be <= maxTotalGPUs {high}, got {low}", "swap them or widen the range"
        )
        return None
    if low is None or high is None or step is None:
        return None
    found = Malleable(gpus_min=low, gpus_max=high, gpus_step=step, gpus_desired=desired or high)
    _check_on_grid(high, found, fields.at("maxTotalGPUs"), "")
    if (high - low) // step > STEPS_MAX:
        least = -(-(high - low) // STEPS_MAX)
        fields.at("stepGPUs").fault(
            f"must make at most {STEPS_MAX} steps from {low} to {high} GPUs, got {step}",
            f"use steps of {least} GPUs or more",
        )
    if desired is not None:
        _check_on_grid(desired, found, fields.at("desiredTotalGPUs"), "must fall within min/max")
    return found


def _check_steps_of_all(malleable: Malleable, flavors: int, at: At) -> None:
    """Report a run that has too many steps, summed over all its flavors.

    The number is limited, because admission tries every step on every flavor.
    """
    wide = malleable.gpus_max - malleable.gpus_min
    steps = wide // malleable.gpus_step
    if flavors > 1 and STEPS_MAX // flavors < steps <= STEPS_MAX:
        at.fault(
            f"must make at most {STEPS_MAX} steps over all kinds of GPU, but {malleable.gpus_step} "
            f"makes {steps} for each of {flavors} kinds",
            f"use steps of {-(-wide // (STEPS_MAX // flavors))} GPUs or more, or name fewer kinds",
        )


def _check_on_grid(gpus: int, malleable: Malleable, at: At, bounds: str) -> None:
    """Report ``gpus`` if it is between two steps or out of range.

    If it is out of range, the message begins with the text ``bounds``.
    """
    low, high, step = malleable.gpus_min, malleable.gpus_max, malleable.gpus_step
    if not low <= gpus <= high:
        at.fault(f"{bounds}, {low} to {high}, got {gpus}", f"use {low} to {high}")
        return
    below = gpus - (gpus - low) % step
    if below == gpus:
        return
    # If ``gpus`` is the maximum itself, the remedy may propose a higher maximum.
    fits_above = below + step <= high or not bounds
    at.fault(
        f"must be minTotalGPUs {low} plus whole steps of stepGPUs {step}, got {gpus}",
        f"use {below} or {below + step}" if fits_above else f"use {below}",
    )


def _working_dir(value: object, at: At) -> str | None:
    found = values.text(value, at)
    if found == "":
        at.fault(f"must not be empty, got {quoted(found)}", "name a folder, or leave the field out")
        return None
    return found
