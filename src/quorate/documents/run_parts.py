"""The parts of a Run document that do not depend on other parts."""

from __future__ import annotations

import re
from typing import Final

from msgspec.structs import replace

from quorate.documents import values
from quorate.documents.document_problem import quoted, shown
from quorate.documents.field_reader import (
    At,
    Fields,
    Read,
    complete,
    fields_of,
    listed,
    mapped,
)
from quorate.documents.rates import rate, weight
from quorate.documents.times import any_duration
from quorate.model.amounts import DURATION_MS_MAX, RATES_MAX, SECOND_MS, SPONSORS_MAX, UPSTREAMS_MAX
from quorate.model.mail_address import ADDRESS_CHARS_MAX, is_address
from quorate.model.notice_kinds import RUN_KINDS, NoticeKind
from quorate.model.rounds_bounds import TOTAL_STEPS_MAX
from quorate.model.specs import Follow, Funding, RoundsWork, RunMail, TaskArray, UpstreamFailure
from quorate.model.task_arrays import INDEX_MAX, indexes_of, read_array, task_name

RENDEZVOUS: Final = frozenset(
    {"MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK", "NODE_RANK", "LOCAL_RANK", "NNODES"}
)
"""Variables that Quorate sets, so that the processes of a run find each other."""

ROUNDS_FIELDS: Final = frozenset({"jobType", "throughputs", "totalSteps", "weight", "slo"})

_FUNDING: Final = frozenset({"allowBorrow", "maxBorrowGPUs", "sponsors"})
_FOLLOW: Final = frozenset({"after", "afterAny", "afterTask", "onUpstreamFailure", "grace"})
_ARRAY: Final = frozenset({"tasks", "name", "task"})
_MAIL: Final = frozenset({"to", "kinds"})
# The name of the grace period in Jobtree's manifests.
_LENIENT_FOLLOW: Final = _FOLLOW | {"upstreamFailureGrace"}
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,254}")
_RUN_KIND: Final = values.choice(RUN_KINDS)
_UPSTREAM: Final = values.choice(UpstreamFailure)
_INDEX: Final = values.whole(low=0, high=INDEX_MAX)
_STEPS: Final = values.whole(low=1, high=TOTAL_STEPS_MAX)
_SLO: Final = values.decimal_of(factor=SECOND_MS, unit="millisecond", low=1, high=DURATION_MS_MAX)


def funding(value: object, at: At) -> Funding | None:
    """Return whether a run may borrow, from which sponsors, and how many GPUs."""
    fields = fields_of(value, at, _FUNDING)
    if fields is None:
        return None
    allow = fields.maybe("allowBorrow", values.truth)
    found = Funding(
        allow_borrow=allow is True,
        borrow_gpus_max=fields.maybe("maxBorrowGPUs", values.gpus),
        sponsors=fields.optional("sponsors", values.few_names(SPONSORS_MAX), ()),
    )
    if allow is False or "allowBorrow" not in fields:
        for name in ("maxBorrowGPUs", "sponsors"):
            if name in fields:
                fields.at(name).fault(
                    "has no effect without allowBorrow", f"add allowBorrow: true or remove {name}"
                )
    return found


def follow_reader(name: str, *, lenient: bool) -> Read[Follow]:
    """Return a reader of the field ``follow`` of the run ``name``."""

    def after(value: object, at: At) -> tuple[str, ...] | None:
        if value == []:
            at.fault("must list at least one run", "name a run, or remove the field follow")
            return None
        found = values.few_names(UPSTREAMS_MAX)(value, at)
        if name and name in (found or ()):
            at.fault(
                f"names the run itself: a run cannot follow itself ({quoted(name)})", "remove it"
            )
        return found

    def read(value: object, at: At) -> Follow | None:
        fields = fields_of(value, at, _LENIENT_FOLLOW if lenient else _FOLLOW)
        if fields is None:
            return None
        none: tuple[str, ...] = ()
        after_any = fields.optional("afterAny", after, none)
        after_task = fields.optional("afterTask", after, none)
        remedy = "list the runs that must complete first"
        otherwise = none if after_any or after_task else None
        upstreams = fields.required("after", after, remedy=remedy, otherwise=otherwise)
        on_failure = fields.optional("onUpstreamFailure", _UPSTREAM, UpstreamFailure.WAIT)
        unset = Follow(after=())
        grace_ms = fields.optional("grace", any_duration, unset.grace_ms)
        grace_ms = fields.optional("upstreamFailureGrace", any_duration, grace_ms)
        if upstreams is None:
            return None
        return Follow(
            after=upstreams,
            on_upstream_failure=on_failure,
            grace_ms=grace_ms,
            after_any=after_any,
            after_task=after_task,
        )

    return read


def array_reader(name: str) -> Read[tuple[TaskArray, int | None]]:
    """Return a reader of the field ``array`` of the run ``name``.

    The reader returns the array, and the index of the task if the document is for one task.
    """

    def read(value: object, at: At) -> tuple[TaskArray, int | None] | None:
        fields = fields_of(value, at, _ARRAY)
        if fields is None:
            return None
        found = fields.required(
            "tasks", tasks, remedy=("state the indexes, e.g. tasks: 0-9, or 0-9%4")
        )
        array, task = fields.maybe("name", values.name), fields.maybe("task", _INDEX)
        if found is None:
            return None
        if array is None and task is None:
            return replace(found, name=name), None
        if (
            array is None
            or task is None
            or task not in indexes_of(found.tasks)
            or task_name(array, task) != name
        ):
            at.fault(
                "name and task are only for a document of one task, and this document is for the "
                "whole array",
                "leave name and task out: Quorate sets them",
            )
            return None
        return replace(found, name=array), task

    def tasks(value: object, at: At) -> TaskArray | None:
        is_index = isinstance(value, int) and not isinstance(value, bool)
        text = str(value) if is_index else values.line(value, at)
        if text is None:
            return None
        try:
            return read_array(text)
        except ValueError as error:
            at.fault(str(error), "write indexes such as 0-9, 1,5,7 or 0-99%4")
            return None

    return read


def mail(value: object, at: At) -> RunMail | None:
    """Return the mail address that a run names, and the kinds of notices to send there."""
    fields = fields_of(value, at, _MAIL)
    if fields is None:
        return None
    to = fields.required("to", _mail_address, remedy="name the address, e.g. to: ada@lab.example")
    if to is None:
        return None
    return RunMail(to=to, kinds=fields.optional("kinds", _mail_kinds, RunMail(to=to).kinds))


def _mail_address(value: object, at: At) -> str | None:
    found = values.line(value, at)
    if found is not None and not is_address(found):
        at.fault(
            f"must be a mail address of at most {ADDRESS_CHARS_MAX} characters, got {shown(found)}",
            "write the address alone, e.g. ada@lab.example",
        )
        return None
    return found


def _mail_kinds(value: object, at: At) -> tuple[NoticeKind, ...] | None:
    found = complete(listed(value, at, _RUN_KIND))
    if found == ():
        at.fault("must name at least one kind", "name a kind, or remove kinds")
        return None
    return None if found is None else tuple(dict.fromkeys(found))


def command(value: object, at: At) -> tuple[str, ...] | None:
    """Return a program and its arguments."""
    if isinstance(value, str):
        at.fault(
            f"must be a list, got {shown(value)}",
            "write each argument as an entry, or [sh, -c, ...] for a shell",
        )
        return None
    found = complete(listed(value, at, values.text))
    if found is None:
        return None
    if not found or not found[0]:
        at.fault("must begin with a program", "name a program, or leave command out")
        return None
    return found


def environment(value: object, at: At) -> tuple[tuple[str, str], ...] | None:
    """Return environment variables, sorted by name."""
    return mapped(value, at, key=_variable, read=values.text)


def _variable(value: object, at: At) -> str | None:
    if isinstance(value, str) and value in RENDEZVOUS:
        at.fault("is set by Quorate for every process of a run", "remove it from env")
        return None
    if isinstance(value, str) and _VARIABLE.fullmatch(value):
        return value
    at.fault(
        f"has a name that no environment variable can have: {shown(value)}",
        "use letters, digits and _, not beginning with a digit",
    )
    return None


def nonce(value: object, at: At) -> str | None:
    """Return the nonce, which is the run's own contribution to the seed of the lottery."""
    found = values.line(value, at)
    if found is not None and len(found) > values.NAME_CHARS_MAX:
        at.fault(
            f"must be at most {values.NAME_CHARS_MAX} characters, got {len(found)}", "shorten it"
        )
        return None
    return found


def rounds_work(fields: Fields) -> RoundsWork | None:
    """Return the fields that only runs of a rounds pool have; None if the run has none of them."""
    if not fields.has_any(ROUNDS_FIELDS):
        return None
    if "jobType" in fields and "throughputs" in fields:
        fields.at("throughputs").fault(
            "is set beside jobType",
            ("keep jobType to use the rates of the table, or keep throughputs"),
        )
    elif "jobType" not in fields and "throughputs" not in fields:
        fields.at("jobType").fault(
            "is required for work in rounds, unless throughputs is set", "add jobType"
        )
    return RoundsWork(
        job_type=fields.maybe("jobType", values.line),
        throughputs=fields.optional("throughputs", _throughputs, ()),
        total_steps=fields.maybe("totalSteps", _STEPS),
        weight=fields.optional("weight", weight, 1.0),
        slo_ms=fields.maybe("slo", _SLO),
    )


def _throughputs(value: object, at: At) -> tuple[tuple[str, float], ...] | None:
    if value == {}:
        at.fault("must give the rate of at least one flavor", "add one, e.g. {v100: 12.5}")
        return None
    if isinstance(value, dict) and len(value) > RATES_MAX:
        at.fault(
            (f"gives {len(value)} rates, over {RATES_MAX}"),
            "keep the rates of flavors of the run's pool",
        )
        return None
    return mapped(value, at, key=values.name, read=rate)
