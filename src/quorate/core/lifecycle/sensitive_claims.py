"""Sensitive claims: whole nodes for one user until a stated end, wiped before the next user.

A claim is a run with ``sensitive: true``. A claim is granted at once or refused, and never queued.
Its owner's own envelopes pay for the whole claim in advance, whether work runs in it or not. No
other run shares or fills the nodes of a claim, and no conflict cuts or draws it. No planned start
relies on nodes of a claim. The ledger records the nodes, the user and the end of a claim before the
claim gets the nodes. See docs/adr/0018-claims.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from quorate.core.admission.admit import Admitted
from quorate.core.admission.bind import LeaseDraft, bind
from quorate.core.decision_log import DecisionLog
from quorate.core.lifecycle.starts import write_leases
from quorate.core.lifecycle.stops import finish, stop_lease, stop_run
from quorate.core.lifecycle.swap import healthy, leases_of
from quorate.model.events import (
    EndReason,
    NodesClaimed,
    NodeWiped,
    Outcome,
    Role,
    StartReason,
)
from quorate.model.refusal import Refusal, RefusalCode
from quorate.model.specs import Funding, OnQuota, Run
from quorate.model.state.durations import grace_ms
from quorate.model.state.records import RunRecord
from quorate.model.state.state_view import StateView


def claim_faults(view: StateView, run: Run) -> Iterator[tuple[str, str, str]]:
    """Yield (field, fault, remedy) for each field that makes ``run`` invalid as a claim."""
    if not run.user:
        yield "user", "a claim is for exactly one user", "say which"
    said_ms, pool = run.expected_duration_ms, view.pools.get(run.pool)
    if said_ms is None:
        yield (
            "runtime.expectedDuration",
            "a claim needs a stated end",
            "state how long the claim lasts",
        )
    elif pool is not None and said_ms <= grace_ms(run, pool):
        yield (
            "runtime.expectedDuration",
            "is not longer than the time that its work gets to checkpoint",
            "claim for longer, or ask for a shorter runtime.checkpoint",
        )
    if run.malleable is not None:
        yield "malleable", "a claim has all its nodes or none", "leave it out"
    if run.spares_per_group:
        yield "sparesPerGroup", "a claim has no spares", "leave it out, or claim more nodes"
    if run.group_gpus is not None:
        yield "locality.groupGPUs", "a claim covers whole nodes", "leave it out"
    if run.funding != Funding():
        yield "funding", "a claim is paid by its owner's own envelopes", "leave it out"
    if run.follow is not None:
        yield (
            "follow",
            "a claim is granted now or not at all",
            "submit the claim once the runs that it follows are over",
        )
    if run.on_quota is not OnQuota.REFUSE:
        yield "onQuota", "a claim is granted now or not at all", "leave it out"


def over_pool_size(view: StateView, nodes: int) -> Refusal | None:
    """Return a refusal if ``nodes`` more nodes would exceed the limit for all claims; else None.

    The limit counts every node until it is wiped, because until then no other user gets the node.
    """
    limit, current = view.system.sensitive_pool_size, len(view.unwiped)
    if limit is None or current + nodes <= limit:
        return None
    return Refusal(
        code=RefusalCode.SENSITIVE_POOL_SIZE,
        subject="system",
        wanted=nodes,
        short=current + nodes - limit,
        current=current,
        limit=limit,
        remedy=(
            "wait until nodes of other claims are wiped (quorate get claims), or ask an admin to "
            "raise the limit"
        ),
    )


def write_claim(log: DecisionLog, run: Run, admitted: Admitted) -> None:
    """Write the claim with its user, nodes and end, then one lease for each node and payer."""
    assert run.expected_duration_ms is not None, run
    drafts = list(_by_node(bind(admitted.plan, admitted.demands, admitted.legs)))
    nodes = tuple(dict.fromkeys(draft.slots[0][0] for draft in drafts))
    log.write(
        NodesClaimed(
            at_ms=log.now_ms,
            actor=log.actor,
            claim=run.name,
            user=run.user,
            nodes=nodes,
            end_ms=log.now_ms + run.expected_duration_ms,
        )
    )
    write_leases(log, run.name, drafts, 0, StartReason.START, start_ms=log.now_ms)


def _by_node(drafts: Iterable[LeaseDraft]) -> Iterator[LeaseDraft]:
    """Yield ``drafts``, divided so that each is on one node.

    The claim can then lose one failed node and keep its other nodes.
    """
    numbers: dict[str, int] = {}
    for draft in drafts:
        for slot in draft.slots:
            number = numbers.setdefault(slot[0], len(numbers))
            path = f"group/{number}"
            yield replace(draft, comp_path=path, bundle=0, role=Role.CLAIM, slots=(slot,))


def end_claim(log: DecisionLog, record: RunRecord, *, end_ms: int) -> None:
    """Write that a claim has reached its stated end."""
    stop_run(log, record, EndReason.END, Outcome.COMPLETED, end_ms=end_ms)


def lose_nodes(log: DecisionLog, run: str) -> None:
    """Write that a claim has lost its failed nodes.

    The claim keeps its other nodes, and fails when it has none left.
    """
    view = log.view
    for lease in leases_of(view, view.runs[run]):
        if not healthy(view, lease.fact.slots):
            stop_lease(log, lease.fact.lease, EndReason.FAIL)
    if not log.view.runs[run].leases:
        finish(log, run, EndReason.FAIL, Outcome.FAILED, "its last node failed")


def release(log: DecisionLog, record: RunRecord, note: str) -> Refusal | None:
    """Write the release of a claim before its end; return a refusal if it cannot be released."""
    if not record.spec.sensitive:
        return Refusal(
            code=RefusalCode.CONFLICT,
            subject=f"run {record.spec.name!r} is not a claim",
            remedy=f"to withdraw it: quorate cancel {record.spec.name}",
        )
    stop_run(log, record, EndReason.END, Outcome.COMPLETED, note=note)
    return None


def wiped(
    log: DecisionLog, node: str, claim: str | None, note: str, *, is_clean: bool
) -> Refusal | None:
    """Write the result of wiping a node after ``claim``, or return a refusal.

    If ``claim`` is None, the result is for the last claim on the node. If ``claim`` is an earlier
    claim, the report is too late and is refused.
    """
    unwiped = log.view.unwiped.get(node)
    if unwiped is None or (claim is not None and unwiped.claim != claim):
        last = "" if claim is None else f" after claim {claim!r}"
        return Refusal(
            code=RefusalCode.CONFLICT,
            subject=f"node {node!r} needs no wipe{last}",
            remedy="list the nodes: quorate get nodes",
        )
    if unwiped.leases:
        return Refusal(
            code=RefusalCode.CONFLICT,
            subject=f"claim {unwiped.claim!r} of {unwiped.user} still has node {node!r}",
            remedy=f"wait until the claim ends, or end it early: quorate release {unwiped.claim}",
        )
    if is_clean or not unwiped.is_quarantined or unwiped.note != note:
        log.write(
            NodeWiped(
                at_ms=log.now_ms,
                actor=log.actor,
                node=node,
                claim=unwiped.claim,
                is_clean=is_clean,
                note=note,
            )
        )
    return None


def drain_warnings(view: StateView, node: str) -> tuple[str, ...]:
    """Return the warning for an operator who drains a ``node`` on which a claim stays, if any."""
    known = view.unwiped.get(node)
    if known is None or not known.leases:
        return ()
    stays = f"node {node} stays with claim {known.claim} of {known.user} until its end"
    return (f"{stays}: a claim is never cut",)
