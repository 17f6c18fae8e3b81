"""Finds added GPUs that no envelope can pay for: a fork with more nodes cannot use these GPUs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from quorate.core.commands import Applied
from quorate.model.events import NodeStatus
from quorate.model.selector import matches
from quorate.model.specs import Budget, Envelope, Node
from quorate.model.state.state_view import StateView


@dataclass(frozen=True, slots=True, kw_only=True)
class Unpaid:
    """Of the ``added`` GPUs of a flavor, the number that no envelope can pay for if all are busy.

    ``lever`` is the command-line option that raises the largest envelope far enough; None if no
    envelope selects the added nodes.
    """

    flavor: str
    added: int
    gpus: int
    lever: str | None


def unpaid_gpus(view: StateView, changes: Sequence[Applied], at_ms: int) -> Iterator[Unpaid]:
    """Yield the flavors of which ``changes`` add GPUs that no envelope can pay for.

    The result takes into account all nodes that have not failed, and all envelopes whose window
    ends after ``at_ms``.
    """
    nodes = {
        name: record.spec
        for name, record in view.nodes.items()
        if view.node_status.get(name) is not NodeStatus.FAILED
    }
    added = [each for each in changes if isinstance(each, Node) and each.name not in view.nodes]
    nodes |= {each.name: each for each in changes if isinstance(each, Node)}
    changed = {each.name: each for each in changes if isinstance(each, Budget)}
    budgets = {**view.budgets, **changed}.values()
    for flavor in dict.fromkeys(node.flavor for node in added):
        new = [node for node in added if node.flavor == flavor]
        payers = [
            (budget.name, envelope)
            for budget in budgets
            for envelope in budget.envelopes
            if envelope.flavor == flavor
            and envelope.end_ms > at_ms
            and any(_is_in(envelope, node) for node in new)
        ]
        lines = [envelope for _, envelope in payers]
        every = [node for node in nodes.values() if node.flavor == flavor]
        short = _payable(lines, every) - sum(each.concurrency for each in lines)
        gpus = sum(node.gpus for node in new)
        outside = gpus - _payable(lines, new)
        unpaid = outside + min(max(0, short), gpus - outside)
        if unpaid:
            lever = None
            if payers:
                budget, line = max(payers, key=lambda each: each[1].concurrency)
                where = f"budget.{budget}.envelopes.{line.name}.concurrency"
                lever = f"--set {where}={line.concurrency + max(0, short)}"
            yield Unpaid(flavor=flavor, added=gpus, gpus=unpaid, lever=lever)


def _payable(lines: Sequence[Envelope], nodes: Sequence[Node]) -> int:
    """Return the number of GPUs of those ``nodes`` that some envelope selects."""
    return sum(node.gpus for node in nodes if any(_is_in(line, node) for line in lines))


def _is_in(line: Envelope, node: Node) -> bool:
    return matches(line.selector, node.location)
