"""The changes of a what-if: changed fields and additional nodes, as specs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from quorate.documents import Invalid, parse_tree, render
from quorate.documents.field_reader import At, Fault
from quorate.documents.times import time_ms
from quorate.model.specs import Budget, Discipline, Node, Owner, Pool, Run, System
from quorate.model.state.state_view import StateView
from quorate.views.assign import assigned
from quorate.views.exits import CommandError, Exit
from quorate.views.hints import nearest_name

if TYPE_CHECKING:
    from quorate.core.commands import Applied

_KINDS: Final = ("budget", "owner", "pool", "node", "system")
_TARGET: Final = re.compile(r"(budget|owner|pool|node)\.([^.\[\]=]+)\.(.+)", re.DOTALL)
_SHAPE: Final = re.compile(r"([A-Za-z]+)\.[^=]+=")
"""Matches ``KIND.PATH=`` with any word as the kind, so that an error can name a similar kind."""
_SYSTEM: Final = re.compile(r"system\.(.+)", re.DOTALL)
_NODES: Final = re.compile(r"([1-9][0-9]*)x(.+)")
_NODES_MAX: Final = 999_999
"""How many nodes one ``--add-nodes`` may add at most."""


def instant_of(at: str) -> int:
    """Return the time in ``--at``; raises ``CommandError`` if it is not valid."""
    faults: list[Fault] = []
    at_ms = time_ms(at, At(("--at",), faults))
    if at_ms is None:
        raise CommandError(Exit.USAGE, *(f"--at: {each.message}; {each.remedy}" for each in faults))
    return at_ms


def changes_of(
    view: StateView,
    assignments: Sequence[str],
    additions: Sequence[str],
    policies: Sequence[str] = (),
) -> list[Applied]:
    """Return the changed specs of ``view``, and the additional nodes.

    An assignment is ``KIND.NAME.PATH=VALUE``, and an addition is ``COUNTxNODE``. A policy is
    ``POOL=NAME``, or ``NAME`` for every pool that works in rounds.

    Raises ``CommandError`` with the option, its fault and its syntax.
    """
    by_policy = [("--policy", each) for each in _policies(view, policies)]
    trees: dict[tuple[str, str], dict[str, Any]] = {}
    options: dict[tuple[str, str], dict[str, None]] = {}
    for option, assignment in (*by_policy, *(("--set", each) for each in assignments)):
        kind, name, rest = _target(assignment)
        tree = trees.get((kind, name)) or render(_spec(view, kind, name, assignment))
        trees[kind, name] = assigned(tree, [f"spec.{rest}"])
        options.setdefault((kind, name), {})[option] = None
    found: list[Applied] = [
        _parsed(tree, " and ".join(options[changed])) for changed, tree in trees.items()
    ]
    for addition in additions:
        found += _more_nodes(view, addition)
    return found


def _policies(view: StateView, policies: Sequence[str]) -> Iterator[str]:
    """Yield the assignments that make pools use ``policies``."""
    for each in policies:
        pool, mark, name = each.rpartition("=")
        if not name or (mark and not pool):
            raise CommandError(Exit.USAGE, f"--policy {each}: write POOL=NAME, or NAME alone")
        sharing = [n for n, p in view.pools.items() if p.discipline is Discipline.ROUNDS]
        if pool and pool not in sharing:
            raise CommandError(
                Exit.REFUSED,
                f"--policy {each}: at that time there is no rounds pool "
                f"{pool!r}; {_listed(sharing)}",
            )
        if not sharing:
            raise CommandError(
                Exit.REFUSED,
                f"--policy {each}: there is no rounds pool at that time; only such "
                "pools have a policy",
            )
        for known in [pool] if pool else sharing:
            yield f"pool.{known}.policy={name}"


def _listed(pools: Sequence[str]) -> str:
    return f"rounds pools: {', '.join(pools)}" if pools else "there is none"


def _target(assignment: str) -> tuple[str, str, str]:
    system, other = _SYSTEM.fullmatch(assignment), _TARGET.fullmatch(assignment)
    if system is not None:
        return "system", "", system[1]
    if other is None:
        raise CommandError(Exit.USAGE, f"--set {assignment}: {_fault(assignment)}")
    return other[1], other[2], other[3]


def _fault(assignment: str) -> str:
    """Return why ``assignment`` names nothing that can be changed, and what to write."""
    shaped = _SHAPE.match(assignment)
    if shaped is None or shaped[1] in _KINDS:
        return (
            "is not KIND.NAME.PATH=VALUE; write it like "
            "budget.vision.envelopes.west.concurrency=512"
        )
    near = nearest_name(shaped[1].lower(), _KINDS)
    hint = f"kinds are {', '.join(_KINDS)}" if near is None else f"did you mean {near!r}?"
    return f"there is no kind {shaped[1]!r} to change; {hint}"


def _spec(view: StateView, kind: str, name: str, assignment: str) -> Applied:
    found: Applied | None
    match kind:
        case "system":
            return view.system
        case "budget":
            found = view.budgets.get(name)
        case "owner":
            found = view.owners.get(name)
        case "pool":
            found = view.pools.get(name)
        case _:
            node = view.nodes.get(name)
            found = None if node is None else node.spec
    if found is None:
        raise CommandError(
            Exit.REFUSED, f"--set {assignment}: there is no {kind} {name!r} at that time"
        )
    return found


def _parsed(tree: dict[str, Any], source: str) -> Applied:
    parsed = parse_tree(None, tree, source=source)
    if isinstance(parsed, Invalid):
        raise CommandError(Exit.INVALID, *(each.text() for each in parsed.problems))
    (document,) = parsed.items
    spec = document.spec
    assert isinstance(spec, System | Pool | Node | Owner | Budget | Run), spec
    return spec


def _more_nodes(view: StateView, addition: str) -> list[Node]:
    match = _NODES.fullmatch(addition)
    if match is None:
        raise CommandError(
            Exit.USAGE,
            f"--add-nodes {addition}: is not COUNTxNODE; write it like 8xa1 for eight more "
            "nodes like a1",
        )
    if len(match[1]) > len(str(_NODES_MAX)):
        raise CommandError(
            Exit.USAGE,
            f"--add-nodes {addition}: {match[1]} nodes are too many; write at most {_NODES_MAX}",
        )
    like = view.nodes.get(match[2])
    if like is None:
        raise CommandError(
            Exit.REFUSED,
            f"--add-nodes {addition}: there is no node {match[2]!r} at that time",
        )
    tree: dict[str, Any] = render(like.spec)
    found: list[Node] = []
    number = 0
    while len(found) < int(match[1]):
        number += 1
        name = f"{like.spec.name}-more-{number}"
        if name not in view.nodes:
            node = _parsed({**tree, "metadata": {**tree["metadata"], "name": name}}, "--add-nodes")
            assert isinstance(node, Node), node
            found.append(node)
    return found
