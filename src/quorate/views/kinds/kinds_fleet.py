"""Nodes, domains, pools and the system's settings, as rows and documents. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from quorate.documents import render
from quorate.documents.times import duration_text
from quorate.documents.written import fraction
from quorate.model.events import NodeStatus
from quorate.model.state.free_slots import Island, IslandKey
from quorate.model.state.records import NodeRecord
from quorate.views import kind_names
from quorate.views.kinds.kind import Kind, Row, Tree, document, each
from quorate.views.kinds.kinds_claims import claim_state, status_text
from quorate.views.redaction.redaction import OTHERS
from quorate.views.runs.instant import Moment
from quorate.views.table import Column, right, wide
from quorate.views.word_forms import bar, names, selector


def _free(moment: Moment, record: NodeRecord) -> int:
    return moment.view.island(record.island).free[record.position].bit_count()


def _status(moment: Moment, name: str) -> NodeStatus:
    return moment.view.node_status.get(name, NodeStatus.READY)


def _node_row(moment: Moment, name: str) -> Row:
    record = moment.view.nodes[name]
    spec = record.spec
    return (
        name,
        status_text(moment, name),
        spec.flavor,
        str(spec.gpus),
        str(_free(moment, record)),
        spec.domain_key,
        record.island.pool,
        spec.rack or "-",
        str(len(moment.view.node_leases.get(name, ()))),
        selector({**spec.location, **dict(spec.labels)}),
    )


def node_leases(moment: Moment, name: str) -> tuple[list[str], int]:
    """Return the leases on a node that the caller may see, and the number of the other leases."""
    leases = moment.view.node_leases.get(name, ())
    shown = sorted(each for each in leases if moment.redaction.run(each) == each)
    return shown, len(leases) - len(shown)


def _node_tree(moment: Moment, name: str) -> Tree:
    record = moment.view.nodes[name]
    shown, others = node_leases(moment, name)
    status: Tree = {
        "status": _status(moment, name).value,
        "domain": record.spec.domain_key,
        "pool": record.island.pool,
        "freeGPUs": _free(moment, record),
        "leases": shown,
    }
    if others:
        status["otherLeases"] = others
    unwiped = moment.view.unwiped.get(name)
    if unwiped is not None:
        is_shown = moment.redaction.shows_run(unwiped.claim)
        status["claim"] = {
            "name": unwiped.claim if is_shown else OTHERS,
            "user": unwiped.user if is_shown else OTHERS,
            "state": claim_state(unwiped),
            "note": (unwiped.note if is_shown else "") or None,
        }
    return {**render(record.spec), "status": status}


NODE = Kind(
    called=kind_names.NODE,
    columns=(
        Column("NAME"),
        Column("STATUS"),
        Column("FLAVOR"),
        right("GPUS"),
        right("FREE"),
        Column("DOMAIN"),
        Column("POOL"),
        wide("RACK"),
        right("LEASES", wide=True),
        wide("LABELS"),
    ),
    names=lambda moment: sorted(moment.view.nodes),
    rows=each(_node_row),
    trees=each(_node_tree),
)


def island_keys(moment: Moment) -> dict[str, IslandKey]:
    """Return the key of each island by the name ``domain/flavor``, in the order of the names.

    An island is the GPUs of one flavor in one domain of one pool. If two pools have the same flavor
    in a domain, the name also has the pool.
    """
    keys = {record.island for record in moment.view.nodes.values()}
    pools: dict[str, list[IslandKey]] = {}
    for key in keys:
        pools.setdefault(f"{key.domain}/{key.flavor}", []).append(key)
    found = {
        name if len(alike) == 1 else f"{name}/{key.pool}": key
        for name, alike in pools.items()
        for key in alike
    }
    return dict(sorted(found.items()))


def largest_group(moment: Moment, island: Island) -> int:
    """Return the most GPUs that one group could get on ``island`` now."""
    if not moment.view.pools[island.key.pool].whole_nodes:
        return island.gpus_free
    return sum(
        node.gpus for position, node in enumerate(island.nodes) if island.whole >> position & 1
    )


def _counts(moment: Moment, island: Island) -> dict[NodeStatus, int]:
    """Return the number of an island's nodes in each status."""
    counts = dict.fromkeys(NodeStatus, 0)
    for node in island.nodes:
        counts[_status(moment, node.name)] += 1
    return counts


def _out_of_service(island: Island) -> int:
    """Return the number of GPUs that no lease holds and that are out of service."""
    return sum(mask.bit_count() for mask in island.withheld.values())


def _domain_rows(moment: Moment, wanted: Sequence[str]) -> list[Row]:
    keys = island_keys(moment)
    return [_domain_row(moment, moment.view.island(keys[name])) for name in wanted]


def _domain_row(moment: Moment, island: Island) -> Row:
    key = island.key
    counts, out = _counts(moment, island), _out_of_service(island)
    return (
        key.domain,
        key.flavor,
        bar(island.gpus_total - island.gpus_free - out, island.gpus_total, out=out),
        str(island.gpus_free),
        str(island.gpus_total),
        str(island.whole.bit_count()),
        str(largest_group(moment, island)),
        str(len(island.nodes)),
        str(counts[NodeStatus.CORDONED]),
        str(counts[NodeStatus.FAILED]),
        key.pool,
    )


def _domain_trees(moment: Moment, wanted: Sequence[str]) -> list[Tree]:
    keys = island_keys(moment)
    return [_domain_tree(moment, name, moment.view.island(keys[name])) for name in wanted]


def _domain_tree(moment: Moment, name: str, island: Island) -> Tree:
    key, counts = island.key, _counts(moment, island)
    status = {
        "domain": key.domain,
        "flavor": key.flavor,
        "pool": key.pool,
        "freeGPUs": island.gpus_free,
        "totalGPUs": island.gpus_total,
        "outOfServiceGPUs": _out_of_service(island),
        "nodes": len(island.nodes),
        "nodesCordoned": counts[NodeStatus.CORDONED],
        "nodesFailed": counts[NodeStatus.FAILED],
        "wholeNodesFree": island.whole.bit_count(),
        "largestGangGPUs": largest_group(moment, island),
    }
    return document("Domain", name, status=status)


DOMAIN = Kind(
    called=kind_names.DOMAIN,
    columns=(
        Column("DOMAIN"),
        Column("FLAVOR"),
        Column("USED"),
        right("FREE"),
        right("TOTAL"),
        right("WHOLE-NODES-FREE"),
        right("LARGEST-GROUP"),
        right("NODES", wide=True),
        right("CORDONED", wide=True),
        right("FAILED", wide=True),
        wide("POOL"),
    ),
    names=lambda moment: list(island_keys(moment)),
    rows=_domain_rows,
    trees=_domain_trees,
)


def _pool_counts(moment: Moment, name: str) -> tuple[int, int, int]:
    """Return how many nodes, GPUs and free GPUs a pool has."""
    keys = {key for key in island_keys(moment).values() if key.pool == name}
    islands = [moment.view.island(key) for key in keys]
    return (
        sum(len(island.nodes) for island in islands),
        sum(island.gpus_total for island in islands),
        sum(island.gpus_free for island in islands),
    )


def _pool_row(moment: Moment, name: str) -> Row:
    pool = moment.view.pools[name]
    nodes, gpus, free = _pool_counts(moment, name)
    return (
        name,
        pool.discipline.value,
        pool.placement.value,
        str(nodes),
        str(gpus),
        str(free),
        selector(pool.selector),
        "yes" if pool.whole_nodes else "no",
        duration_text(pool.expected_duration_ms),
        duration_text(pool.grace_max_ms),
    )


def _pool_tree(moment: Moment, name: str) -> Tree:
    nodes, gpus, free = _pool_counts(moment, name)
    status = {"nodes": nodes, "totalGPUs": gpus, "freeGPUs": free}
    return {**render(moment.view.pools[name]), "status": status}


POOL = Kind(
    called=kind_names.POOL,
    columns=(
        Column("NAME"),
        Column("DISCIPLINE"),
        Column("PLACEMENT"),
        right("NODES"),
        right("GPUS"),
        right("FREE"),
        Column("SELECTOR"),
        wide("WHOLE-NODES"),
        wide("DEFAULT-DURATION"),
        wide("MAX-GRACE"),
    ),
    names=lambda moment: sorted(moment.view.pools),
    rows=each(_pool_row),
    trees=each(_pool_tree),
)


def _system_row(moment: Moment, name: str) -> Row:
    system = moment.view.system
    size = system.sensitive_pool_size
    return (
        name,
        moment.view.ledger_id,
        str(moment.seq),
        str(system.budget_period_days),
        duration_text(system.half_life_ms),
        f"{fraction(system.instant_weight_ppm)}",
        "-" if size is None else str(size),
        names([moment.view.public_key] if moment.view.public_key else []),
    )


def _system_tree(moment: Moment, _: str) -> Tree:
    status = {
        "ledgerId": moment.view.ledger_id,
        "publicKey": moment.view.public_key,
        "sequence": moment.seq,
    }
    return {**render(moment.view.system), "status": status}


SYSTEM = Kind(
    called=kind_names.SYSTEM,
    columns=(
        Column("NAME"),
        Column("LEDGER"),
        right("EVENTS"),
        right("BUDGET-PERIOD-DAYS"),
        right("HALF-LIFE"),
        right("INSTANT-SHARE", wide=True),
        right("SENSITIVE-POOL"),
        wide("PUBLIC-KEY"),
    ),
    names=lambda _: ["system"],
    rows=each(_system_row),
    trees=each(_system_tree),
)
