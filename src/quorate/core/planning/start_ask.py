"""The request of a start: the GPUs to place, the domains for them, and the possible payers.

A request does not depend on the instant of the start, so it is kept from one decision to the next.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from quorate.core.admission.admit import cover_request
from quorate.core.admission.cover import payer_phases
from quorate.core.admission.layout import PackRequest, pack_request
from quorate.core.admission.payers import CoverRequest, names_racks
from quorate.core.admission.spread import Item, fills_nodes, items_of
from quorate.core.profile.first_room import Parts, parts_of
from quorate.model.selector import RACK, Selector, contradicts, matches, names_label
from quorate.model.specs import EnvelopeId, Run
from quorate.model.state.free_slots import IslandKey
from quorate.model.state.reads.money_reads import Payers
from quorate.model.state.room_index import Domain, Site
from quorate.model.state.state_view import StateView

ASKS_MAX: Final = 16_384
"""The most ``Ask`` values that are kept. Each run, flavor and width has one ``Ask``."""


class Sites(Struct, frozen=True, gc=False):
    """The domains that a run may use and in which an envelope may pay for it."""

    everywhere: Site
    by_payers: tuple[tuple[Payers, Site], ...]
    """The same domains, grouped by their payers."""

    @property
    def sets(self) -> Iterator[tuple[Domain, ...]]:
        """Yield the sets of domains to try: each group with the same payers, then all domains."""
        for _, site in self.by_payers:
            yield site.domains
        if len(self.by_payers) > 1:
            yield self.everywhere.domains


class Ask(Struct, frozen=True, gc=False):
    """The request of a run for one flavor and width.

    ``cover`` is the request to the payers for a start at 0 ms; ``cover_at`` returns the request for
    any instant.
    """

    run: Run
    request: PackRequest
    items: tuple[Item, ...]
    cover: CoverRequest
    phases: tuple[Payers, ...]
    sites: Sites
    gpus: int
    """How many GPUs the run takes if it is placed in one domain, spares included."""
    parts: Parts
    """The equal parts for which all domains together must have room."""
    is_parted: bool
    """Whether domains with room for ``parts`` always have room for the whole request."""
    takes_whole: bool
    """Whether the run needs specific racks or node sizes, so that counting GPUs is not enough."""
    is_choosy: bool
    """Whether counting GPUs is not enough, because of ``takes_whole`` or for another reason.

    If so, admission tries each start in the state that is expected at the start's instant.
    """
    is_plain: bool
    """Whether the same payers can pay in all domains, and no cap, loan or rack is involved."""

    in_one: bool
    """Whether the request must be placed in one domain."""
    duration_ms: int
    lead_ms: int
    """The least time from a start to the end of its payer's window."""

    def cover_at(self, at_ms: int, asked_ms: int | None) -> CoverRequest:
        """Return the request to the payers for a start at ``at_ms``.

        ``asked_ms`` is the instant at which the plan is made.
        """
        lead_ms = self.lead_ms
        return replace(self.cover, now_ms=at_ms, outlast_ms=at_ms + lead_ms, asked_ms=asked_ms)


class Asks:
    """The requests of starts in one view, kept in its ``ask_cache``."""

    __slots__ = ("_has_executor", "_known", "_view")

    def __init__(self, view: StateView, *, has_executor: bool) -> None:
        self._view = view
        self._has_executor = has_executor
        self._known = view.ask_cache

    def of(self, run: Run, flavor: str, width: int) -> Ask:
        """Return the request of a start of ``run`` in ``flavor`` at ``width``."""
        key = (run.name, flavor, width, self._has_executor)
        known = self._known.get(key)
        if not isinstance(known, Ask) or known.run is not run:
            if len(self._known) >= ASKS_MAX:
                self._known.clear()
            known = self._known[key] = self._find(run, flavor, width)
        return known

    def _find(self, run: Run, flavor: str, width: int) -> Ask:
        view = self._view
        pool = view.pools[run.pool]
        request = pack_request(run, pool, flavor, width)
        cover = cover_request(view, run, flavor, 0, has_executor=self._has_executor)
        phases, items = payer_phases(view, cover), items_of(request)
        racks = names_label(run.selector, RACK) or names_racks(view, phases[-1])
        sites = self._sites(run, flavor, phases[-1], racks=racks)
        spares = request.spares_per_group
        sizes = sites.everywhere.node_sizes
        if request.whole_nodes and not fills_nodes(items, spares, sizes):
            sites = Sites(view.room_index.site((), ()), ())
        takes_whole = racks or (request.whole_nodes and len(sizes) > 1)
        # Parts of a divisible item fill whole nodes only together with their spares.
        in_parts = request.whole_nodes and spares > 0 and any(item.divisible for item in items)
        bounded = any(
            view.owners[name].quota.nodes_max is not None
            for name in view.holdings.bounds_of(run.owner)
        )
        parts, is_parted = parts_of([(i.gpus, i.count, i.divisible) for i in items], spares)
        return Ask(
            run,
            request,
            items,
            cover,
            phases,
            sites,
            sum((item.gpus + spares) * item.count for item in items),
            parts,
            is_parted,
            takes_whole,
            takes_whole or in_parts or (bounded and not request.whole_nodes),
            len(phases) == 1
            and not racks
            and [payers for payers, _ in sites.by_payers] == [phases[0]]
            and not any(view.envelopes[key].caps for key, _ in phases[0]),
            request.one_domain
            or (len(items) == 1 and items[0].count == 1 and not items[0].divisible),
            cover.duration_ms,
            cover.outlast_ms,
        )

    def _sites(self, run: Run, flavor: str, payers: Payers, *, racks: bool) -> Sites:
        """Return the domains that ``run`` may use, grouped by their payers."""
        view = self._view
        lines = tuple(view.envelopes[key].spec.selector for key, _ in payers)
        view.domains(run.pool, flavor)  # This call indexes nodes that were added.
        kept = view.room_index.base.kept
        key = (run.pool, flavor, run.selector, lines, racks)
        served = kept.get(key)
        if served is None:
            served = kept[key] = _served(view, run, flavor, lines, racks=racks)
        everywhere, sets = served
        return Sites(
            everywhere, tuple((tuple(payers[at] for at in paying), site) for paying, site in sets)
        )

    def payers_of(self, run: Run) -> list[EnvelopeId]:
        """Return the envelopes that may pay for ``run``."""
        asks = (self.of(run, flavor, run.widths()[-1]) for flavor in run.flavors)
        return list(dict.fromkeys(key for ask in asks for key, _ in ask.phases[-1]))


Served = tuple[Site, list[tuple[tuple[int, ...], Site]]]
"""All domains where an envelope may pay, and these domains grouped by the envelopes' indexes."""


def _served(
    view: StateView, run: Run, flavor: str, lines: Sequence[Selector], *, racks: bool
) -> Served:
    """Return the domains that ``run`` may use and that match one of ``lines``.

    ``lines`` are the selectors of the envelopes that may pay.
    """
    served: dict[tuple[int, ...], list[Domain]] = {}
    everywhere, sizes = list[Domain](), dict[IslandKey, Iterable[int]]()
    for key in view.domains(run.pool, flavor).keys:
        island = view.island(key)
        labels = island.labels
        if contradicts(run.selector, labels):
            continue
        paying = tuple(
            number
            for number, line in enumerate(lines)
            if (not contradicts(line, labels) if racks else matches(line, labels))
        )
        if paying:
            domain = Domain(key, labels, max(island.sizes))
            sizes[key] = island.sizes
            everywhere.append(domain)
            served.setdefault(paying, []).append(domain)

    def site(domains: Collection[Domain]) -> Site:
        there = {size for domain in domains for size in sizes[domain.key]}
        return view.room_index.site(domains, there)

    whole = site(everywhere)
    if len(served) == 1:
        return whole, [(paying, whole) for paying in served]
    return whole, [(paying, site(domains)) for paying, domains in served.items()]
