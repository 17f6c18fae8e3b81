"""Documents in a request, validated like documents in a file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from quorate.documents import Bare, Document, Invalid, parse_tree
from quorate.documents.values import NAME_CHARS_MAX
from quorate.model.specs import Run
from quorate.model.task_arrays import indexes_of, task_name, task_runs
from quorate.operations.caller import Caller, Role
from quorate.views.assign import assigned
from quorate.views.exits import CommandError, Exit

if TYPE_CHECKING:
    from quorate.core.commands import Applied
    from quorate.model.state.state_view import StateView

RUNS: Final = Bare("Run")
"""The default kind of documents to submit or plan: ``kind: Run`` may be left out."""


def read_trees(
    trees: Sequence[dict[str, Any]], tenant: str = "", *, bare: Bare | None = None
) -> list[Document]:
    """Parse ``trees`` as documents, or raise one error with every fault of every document.

    Runs without an owner belong to ``tenant``, if there is one. ``bare`` is the kind of a document
    without ``apiVersion`` and ``kind``.
    """
    found: list[Document] = []
    problems: list[str] = []
    for position, tree in enumerate(trees):
        source = "document" if len(trees) == 1 else f"documents[{position}]"
        parsed = parse_tree(None, tree, source=source, needs_owner=not tenant, bare=bare)
        if isinstance(parsed, Invalid):
            problems += [problem.text() for problem in parsed.problems]
        else:
            found += [_owned(each, tenant) for each in parsed.items]
    seen: set[tuple[str, str]] = set()
    for document in found:
        key = (document.kind, document.name)
        if document.name and key in seen:
            problems.append(
                f"{document.kind}/{document.name}: is given twice; give each its own name"
            )
        seen.add(key)
    if problems:
        raise CommandError(Exit.INVALID, *problems)
    return found


def _owned(document: Document, tenant: str) -> Document:
    spec = document.spec
    if not isinstance(spec, Run) or spec.owner:
        return document
    return replace(document, spec=replace(spec, owner=tenant))


def changed_document(
    tree: dict[str, Any], assignments: Sequence[str], *, source: str, needs_owner: bool = True
) -> Document:
    """Set the fields of ``assignments`` in ``tree``, and parse the result as a document.

    Raises ``CommandError`` with the faults of the result.
    """
    changed = assigned(tree, assignments)
    parsed = parse_tree(None, changed, source=source, needs_owner=needs_owner)
    if isinstance(parsed, Invalid):
        raise CommandError(Exit.INVALID, *(problem.text() for problem in parsed.problems))
    return parsed.items[0]


def check_only_runs(documents: Sequence[Document]) -> None:
    """Raise ``CommandError`` unless all of ``documents`` are runs."""
    others = [each for each in documents if each.kind != "Run"]
    if others:
        raise CommandError(
            Exit.INVALID,
            *(
                f"{each.kind}/{each.name}: only Runs are submitted; use: quorate apply -f FILE"
                for each in others
            ),
        )


def specs_of(view: StateView, caller: Caller, documents: Sequence[Document]) -> list[Applied]:
    """Return the specs of ``documents``, with the caller's defaults, and with arrays as tasks."""
    # The imported module needs the tables of the ledger. A client that only sends documents needs
    # neither the module nor the tables.
    from quorate.views.runs.run_defaults import ready  # noqa: PLC0415

    taken: set[str] = set()
    specs: list[Applied] = []
    for document in documents:
        if isinstance(document.spec, Run):
            may_all = caller.role is Role.ADMIN
            run = ready(document, view, caller.user, taken, for_others=may_all)
            _check_tasks(view, run)
            specs += task_runs(run)
        else:
            specs.append(document.spec)
    return specs


def _check_tasks(view: StateView, run: Run) -> None:
    """Raise ``CommandError`` for a task without its array, and for names that are too long."""
    if run.array is None:
        return
    if run.task is not None and run.name not in view.runs:
        raise CommandError(
            Exit.INVALID,
            f"Run/{run.name}: spec.array: a task is submitted with its array; remove name and "
            "task, and give the array's name in metadata.name",
        )
    longest = task_name(run.array.name, indexes_of(run.array.tasks)[-1])
    if len(longest) > NAME_CHARS_MAX:
        raise CommandError(
            Exit.INVALID,
            f"Run/{run.name}: metadata.name: the names of its tasks add their index to it, "
            f"such as {longest}, which has {len(longest)} characters, over {NAME_CHARS_MAX}; "
            "shorten it",
        )
