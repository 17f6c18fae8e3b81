"""Reads scripts: the steps of a scenario, as commands with their times.

A step may have one deed (``submit``, ``failNode`` ...), the instant of the deed (``at``), and the
state that is expected after the deed (``expect``). A step may also consist of ``op`` and its
arguments, as in the predecessor of Quorate. Such a step is read as the deed that has the same
effect.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from quorate.calc.expecting import read_expected
from quorate.calc.tenant_steps import create_step, remove_step, update_step
from quorate.calc.world_fleet import read_node
from quorate.calc.world_runs import OwnerOf, run_reader
from quorate.core.commands import (
    Applied,
    Apply,
    Cancel,
    Command,
    Complete,
    Drain,
    Fail,
    MarkNode,
    Release,
    Resolve,
    Shrink,
    Submit,
    Tick,
    Wiped,
)
from quorate.documents import Invalid, parse_tree, values
from quorate.documents.document_problem import CalcInputError, path_text, shown
from quorate.documents.field_reader import At, Fields, complete, fields_of, listed
from quorate.documents.times import any_duration, time_ms
from quorate.model.events import NodeStatus
from quorate.model.specs import DEFAULT_POOL, Run
from quorate.model.state.records import Phase
from quorate.model.task_arrays import task_runs

DEEDS: Final = frozenset(
    {
        "apply",
        "submit",
        "complete",
        "fail",
        "cancel",
        "shrink",
        "confirm",
        "failNode",
        "recover",
        "cordon",
        "drain",
        "release",
        "wiped",
        "resolve",
        "createOwner",
        "updateOwner",
        "removeOwner",
        "tick",
        "restart",
    }
)
OPS: Final = frozenset(
    {"bind", "reconcile", "activate", "dueAll", "addRun", "addNode", "failNode", "set"}
)
STEP: Final = DEEDS | {"at", "expect"}
OP_STEP: Final = frozenset(
    {"op", "at", "expect", "run", "node", "addRun", "addNode", "desired", "phase"}
)
SHRINK: Final = frozenset({"run", "gpus"})
RESOLVE: Final = frozenset({"flavor", "domains", "deficit", "pool"})
WIPED: Final = frozenset({"node", "claim", "clean", "note"})
CONFIRM: Final = frozenset({"run", "lease"})
_phase = values.choice(Phase)


@dataclass(frozen=True, slots=True)
class Reconcile:
    """Submit ``run`` if it is not in the ledger yet; otherwise carry out due actions."""

    run: Run


@dataclass(frozen=True, slots=True)
class Confirmed:
    """The executor confirms the end of a lease, of a run's leases, or of all stopping leases."""

    run: str = ""
    lease: str = ""


@dataclass(frozen=True, slots=True)
class Restart:
    """The engine ends, and a new one opens the ledger."""


Deed = Command | Reconcile | Confirmed | Restart


@dataclass(frozen=True, slots=True)
class Step:
    """One step: ``deed`` is done at ``at_ms``; then the state is compared with ``expected``.

    If ``at_ms`` is None, the deed is done at the present time of the scenario.
    """

    word: str
    at_ms: int | None
    deed: Deed | None
    expected: object


class Script:
    """Reads steps. It must read them in order, because a step may name a run of an earlier step."""

    def __init__(self, runs: Mapping[str, Run], owners: OwnerOf, *, now_ms: int) -> None:
        self._runs = dict(runs)
        self._run_reader = run_reader(owners)
        self._now_ms = now_ms
        self._readers: Mapping[str, Callable[[object, At], Deed | None]] = {
            "apply": _apply,
            "submit": self._submit,
            "complete": _named(Complete),
            "fail": _named(Fail),
            "cancel": _named(Cancel),
            "shrink": _shrink,
            "confirm": _confirm,
            "failNode": _marked(NodeStatus.FAILED),
            "recover": _marked(NodeStatus.READY),
            "cordon": _marked(NodeStatus.CORDONED),
            "drain": _named(Drain),
            "release": _named(Release),
            "wiped": _wiped,
            "resolve": _resolve,
            "createOwner": create_step,
            "updateOwner": update_step,
            "removeOwner": remove_step,
            "tick": _flag(Tick()),
            "restart": _flag(Restart()),
        }

    def step(self, value: object, at: At) -> Step | None:
        """Return the step in ``value``."""
        if isinstance(value, dict) and "op" in value:
            return self._op_step(value, at)
        fields = fields_of(value, at, STEP)
        if fields is None:
            return None
        at_ms = fields.maybe("at", self._instant)
        expected = fields.maybe("expect", read_expected)
        words = [word for word in self._readers if word in fields]
        if len(words) > 1:
            at.child(words[1]).fault(f"cannot be in one step with {words[0]}", "write two steps")
            return None
        if not words:
            if "at" not in fields:
                return Step("expect", None, None, expected)
            return Step("tick", at_ms, Tick(), expected)
        assert isinstance(value, dict), value
        deed = self._readers[words[0]](value[words[0]], fields.at(words[0]))
        return None if deed is None else Step(words[0], at_ms, deed, expected)

    def _instant(self, value: object, at: At) -> int | None:
        """Return the instant in ``value``: a time, or a duration since the scenario's start."""
        if isinstance(value, str) and "-" not in value:
            after_ms = any_duration(value, at)
            return None if after_ms is None else self._now_ms + after_ms
        return time_ms(value, at)

    def _submit(self, value: object, at: At) -> Submit | None:
        """Return the submission of the run in ``value``.

        ``value`` is the name of a run of the world, a run like those in the field ``runs`` of a
        world, or a document.
        """
        if isinstance(value, str):
            if value not in self._runs:
                at.fault(f"is not a run of the world: {shown(value)}", "add it to runs")
                return None
            return Submit(self._runs[value])
        if isinstance(value, dict) and "name" in value:
            run = self._run_reader(value, at)
            return None if run is None else Submit(run.spec)
        (spec,) = _documents([value], at, single=True) or (None,)
        if spec is not None and not isinstance(spec, Run):
            at.fault("must be a Run", "use apply for other documents")
            return None
        return None if spec is None else Submit(spec)

    # --- Steps with an op ---

    def _op_step(self, value: object, at: At) -> Step | None:
        fields = fields_of(value, at, OP_STEP)
        if fields is None:
            return None
        word = fields.required("op", values.line)
        at_ms = fields.maybe("at", self._instant)
        expected = fields.maybe("expect", read_expected)
        if word not in OPS:
            fields.at("op").fault(
                f"must be one of {', '.join(sorted(OPS))}, got {shown(word)}", "use one of these"
            )
            return None
        before = len(at.faults)
        deed = self._op(word, fields)
        return None if len(at.faults) > before else Step(word, at_ms, deed, expected)

    def _op(self, word: str, fields: Fields) -> Deed | None:
        """Return the deed of an op; None if the op is invalid, or only adds a run to the world."""
        match word:
            case "bind" | "reconcile":
                run = self._known(fields)
                return None if run is None else Reconcile(run)
            case "set":
                return self._set(fields)
            case "addRun":
                added = fields.required("addRun", self._run_reader)
                if added is not None:
                    self._runs[added.spec.name] = added.spec
                return None
            case "addNode":
                node = fields.required("addNode", read_node)
                return None if node is None else Apply((node,))
            case "failNode":
                name = fields.required("node", values.line)
                return None if name is None else MarkNode(name, NodeStatus.FAILED)
            case _:
                # A script cannot start a run: the engine starts runs when it carries out due
                # actions.
                return Tick()

    def _known(self, fields: Fields) -> Run | None:
        name = fields.required("run", values.line)
        if name is not None and name not in self._runs:
            fields.at("run").fault(f"is not a run of the world: {shown(name)}", "add it first")
        return None if name is None else self._runs.get(name)

    def _set(self, fields: Fields) -> Deed | None:
        """Return the deed that shrinks a run to a width, or ends it."""
        run = self._known(fields)
        gpus, phase = fields.maybe("desired", values.gpus), fields.maybe("phase", _phase)
        if run is None:
            return None
        if gpus is not None:
            return Shrink(run.name, gpus)
        ends: dict[Phase, Deed] = {
            Phase.COMPLETED: Complete(run.name, has_gone=True),
            Phase.FAILED: Fail(run.name, has_gone=True),
            Phase.CANCELLED: Cancel(run.name),
        }
        if phase is None or phase not in ends:
            fields.at("phase").fault(
                "must be Completed, Failed or Cancelled", "say how the run ends, or set desired"
            )
            return None
        return ends[phase]


# --- Deeds ----------------------------------------------------------------------------------------


def _named(deed: Callable[[str], Deed]) -> Callable[[object, At], Deed | None]:
    def read(value: object, at: At) -> Deed | None:
        name = values.line(value, at)
        return None if name is None else deed(name)

    return read


def _marked(status: NodeStatus) -> Callable[[object, At], Deed | None]:
    return _named(lambda node: MarkNode(node, status))


def _flag(deed: Deed) -> Callable[[object, At], Deed | None]:
    def read(value: object, at: At) -> Deed | None:
        if value is not True:
            at.fault(f"must be true, got {shown(value)}", "write true, or leave it out")
            return None
        return deed

    return read


def _shrink(value: object, at: At) -> Shrink | None:
    fields = fields_of(value, at, SHRINK)
    if fields is None:
        return None
    run, gpus = fields.required("run", values.line), fields.required("gpus", values.gpus)
    return None if run is None or gpus is None else Shrink(run, gpus)


def _wiped(value: object, at: At) -> Wiped | None:
    """Return the command that records the wipe of a node.

    ``value`` is the node's name, or an object with the name, the claim that ended, whether the node
    is clean, and a note.
    """
    if isinstance(value, str):
        name = values.line(value, at)
        return None if name is None else Wiped(name, is_clean=True)
    fields = fields_of(value, at, WIPED)
    if fields is None:
        return None
    node = fields.required("node", values.line)
    is_clean = fields.optional("clean", values.truth, default=True)
    claim, note = fields.maybe("claim", values.line), fields.optional("note", values.line, "")
    return None if node is None else Wiped(node, is_clean, claim, note)


def _confirm(value: object, at: At) -> Confirmed | None:
    """Return which stopping leases end: one lease, the leases of a run or, for ``true``, all."""
    if value is True:
        return Confirmed()
    if isinstance(value, str):
        run = values.line(value, at)
        return None if run is None else Confirmed(run=run)
    fields = fields_of(value, at, CONFIRM)
    if fields is None:
        return None
    return Confirmed(
        run=fields.optional("run", values.line, ""), lease=fields.optional("lease", values.line, "")
    )


def _resolve(value: object, at: At) -> Resolve | None:
    fields = fields_of(value, at, RESOLVE)
    if fields is None:
        return None
    flavor = fields.required("flavor", values.line)
    gpus = fields.required("deficit", values.gpus)
    domains = fields.optional("domains", _lines, ())
    pool = fields.optional("pool", values.line, DEFAULT_POOL)
    return None if flavor is None or gpus is None else Resolve(pool, flavor, domains, gpus)


def _lines(value: object, at: At) -> tuple[str, ...] | None:
    return complete(listed(value, at, values.line))


def _apply(value: object, at: At) -> Apply | None:
    """Return the command that applies a document, or a list of documents."""
    single = not isinstance(value, list)
    specs = _documents([value] if single else value, at, single=single)
    return None if specs is None else Apply(specs)


def _documents(trees: object, at: At, *, single: bool) -> tuple[Applied, ...] | None:
    assert isinstance(trees, list), trees
    return read_documents(trees, [at] if single else [at.child(i) for i in range(len(trees))])


def read_documents(trees: list[object], places: list[At]) -> tuple[Applied, ...] | None:
    """Return the specs of the documents in ``trees``; raise ``CalcInputError`` if one is invalid.

    ``places`` has the place of each document in the world.
    """
    found: list[Applied] = []
    for tree, place in zip(trees, places, strict=True):
        parsed = parse_tree(None, tree)
        if isinstance(parsed, Invalid):
            problem = parsed.problems[0]
            # A problem's path begins at the document, so the path of the document is put before the
            # problem's path.
            path = path_text(place.path)
            raise CalcInputError(f"{path}.{problem.path}", f"{problem.message}; {problem.remedy}")
        for document in parsed.items:
            spec = document.spec
            found += task_runs(spec) if isinstance(spec, Run) else (spec,)
    return tuple(found)
