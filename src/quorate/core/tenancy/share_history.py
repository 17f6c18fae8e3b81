"""Share history: which share of each flavor an owner had in the past, in steps of whole hours."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from quorate.core.tenancy.owner_scores import Scores
from quorate.core.tenancy.share_score import ONE, Terms
from quorate.model.amounts import HOUR_MS
from quorate.model.state.meters import Meter
from quorate.model.state.state_view import StateView

STEPS_MAX: Final = 200
"""The largest number of steps of a history; each step is a whole number of hours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlavorShares:
    """The shares of an owner in a flavor of ``gpus`` GPUs, one for each step.

    Shares are in parts of ``ONE``. ``terms`` are the present terms of the owner's score, including
    its targets.
    """

    flavor: str
    gpus: int
    terms: Terms
    shares: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareHistory:
    """The shares of an owner over time.

    ``edges_ms`` has the start of each step, and the end of the last step.
    """

    edges_ms: tuple[int, ...]
    flavors: tuple[FlavorShares, ...]


def share_history(view: StateView, owner: str, *, span_ms: int, now_ms: int) -> ShareHistory:
    """Return the shares of ``owner`` in the last ``span_ms``, as parts of the present GPUs."""
    edges_ms = step_edges(span_ms, now_ms)
    scores = Scores(view, now_ms)
    found = []
    for flavor in view.flavors():
        meter, (gpus, _) = view.meters.get((owner, flavor)), view.flavor_gpus(flavor)
        if meter is None or not gpus:
            continue
        used = used_in_steps(meter, edges_ms)
        found.append(
            FlavorShares(
                flavor=flavor,
                gpus=gpus,
                terms=scores.of(owner, flavor),
                shares=tuple(
                    each * ONE // (gpus * (end_ms - begin_ms))
                    for each, (begin_ms, end_ms) in zip(used, pairwise(edges_ms), strict=True)
                ),
            )
        )
    return ShareHistory(edges_ms=edges_ms, flavors=tuple(found))


def step_edges(span_ms: int, now_ms: int) -> tuple[int, ...]:
    """Return the edges of the steps over ``span_ms``: whole hours, and ``now_ms`` at the end."""
    begin = (now_ms - span_ms) // HOUR_MS
    hours = -(-now_ms // HOUR_MS) - begin
    step_ms = -(-hours // STEPS_MAX) * HOUR_MS
    return (*range(begin * HOUR_MS, now_ms, step_ms), now_ms)


def used_in_steps(meter: Meter, edges_ms: tuple[int, ...]) -> list[int]:
    """Return the use in each step; the last edge is now, and the others are whole hours.

    An event that is recorded late can reduce the use of a step below zero. The result for such a
    step is 0.
    """
    now_ms = edges_ms[-1]
    since = [*(meter.used(edge_ms, now_ms) for edge_ms in edges_ms[:-1]), 0]
    return [max(0, one - other) for one, other in pairwise(since)]
