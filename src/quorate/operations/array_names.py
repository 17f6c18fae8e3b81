"""Names of runs and arrays in requests: ``train``, ``run/train``, ``train[3]``, ``train[2-5]``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final, TypeVar

from msgspec import Struct, structs

from quorate.model.state.run_table import RunQuery
from quorate.model.state.state_view import StateView
from quorate.model.task_arrays import named_runs, task_names
from quorate.operations.caller import Caller
from quorate.operations.operation import Operation
from quorate.operations.visibility import sees_owner
from quorate.views.exits import CommandError, Exit

Asked_ = TypeVar("Asked_", bound=Struct)
_FIELD: Final = "run"
_SEVERAL: Final = frozenset({"cancel-run"})
"""The operations that accept several tasks of an array in one field."""


def named(word: str) -> tuple[str, ...]:
    """Return the runs that ``word`` names: one run, or the tasks of ``train[2-5]``.

    Raises ``CommandError``.
    """
    try:
        return named_runs(word.removeprefix("run/"))
    except ValueError as error:
        raise CommandError(Exit.INVALID, str(error)) from None


def with_plain_name(asked: Asked_, operation: Operation) -> Asked_:
    """Return ``asked``; in its field ``run``, replace a name like ``train[3]`` by ``train_3``.

    Raises ``CommandError`` if the field names several tasks, although the operation is about one
    run.
    """
    word = getattr(asked, _FIELD, None)
    if not isinstance(word, str) or "[" not in word or operation.name in _SEVERAL:
        return asked
    runs = named(word)
    if len(runs) > 1:
        raise CommandError(
            Exit.INVALID, f"{word}: names {len(runs)} runs; name one, such as {runs[0]}"
        )
    return structs.replace(asked, **{_FIELD: runs[0]})


def with_tasks(
    view: StateView, caller: Caller, words: Sequence[str], *, keep_arrays: bool
) -> tuple[str, ...]:
    """Return the runs that ``words`` name; the name of an array stands for all its tasks.

    If ``keep_arrays``, names of arrays are returned as they are. An array that the caller may not
    see is treated as missing.
    """
    found: dict[str, None] = {}
    for word in words:
        for name in named(word):
            is_array = not keep_arrays and sees_array(view, caller, name)
            found |= dict.fromkeys(tasks_named(view, name) if is_array else (name,))
    return tuple(found)


def sees_array(view: StateView, caller: Caller, name: str) -> bool:
    """Return whether there is an array ``name`` that ``caller`` may see."""
    array = view.arrays.get(name)
    return array is not None and sees_owner(view, caller, view.runs[array.first].spec.owner)


def tasks_named(view: StateView, array: str) -> tuple[str, ...]:
    """Return the names of the tasks of ``array``, which must exist."""
    spec = view.runs[view.arrays[array].first].spec
    assert spec.array is not None, spec
    return tuple(task_names(spec.array))


def arrays_once(
    view: StateView, names: Iterable[str], query: RunQuery
) -> Iterator[tuple[str, str]]:
    """Yield (name to list, run) for the runs ``names``, which are one page of ``query``, in order.

    An array is listed once, at the position of its first task. An array is left out if an earlier
    page listed one of its tasks. Earlier pages have the runs up to ``query.after_seq``, or those
    from ``query.before_seq`` on.
    """
    seen: set[str] = set()
    for name in names:
        array = view.runs[name].spec.array
        if array is None:
            yield name, name
        elif array.name not in seen:
            seen.add(array.name)
            if not _was_listed(view, array.name, query):
                yield array.name, name


def _was_listed(view: StateView, array: str, query: RunQuery) -> bool:
    """Return whether a task of ``array`` is on a page before the page of ``query``."""
    names = tasks_named(view, array)
    everything = replace(query, after_seq=0, before_seq=None)
    for name in reversed(names) if query.is_newest_first else names:
        record = view.runs[name]
        is_before = record.seq <= query.after_seq or (
            query.before_seq is not None and record.seq >= query.before_seq
        )
        if not is_before:
            return False
        if everything.matches(record):
            return True
    return False
