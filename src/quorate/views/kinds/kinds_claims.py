"""Sensitive claims and their nodes, as rows and documents. Pure."""

from __future__ import annotations

from quorate.documents.times import time_text
from quorate.model.events import NodeStatus
from quorate.model.state.records import TERMINAL, RunRecord, UnwipedNode
from quorate.model.state.run_table import RunQuery
from quorate.views import kind_names
from quorate.views.kinds.kind import Kind, Row, Tree, document, each
from quorate.views.runs.instant import Moment, run_gpus
from quorate.views.table import Column, right, wide
from quorate.views.word_forms import age, names, until


def claim_state(node: UnwipedNode) -> str:
    """Return the state of a node after its last claim: Claimed, Wiping or Quarantined."""
    if node.leases:
        return "Claimed"
    return "Quarantined" if node.is_quarantined else "Wiping"


def apart_text(node: UnwipedNode, name: str, *, is_shown: bool) -> str:
    """Return the user that a node is reserved for, and how it becomes free for other users.

    A caller who may not see the user learns only that the node is reserved.
    """
    if not is_shown:
        return f"{claim_state(node)}: reserved for another user"
    text = f"{claim_state(node)}: {node.claim} of {node.user}, until {time_text(node.end_ms)}"
    if node.leases:
        return text
    why = f" ({node.note})" if node.note else ""
    return f"{text}{why}; when it is clean: quorate node wiped {name} --after {node.claim}"


def status_text(moment: Moment, name: str) -> str:
    """Return the status of a node for people: the node's own status, and its claim's state."""
    status = moment.view.node_status.get(name, NodeStatus.READY)
    unwiped = moment.view.unwiped.get(name)
    if unwiped is None:
        return status.value
    claimed = claim_state(unwiped)
    return claimed if status is NodeStatus.READY else f"{status},{claimed}"


def _names(moment: Moment) -> list[str]:
    return list(moment.view.runs.listed(RunQuery(is_claim=True)))


def _called(moment: Moment, name: str) -> list[str]:
    record = moment.view.runs.get(name)
    return [name] if record is not None and record.spec.sensitive else []


def _nodes(moment: Moment, name: str) -> list[str]:
    """Return the nodes that the claim has or that were not wiped after it, sorted by name."""
    return sorted(node for node, known in moment.view.unwiped.items() if known.claim == name)


def _state(moment: Moment, record: RunRecord) -> str:
    """Return the state of a claim: Stopping, Held, Quarantined, Wiping, or its final phase."""
    if record.stopping is not None:
        return "Stopping"
    if record.phase not in TERMINAL:
        return "Held"
    left = {claim_state(moment.view.unwiped[node]) for node in _nodes(moment, record.spec.name)}
    return "Quarantined" if "Quarantined" in left else "Wiping" if left else record.phase.value


def _end_ms(record: RunRecord) -> int:
    assert record.started_ms is not None, record
    assert record.spec.expected_duration_ms is not None, record
    return record.started_ms + record.spec.expected_duration_ms


def claim_text(moment: Moment, record: RunRecord) -> str:
    """Return a claim in a few words: its user, its end, and its nodes with their states."""
    text = f"for {record.spec.user} until {until(_end_ms(record), moment.now_ms)}"
    left = names(
        f"{node} {claim_state(moment.view.unwiped[node])}"
        for node in _nodes(moment, record.spec.name)
    )
    return f"{text}: {left}"


def _row(moment: Moment, name: str) -> Row:
    record = moment.view.runs[name]
    is_over = record.phase in TERMINAL
    return (
        name,
        record.spec.owner,
        record.spec.user,
        _state(moment, record),
        names(n for n in _nodes(moment, name) if is_over or moment.view.unwiped[n].leases),
        str(run_gpus(moment, record) or record.spec.gpus),
        "-" if is_over else until(_end_ms(record), moment.now_ms),
        age(moment.now_ms - record.submitted_ms),
        time_text(_end_ms(record) if record.ended_ms is None else record.ended_ms),
        record.note or "-",
    )


def _tree(moment: Moment, name: str) -> Tree:
    record = moment.view.runs[name]
    nodes = {node: moment.view.unwiped[node] for node in _nodes(moment, name)}
    status = {
        "state": _state(moment, record),
        "owner": record.spec.owner,
        "user": record.spec.user,
        "since": time_text(record.submitted_ms),
        "until": time_text(_end_ms(record)),
        "ended": None if record.ended_ms is None else time_text(record.ended_ms),
        "gpus": run_gpus(moment, record),
        "nodes": [
            {"name": node, "state": claim_state(known), "note": known.note or None}
            for node, known in nodes.items()
        ],
        "note": record.note or None,
    }
    return document("Claim", name, status=status)


CLAIM = Kind(
    called=kind_names.CLAIM,
    columns=(
        Column("NAME"),
        Column("OWNER"),
        Column("USER"),
        Column("STATE"),
        Column("NODES"),
        right("GPUS"),
        Column("UNTIL"),
        right("AGE"),
        wide("END"),
        wide("NOTE"),
    ),
    names=_names,
    called_by=_called,
    rows=each(_row),
    trees=each(_tree),
)
