"""Finds the domains in which a run lacks the fewest GPUs now, and how many GPUs it lacks there."""

from __future__ import annotations

from quorate.core.admission.domain_offer import DomainOffers
from quorate.core.admission.layout import pack_request
from quorate.core.admission.target_slices import best_slice
from quorate.model.events import Slice
from quorate.model.specs import Run
from quorate.model.state.state_view import StateView


def missing_now(view: StateView, run: Run) -> tuple[int, Slice | None, bool]:
    """Return the number of missing GPUs, their slice, and whether the run fits an empty fleet.

    The answer is for the least width of ``run`` and for its first flavor. A slice has the number of
    GPUs in each domain; the returned slice lacks the fewest GPUs. It is None if the pool has no
    node of the flavor.
    """
    flavor = run.flavors[0]
    request = pack_request(run, view.pools[run.pool], flavor, run.widths()[-1])
    domain_offers = list(DomainOffers(view, request).most_free())
    parts, fits_empty = best_slice(request, domain_offers) if domain_offers else ([], False)
    if not parts:
        return request.gpus, None, False
    domains = tuple((part.domain, part.wanted) for part in parts)
    short = sum(part.deficit for part in parts)
    return short, Slice(flavor, request.gpus, domains), fits_empty
