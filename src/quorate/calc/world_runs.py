"""Reads the runs of a world.

A run with a namespace is called ``namespace/name``. If a run names no owner, its owner is the owner
of the first budget in the run's namespace. If there is no such budget, the name of the namespace is
the owner. If ``totalGPUs`` of a malleable run is below its minimum or above its maximum, the nearer
of the two is used.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from quorate.calc.world_funds import Funds
from quorate.calc.world_reader import settle
from quorate.documents import values
from quorate.documents.document_problem import quoted
from quorate.documents.field_reader import At, Fields, complete, fields_of, listed
from quorate.documents.labels import place_selector
from quorate.documents.run_parts import nonce
from quorate.documents.times import any_duration, positive_duration, time_ms
from quorate.model.amounts import GRACE_DEFAULT_MS, GROUPS_MAX, STEPS_MAX
from quorate.model.specs import Follow, Funding, Malleable, Run, UpstreamFailure
from quorate.model.state.records import Phase

RUN: Final = frozenset(
    {
        "name",
        "namespace",
        "owner",
        "gpuType",
        "totalGPUs",
        "groupGPUs",
        "allowCrossGroupSpread",
        "selector",
        "spares",
        "malleable",
        "funding",
        "follow",
        "checkpoint",
        "expectedDuration",
        "nonce",
        "phase",
        "created",
    }
)
_MALLEABLE: Final = frozenset({"min", "max", "step", "desired"})
_FUNDING: Final = frozenset({"allowBorrow", "maxBorrowGPUs", "sponsors"})
_FOLLOW: Final = frozenset({"after", "onUpstreamFailure", "grace"})
_phase = values.choice(Phase)
_upstream = values.choice(UpstreamFailure)


@dataclass(frozen=True, slots=True)
class WorldRun:
    """A run of a world, and its phase if the world states one."""

    spec: Run
    phase: Phase | None


OwnerOf = Callable[[str], str | None]
"""A function that returns the owner of the runs of a namespace."""


def owner_of(funds: Funds) -> OwnerOf:
    """Return a function that returns the owner of the first budget in a namespace."""
    found: dict[str, str] = {}
    for budget in funds.budgets:
        if budget.namespace:
            found.setdefault(budget.namespace, budget.spec.owner)
    return found.get


def read_runs(fields: Fields, at: At, funds: Funds) -> tuple[WorldRun, ...]:
    """Return the runs of a world, in the order of its list."""
    read = run_reader(owner_of(funds))
    found = complete(fields.optional("runs", lambda v, a: listed(v, a, read), ())) or ()
    names = [run.spec.name for run in found]
    for index, name in enumerate(names):
        if name in names[:index]:
            at.child("runs").child(index).child("name").fault(
                f"is a duplicate run name {quoted(name)}", "choose another name"
            )
    settle(at)
    return found


def run_reader(owners: OwnerOf) -> Callable[[object, At], WorldRun | None]:
    """Return a reader of one run; ``owners`` returns the owner of a run that names none."""

    def read(value: object, at: At) -> WorldRun | None:
        fields = fields_of(value, at, RUN)
        return None if fields is None else _run(fields, owners)

    return read


def _run(fields: Fields, owners: OwnerOf) -> WorldRun | None:
    name = fields.required("name", values.line)
    namespace = fields.optional("namespace", values.line, "")
    flavor = fields.required("gpuType", values.line, remedy="say which kind of GPU it needs")
    gpus = fields.required("totalGPUs", values.gpus, remedy="say how many, e.g. totalGPUs: 8")
    owner = fields.maybe("owner", values.line) or owners(namespace) or namespace
    if not owner:
        fields.at("owner").fault("is required", "add the owner or the namespace of the run")
    malleable = fields.maybe("malleable", _malleable)
    fields.maybe("created", time_ms)
    if name is None or flavor is None or gpus is None or not owner:
        return None
    if malleable is not None:
        gpus = min(max(gpus, malleable.gpus_min), malleable.gpus_max)
        if (gpus - malleable.gpus_min) % malleable.gpus_step:
            fields.at("totalGPUs").fault(
                f"must be {malleable.gpus_min} plus whole steps of {malleable.gpus_step}",
                f"choose from {malleable.gpus_min}, {malleable.gpus_min + malleable.gpus_step} "
                "and so on",
            )
    group_gpus = fields.maybe("groupGPUs", values.gpus)
    most = gpus if malleable is None else malleable.gpus_max
    if group_gpus is not None and most > group_gpus * GROUPS_MAX:
        fields.at("groupGPUs").fault(
            f"must divide {most} GPUs into at most {GROUPS_MAX} groups, got {group_gpus}",
            "use larger groups",
        )
    spec = Run(
        name=f"{namespace}/{name}" if namespace else name,
        owner=owner,
        flavors=(flavor,),
        gpus=gpus,
        group_gpus=group_gpus,
        cross_group_spread=fields.optional("allowCrossGroupSpread", values.truth, default=True),
        selector=fields.optional("selector", place_selector, ()),
        malleable=malleable,
        spares_per_group=fields.optional("spares", values.count, 0),
        expected_duration_ms=fields.maybe("expectedDuration", positive_duration),
        checkpoint_ms=fields.optional("checkpoint", any_duration, GRACE_DEFAULT_MS),
        funding=fields.optional("funding", _funding, Funding()),
        follow=fields.maybe("follow", _follow_in(namespace)),
        nonce=fields.optional("nonce", nonce, ""),
    )
    return WorldRun(spec, fields.maybe("phase", _phase))


def _malleable(value: object, at: At) -> Malleable | None:
    fields = fields_of(value, at, _MALLEABLE)
    if fields is None:
        return None
    least = fields.required("min", values.gpus)
    most = fields.required("max", values.gpus)
    step = fields.required("step", values.gpus)
    desired = fields.optional("desired", values.gpus, most)
    if least is None or most is None or step is None or desired is None:
        return None
    for name, gpus in (("max", most), ("desired", desired)):
        if not least <= gpus <= most or (gpus - least) % step:
            fields.at(name).fault(
                f"must be min plus whole steps, and at most max, got {gpus}",
                f"choose from {least}, {least + step} and so on",
            )
            return None
    if (most - least) // step > STEPS_MAX:
        fields.at("step").fault(
            f"must make at most {STEPS_MAX} steps from {least} to {most} GPUs, got {step}",
            "use larger steps",
        )
        return None
    return Malleable(gpus_min=least, gpus_max=most, gpus_step=step, gpus_desired=desired)


def _funding(value: object, at: At) -> Funding | None:
    fields = fields_of(value, at, _FUNDING)
    if fields is None:
        return None
    return Funding(
        allow_borrow=fields.optional("allowBorrow", values.truth, default=False),
        borrow_gpus_max=fields.maybe("maxBorrowGPUs", values.count),
        sponsors=fields.optional("sponsors", _lines, ()),
    )


def _lines(value: object, at: At) -> tuple[str, ...] | None:
    return complete(listed(value, at, values.line))


def _follow_in(namespace: str) -> Callable[[object, At], Follow | None]:
    """Return a reader of the field ``follow``; the upstreams that it names are in ``namespace``."""

    def read(value: object, at: At) -> Follow | None:
        fields = fields_of(value, at, _FOLLOW)
        if fields is None:
            return None
        after = fields.required("after", _lines, remedy="list the runs that must complete first")
        on_failure = fields.optional("onUpstreamFailure", _upstream, UpstreamFailure.WAIT)
        grace_ms = fields.optional("grace", any_duration, 0)
        if after is None:
            return None
        if not after:
            fields.at("after").fault(
                "must list at least one run", "name a run, or remove the field follow"
            )
            return None
        upstreams = tuple(f"{namespace}/{name}" if namespace else name for name in after)
        return Follow(after=upstreams, on_upstream_failure=on_failure, grace_ms=grace_ms)

    return read
