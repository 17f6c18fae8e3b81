"""The fleet in summary: by flavor, by domain, and by owner. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from quorate.model.events import NodeStatus, Role
from quorate.model.specs import Run
from quorate.model.state.free_slots import Island, IslandKey
from quorate.views.kinds.kinds_fleet import island_keys
from quorate.views.redaction.redaction import OTHERS
from quorate.views.runs.instant import Moment
from quorate.views.table import Column, right, table, wide
from quorate.views.word_forms import bar, percent

_BAR: Final = 30


@dataclass(slots=True)
class Amount:
    """Counts of GPUs that are in use, free, or out of service."""

    used: int = 0
    free: int = 0
    out: int = 0
    nodes: int = 0
    nodes_not_ready: int = 0
    queued: int = 0

    @property
    def total(self) -> int:
        """All GPUs together."""
        return self.used + self.free + self.out

    def add(self, other: Amount) -> None:
        """Add the counts of ``other``."""
        self.used += other.used
        self.free += other.free
        self.out += other.out
        self.nodes += other.nodes
        self.nodes_not_ready += other.nodes_not_ready

    def tree(self) -> dict[str, Any]:
        """Return the counts for programs."""
        return {
            "gpusUsed": self.used,
            "gpusFree": self.free,
            "gpusOutOfService": self.out,
            "gpusTotal": self.total,
        }


@dataclass(slots=True)
class Held:
    """The GPUs of one flavor that one owner's runs have."""

    gpus: int = 0
    spare: int = 0
    runs: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Top:
    """The counts of a fleet."""

    flavors: dict[str, Amount]
    domains: dict[IslandKey, Amount]
    owners: dict[tuple[str, str], Held]

    def tree(self) -> dict[str, Any]:
        """Return the counts for programs."""
        return {
            "flavors": [
                {"flavor": flavor, **amount.tree(), "gpusQueued": amount.queued}
                for flavor, amount in self.flavors.items()
            ],
            "domains": [
                {
                    "domain": key.domain,
                    "flavor": key.flavor,
                    "pool": key.pool,
                    **amount.tree(),
                    "nodes": amount.nodes,
                    "nodesNotReady": amount.nodes_not_ready,
                }
                for key, amount in self.domains.items()
            ],
            "owners": [
                {
                    "owner": owner,
                    "flavor": flavor,
                    "gpus": held.gpus,
                    "gpusSpare": held.spare,
                    "runs": len(held.runs),
                }
                for (owner, flavor), held in self.owners.items()
            ],
        }

    def lines(self, *, show_wide: bool) -> Iterator[str]:
        """Yield the counts for people: three tables."""
        rows = [_amount_row((flavor,), each) for flavor, each in self.flavors.items()]
        yield table((Column("FLAVOR"), *_AMOUNTS, right("QUEUED")), rows, show_wide=show_wide)
        yield ""
        places = [
            _amount_row((key.domain, key.flavor, key.pool), each)
            for key, each in self.domains.items()
        ]
        columns = (Column("DOMAIN"), Column("FLAVOR"), wide("POOL"), *_AMOUNTS, right("QUEUED"))
        yield table(columns[:-1], [row[:-1] for row in places], show_wide=show_wide)
        yield ""
        if not self.owners:
            yield "no run uses it"
            return
        yield table(_OWNER, [self._owner_row(*each) for each in self.owners], show_wide=show_wide)

    def _owner_row(self, owner: str, flavor: str) -> tuple[str, ...]:
        held, total = self.owners[owner, flavor], self.flavors[flavor].total
        return (
            owner,
            flavor,
            bar(held.gpus, total, width=_BAR),
            str(held.gpus),
            percent(held.gpus, total),
            str(held.spare),
            str(len(held.runs)),
        )


_AMOUNTS: Final = (
    Column("USED"),
    right("GPUS"),
    right("FREE"),
    right("TOTAL"),
    right("BUSY"),
    right("OUT", wide=True),
    right("NODES", wide=True),
    right("NOT-READY", wide=True),
)
_OWNER: Final = (
    Column("OWNER"),
    Column("FLAVOR"),
    Column("HAS"),
    right("GPUS"),
    right("SHARE"),
    right("SPARE", wide=True),
    right("RUNS"),
)


def _amount_row(names: Sequence[str], amount: Amount) -> tuple[str, ...]:
    return (
        *names,
        bar(amount.used, amount.total, out=amount.out, width=_BAR),
        str(amount.used),
        str(amount.free),
        str(amount.total),
        percent(amount.used, amount.total),
        str(amount.out),
        str(amount.nodes),
        str(amount.nodes_not_ready),
        str(amount.queued),
    )


def top_of(moment: Moment, pool: str | None, seen: Collection[str] | None) -> Top:
    """Return the counts of one ``pool``, or of all pools.

    ``seen`` are the owners that may be named; None means all owners. The GPUs of the other owners
    are summed up.
    """
    domains = {
        key: _amount(moment, moment.view.island(key))
        for key in island_keys(moment).values()
        if pool in (None, key.pool)
    }
    flavors: dict[str, Amount] = {}
    for key, amount in sorted(domains.items(), key=lambda each: each[0].flavor):
        flavors.setdefault(key.flavor, Amount()).add(amount)
    queued = Counter[tuple[str, ...]]()
    for spec in _wanting(moment):
        if pool is None or pool == spec.pool:
            queued[spec.flavors] += spec.gpus
    for accepted, gpus in queued.items():
        wanted = next((flavor for flavor in accepted if flavor in flavors), None)
        if wanted is not None:
            flavors[wanted].queued += gpus
    return Top(flavors, domains, _owners(moment, pool, seen))


def _wanting(moment: Moment) -> Iterator[Run]:
    """Yield the runs that want GPUs and have none: waiting runs, and runs left out of a round."""
    runs, pending = moment.view.runs, moment.view.pending
    # In storage order, which is several times faster than a lookup of each name.
    for name, record in runs.kept():
        if name in pending:
            yield record.spec
    for name, known in moment.view.in_rounds.items():
        if not known.lease and not runs[name].leases:
            yield runs[name].spec


def _amount(moment: Moment, island: Island) -> Amount:
    out = sum(mask.bit_count() for mask in island.withheld.values())
    statuses = moment.view.node_status
    not_ready = sum(
        statuses.get(node.name, NodeStatus.READY) is not NodeStatus.READY for node in island.nodes
    )
    return Amount(
        used=island.gpus_total - island.gpus_free - out,
        free=island.gpus_free,
        out=out,
        nodes=len(island.nodes),
        nodes_not_ready=not_ready,
    )


def _owners(
    moment: Moment, pool: str | None, seen: Collection[str] | None
) -> dict[tuple[str, str], Held]:
    """Return the GPUs of each owner by flavor, the largest number first.

    The sum of the owners that may not be named comes last.
    """
    view, found = moment.view, defaultdict[tuple[str, str], Held](Held)
    # Each table is looked up once, because the view wraps it anew on each access.
    runs, nodes = view.runs, view.nodes
    for lease in view.leases.values():
        spec = runs[lease.fact.run].spec
        node = nodes[lease.fact.slots[0][0]]
        if pool not in (None, node.island.pool):
            continue
        owner = spec.owner if seen is None or spec.owner in seen else OTHERS
        held = found[owner, node.spec.flavor]
        held.gpus += lease.gpus
        held.spare += lease.gpus if lease.fact.role is Role.SPARE else 0
        held.runs.add(spec.name)
    order = sorted(found, key=lambda key: (key[0] == OTHERS, -found[key].gpus, key))
    return {key: found[key] for key in order}
