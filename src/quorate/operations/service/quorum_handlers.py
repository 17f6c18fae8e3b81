"""The services that share one ledger: who leads, who takes part, and how a leader steps down."""

from __future__ import annotations

from typing import Any

from quorate.operations.answer_types import Answer
from quorate.operations.common_requests import Nothing
from quorate.operations.operation import Operation
from quorate.operations.request_context import RequestContext
from quorate.ports.leader_port import MemberRecord, QuorumControl, QuorumStatus
from quorate.views.exits import CommandError, Exit
from quorate.views.statuses import REFUSED
from quorate.views.table import Column, table

LEADER = "leader"
FOLLOWER = "follower"


def cluster_status(context: RequestContext, asked: Nothing, operation: Operation) -> Answer:
    """Return the role of the service that answers, and the leader."""
    del asked, operation
    return _answer(_control(context).status())


def cluster_members(context: RequestContext, asked: Nothing, operation: Operation) -> Answer:
    """Return the services that share the ledger."""
    del asked, operation
    control = _control(context)
    leader, members = control.status().leader, control.members()
    rows = [_row(each, leader) for each in members]
    return Answer(
        tree=lambda: {"items": rows},
        lines=lambda _: _table(rows) if rows else [_ALONE],
    )


def step_down(context: RequestContext, asked: Nothing, operation: Operation) -> Answer:
    """Make this service step down as the leader; return its status before that."""
    del asked, operation
    control = _control(context)
    found = control.status()
    if found.is_alone:
        raise CommandError(
            Exit.REFUSED,
            "no other service shares this ledger, so none could lead instead; several services "
            "need a ledger in etcd",
            fault=REFUSED,
        )
    if len(control.members()) <= 1:
        raise CommandError(
            Exit.REFUSED,
            f"{found.name} is the only service of this ledger that is alive, so no "
            "other one could lead; start another one first",
            fault=REFUSED,
        )
    control.step_down()
    return _answer(found, f"{found.name} steps down from term {found.term}; another service leads")


_ALONE = "this service does not share its ledger; several services need a ledger in etcd"


def _control(context: RequestContext) -> QuorumControl:
    if context.quorum is None:
        raise CommandError(
            Exit.USAGE,
            "no service answers here: name one with --server URL, or --context NAME",
        )
    return context.quorum


def _answer(found: QuorumStatus, said: str = "") -> Answer:
    def tree() -> dict[str, Any]:
        return {
            "name": found.name,
            "role": LEADER if found.leads else FOLLOWER,
            "term": found.term,
            "leader": found.leader,
            "sequence": found.sequence,
            "lagMs": found.lag_ms,
            "whyNot": found.why_not,
        }

    return Answer(tree=tree, lines=lambda _: [said] if said else _lines(found))


def _lines(found: QuorumStatus) -> list[str]:
    if found.is_alone:
        return [_ALONE]
    if found.leads:
        return [f"{found.name} leads in term {found.term}, at sequence {found.sequence}"]
    lines = [
        f"{found.name} follows, at sequence {found.sequence}, at most {found.lag_ms} ms behind",
        f"{found.leader} leads in term {found.term}" if found.leader else "no service leads now",
    ]
    return [*lines, f"{found.name}: {found.why_not}"] if found.why_not else lines


def _row(member: MemberRecord, leader: str) -> dict[str, str]:
    return {
        "name": member.name,
        "role": LEADER if member.name == leader else FOLLOWER,
        "address": member.address,
        "grpc": member.grpc,
        "version": member.version,
    }


def _table(rows: list[dict[str, str]]) -> list[str]:
    cells = [[value or "-" for value in each.values()] for each in rows]
    return table([Column(name.upper()) for name in rows[0]], cells).splitlines()
