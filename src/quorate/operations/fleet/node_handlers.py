"""Nodes: changes of status by people and monitors, and reports of the wipe after a claim."""

from __future__ import annotations

from typing import Final

from quorate.core.commands import Drain, MarkNode, Wiped
from quorate.model.events import NodeStatus
from quorate.operations.answer_types import Order
from quorate.operations.fleet import fleet_operations
from quorate.operations.operation import Operation
from quorate.operations.request_context import RequestContext
from quorate.operations.unknown_names import check_node
from quorate.views.exits import CommandError, Exit

DRAIN: Final = "drain"
_WANTED: Final = {
    "fail": NodeStatus.FAILED,
    "recover": NodeStatus.READY,
    "cordon": NodeStatus.CORDONED,
    "uncordon": NodeStatus.READY,
    DRAIN: NodeStatus.CORDONED,
}
_INSTEAD: Final = {
    ("recover", NodeStatus.CORDONED): "uncordon",
    ("uncordon", NodeStatus.FAILED): "recover",
}
"""For each verb, the verb to use instead if the first one does not fit the status of a node."""


def mark_node(
    context: RequestContext, asked: fleet_operations.MarkNode, operation: Operation
) -> Order:
    """Return the order to give a node the status that the operation names, such as cordoned."""
    verb, name = operation.about, asked.node
    check_node(context, name)
    now = context.recorded.node_status.get(name, NodeStatus.READY)
    instead = _INSTEAD.get((verb, now))
    if instead is not None:
        raise CommandError(
            Exit.REFUSED,
            f"node {name!r} is {now}; use: quorate node {instead} {name}",
            fault="conflict",
        )
    wanted, note = _WANTED[verb], asked.note
    command = Drain(name, note) if verb == DRAIN else MarkNode(name, wanted, note)
    return Order(command=command, unchanged=f"node/{name} is {wanted} already")


def node_wiped(
    context: RequestContext, asked: fleet_operations.NodeWiped, operation: Operation
) -> Order:
    """Return the order to record the result of wiping a node."""
    del operation
    check_node(context, asked.node)
    return Order(command=Wiped(asked.node, not asked.failed, asked.after, asked.note))
