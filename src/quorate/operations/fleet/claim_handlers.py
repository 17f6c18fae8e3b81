"""Claims: whole nodes for one user until a stated end, and the early release of a claim."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec.structs import replace

from quorate.core.commands import Release, Submit
from quorate.documents import API_VERSION, Document, Invalid, parse_tree
from quorate.model.selector import matches, selector_of
from quorate.model.state.state_view import StateView
from quorate.operations.answer_types import Order
from quorate.operations.caller import Role
from quorate.operations.fleet import fleet_operations
from quorate.operations.operation import Operation
from quorate.operations.permission import check_may_claim
from quorate.operations.request_context import RequestContext
from quorate.operations.unknown_names import check_run
from quorate.views.exits import CommandError, Exit
from quorate.views.runs.run_defaults import ready

_PREFIX: Final = "claim-"
_DEFAULT_POOL: Final = "default"
_FIELDS: Final = {
    "metadata.name": "name",
    "spec.owner": "owner",
    "spec.user": "user",
    "spec.pool": "pool",
    "spec.resources.gpuType": "flavor",
    "spec.resources.totalGPUs": "gpus",
    "spec.runtime.expectedDuration": "duration",
    "spec.runtime.checkpoint": "checkpoint",
    "spec.locality.selector": "selector",
}


def claim_nodes(
    context: RequestContext, asked: fleet_operations.ClaimNodes, operation: Operation
) -> Order:
    """Return the order to claim whole nodes for one user."""
    del operation
    check_may_claim(context.caller)
    if (asked.nodes is None) == (asked.gpus is None):
        raise CommandError(Exit.USAGE, "give either nodes or gpus")
    view, caller = context.recorded, context.caller
    if asked.owner is None and caller.tenant:
        asked = replace(asked, owner=caller.tenant)
    gpus = asked.gpus
    if asked.nodes is not None:
        gpus = asked.nodes * _node_size(view, asked)
    assert gpus is not None
    document = claim_document(asked, gpus, words=_FIELDS)
    for_others = caller.role is Role.ADMIN
    return Order(command=Submit(ready(document, view, caller.user, set(), for_others=for_others)))


def claim_document(
    asked: fleet_operations.ClaimNodes, gpus: int, *, words: Mapping[str, str]
) -> Document:
    """Return the claim of ``gpus`` as a document.

    Raises ``CommandError`` with every fault. ``words`` has the field names that the texts of faults
    use.
    """
    spec: dict[str, Any] = {
        "resources": {"gpuType": asked.flavor, "totalGPUs": gpus},
        "runtime": {"expectedDuration": asked.duration},
        "locality": {"allowCrossGroupSpread": not asked.one_domain},
        "sensitive": True,
    }
    spec |= {} if asked.owner is None else {"owner": asked.owner}
    if asked.selector:
        spec["locality"]["selector"] = dict(asked.selector)
    if asked.checkpoint is not None:
        spec["runtime"]["checkpoint"] = asked.checkpoint
    spec |= {} if asked.user is None else {"user": asked.user}
    spec |= {} if asked.pool is None else {"pool": asked.pool}
    metadata = {"generateName": _PREFIX} if asked.name is None else {"name": asked.name}
    tree = {"apiVersion": API_VERSION, "kind": "Run", "metadata": metadata, "spec": spec}
    parsed = parse_tree(None, tree, source="options")
    if isinstance(parsed, Invalid):
        raise CommandError(
            Exit.INVALID,
            *(
                f"{words.get(each.path, each.path)}: {each.message}; {each.remedy}"
                for each in parsed.problems
            ),
        )
    return parsed.items[0]


def _node_size(view: StateView, asked: fleet_operations.ClaimNodes) -> int:
    """Return how many GPUs each requested node has; raise an error if the nodes differ."""
    pool, flavor = asked.pool or _DEFAULT_POOL, asked.flavor
    wanted = selector_of(asked.selector)
    sizes = {
        record.spec.gpus
        for record in view.nodes.values()
        if record.island.pool == pool
        and record.spec.flavor == flavor
        and matches(wanted, dict(record.spec.labels) | record.spec.location)
    }
    if len(sizes) == 1:
        return sizes.pop()
    if sizes:
        counts = " or ".join(str(size) for size in sorted(sizes))
        raise CommandError(
            Exit.REFUSED,
            f"matching nodes with {flavor} have {counts} GPUs: use --gpus N instead of --nodes N",
            fault="conflict",
        )
    raise CommandError(
        Exit.REFUSED,
        f"pool {pool!r} has no matching node with flavor {flavor!r}; list nodes: quorate get nodes",
        fault="no-nodes",
    )


def release_claim(
    context: RequestContext, asked: fleet_operations.ReleaseClaim, operation: Operation
) -> Order:
    """Return the order to release the nodes of a claim before its end."""
    del operation
    name = asked.claim
    check_run(context, name, "claim")
    return Order(command=Release(name, asked.note))
