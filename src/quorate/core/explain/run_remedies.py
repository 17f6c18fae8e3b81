"""Remedies that change the run itself; they are tried on a copy with another name.

The run stays in the queue unchanged: the command of the remedy submits the changed copy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import gcd
from typing import Final

from msgspec.structs import replace

from quorate.core.admission.holds import hold_duration_ms
from quorate.core.admission.layout import pack_request
from quorate.core.admission.spread import items_of
from quorate.core.commands import Cancel, Submit
from quorate.core.decide import decide
from quorate.core.explain.remedies import (
    ACTOR,
    Proof,
    Remedy,
    RemedyKind,
    Trials,
    Value,
    first_working,
    setting,
    started_with,
)
from quorate.model.amounts import DAY_MS, HOUR_MS, MINUTE_MS
from quorate.model.specs import Funding, Run
from quorate.model.state.apply_event import apply_all
from quorate.model.state.free_slots import IslandKey
from quorate.model.state.state_view import StateView
from quorate.model.task_arrays import alone

DRY_RUNS_MAX: Final = 40
"""How many copies one explanation tries at most."""

FLAVORS_MAX: Final = 8
GROUP_SIZES_MAX: Final = 16
COPY_NAME_CHARS_MAX: Final = 120
"""The most characters of a run's name that the name of its copy has; a suffix follows them."""

DURATIONS_MS: Final = tuple(
    sorted(
        [m * MINUTE_MS for m in (15, 30, 45)]
        + [h * HOUR_MS for h in (1, 2, 3, 4, 6, 8, 12, 18)]
        + [d * DAY_MS for d in (1, 2, 3, 4, 5, 7, 10, 14, 21, 30, 60, 90, 180, 365)]
    )
)
"""The durations that are proposed, such as 15 minutes or 2 days."""

Changes = tuple[tuple[str, Value], ...]


class _Copies:
    """Tries changed copies of one run, and describes the copies that start.

    Each copy is first tried while the run itself waits. If the run has a reservation, the
    reservation keeps room and money. So a copy that cannot start is then tried again in a state in
    which the run is cancelled.
    """

    def __init__(self, view: StateView, run: Run, now_ms: int) -> None:
        self.view = view
        self.run = run
        self.name = _free_name(view, run.name)
        self.trials = Trials(view, now_ms, DRY_RUNS_MAX)
        self._alone: Trials | None = None
        self._instead: set[Run] = set()
        if view.runs[run.name].reservation is not None:
            without = view.overlay()
            decision = decide(view, Cancel(run.name), now_ms=now_ms, actor=ACTOR)
            apply_all(without, decision.events)
            self._alone = Trials(without, now_ms, DRY_RUNS_MAX)

    def proof(self, run: Run) -> Proof:
        """Return the leases with which the copy ``run`` would start; empty if it would not."""
        command = Submit(replace(run, name=self.name))
        found = self.trials.start_of(self.name, command)
        if not found and self._alone is not None:
            found = self._alone.start_of(self.name, command)
            if found:
                self._instead.add(run)
        return found

    def remedy(self, kind: RemedyKind, run: Run, changes: Changes, proof: Proof) -> Remedy:
        """Return the remedy that submits the copy ``run``, which starts as in ``proof``."""
        command = ("quorate", "submit", "--like", self.run.name, "--name", self.name)
        return Remedy(
            kind=kind,
            target_kind="run",
            target_name=self.run.name,
            changes=changes,
            effect=f"the copy starts now with {started_with(proof)}",
            command=(*command, *setting(changes)),
            trial=Submit(replace(run, name=self.name)),
            instead=run in self._instead,
        )

    def once(self, kind: RemedyKind, run: Run, *changes: tuple[str, Value]) -> Iterator[Remedy]:
        """Yield the remedy ``changes`` if the copy ``run`` starts."""
        proof = self.proof(run)
        if proof:
            yield self.remedy(kind, run, changes, proof)

    def best(
        self,
        kind: RemedyKind,
        values: Sequence[int],
        make: Callable[[int], Run],
        changes: Callable[[int], Changes],
    ) -> Iterator[Remedy]:
        """Yield the remedy with the first of ``values`` that works, if any does."""
        found = first_working(values, lambda value: self.proof(make(value)))
        if found is not None:
            value, proof = found
            yield self.remedy(kind, make(value), changes(value), proof)


def run_remedies(view: StateView, run: Run, now_ms: int) -> tuple[Remedy, ...]:
    """Return the changes of ``run`` that would start it now, the least intrusive kinds first.

    The copy of a task of an array is a single run.
    """
    run = alone(run)
    copies = _Copies(view, run, now_ms)
    return (
        *_placement(copies, run),
        *_shorter(copies, run),
        *_borrowing(copies, run),
        *_other_flavors(copies, run),
        *_fewer_gpus(copies, run),
    )


def follow_remedies(view: StateView, run: Run, now_ms: int) -> tuple[Remedy, ...]:
    """Return the remedy for a run that follows other runs: a copy that follows none."""
    run = alone(run)
    copies = _Copies(view, run, now_ms)
    return tuple(
        copies.once(RemedyKind.NO_FOLLOW, replace(run, follow=None), ("spec.follow", None))
    )


def _free_name(view: StateView, name: str) -> str:
    base, number = name[:COPY_NAME_CHARS_MAX], 2
    while f"{base}-{number}" in view.runs or f"{base}-{number}" in view.arrays:
        number += 1
    return f"{base}-{number}"


def _placement(copies: _Copies, run: Run) -> Iterator[Remedy]:
    """Yield remedies whose copies have weaker demands on their placement.

    A copy may use several domains, have smaller groups or none, have no spares, or have no
    selector.
    """
    if not run.cross_group_spread:
        yield from copies.once(
            RemedyKind.SPREAD,
            replace(run, cross_group_spread=True),
            ("spec.locality.allowCrossGroupSpread", True),
        )
    if run.group_gpus is not None:
        ungrouped = copies.proof(replace(run, group_gpus=None))
        if ungrouped:
            # A group size is an additional demand. So a smaller group size can help only if a copy
            # without groups starts.
            yield from _smaller_groups(copies, run, run.group_gpus)
            yield copies.remedy(
                RemedyKind.NO_GROUPS,
                replace(run, group_gpus=None),
                (("spec.locality.groupGPUs", None),),
                ungrouped,
            )
    if run.spares_per_group:
        yield from copies.once(
            RemedyKind.NO_SPARES, replace(run, spares_per_group=0), ("spec.sparesPerGroup", 0)
        )
    if run.selector:
        yield from copies.once(
            RemedyKind.NO_SELECTOR, replace(run, selector=()), ("spec.locality.selector", None)
        )


def _smaller_groups(copies: _Copies, run: Run, group_gpus: int) -> Iterator[Remedy]:
    """Yield the remedy with the largest reduced groups with which the copy starts, if any.

    The reduced sizes are whole fractions of the group size: a half, a third, and so on.
    """
    parts = [size for size in range(group_gpus // 2, 0, -1) if group_gpus % size == 0]
    for size in parts[:GROUP_SIZES_MAX]:
        remedies = list(
            copies.once(
                RemedyKind.SMALLER_GROUPS,
                replace(run, group_gpus=size),
                ("spec.locality.groupGPUs", size),
            )
        )
        if remedies:
            yield from remedies
            return


def _shorter(copies: _Copies, run: Run) -> Iterator[Remedy]:
    """Yield the remedy with the longest reduced duration with which the copy starts, if any."""
    pool = copies.view.pools[run.pool]
    held_ms = hold_duration_ms(run, pool)
    values = [
        ms
        for ms in reversed(DURATIONS_MS)
        if hold_duration_ms(replace(run, expected_duration_ms=ms), pool) < held_ms
    ]
    yield from copies.best(
        RemedyKind.SHORTER,
        values,
        lambda ms: replace(run, expected_duration_ms=ms),
        lambda ms: (("spec.runtime.expectedDuration", _duration_text(ms)),),
    )


def _duration_text(ms: int) -> str:
    if ms % DAY_MS == 0:
        return f"{ms // DAY_MS}d"
    return f"{ms // HOUR_MS}h" if ms % HOUR_MS == 0 else f"{ms // MINUTE_MS}m"


def _borrowing(copies: _Copies, run: Run) -> Iterator[Remedy]:
    """Yield the remedies with the smallest sufficient loan and with any sponsor, if they work."""
    funding = run.funding
    limit = funding.borrow_gpus_max
    if not funding.allow_borrow or limit is not None:
        least = 1 if limit is None or not funding.allow_borrow else limit + 1
        allow: Changes = () if funding.allow_borrow else (("spec.funding.allowBorrow", True),)
        yield from copies.best(
            RemedyKind.BORROW,
            range(least, gpus_needed_max(copies.view, run) + 1),
            lambda gpus: replace(
                run,
                funding=Funding(allow_borrow=True, borrow_gpus_max=gpus, sponsors=funding.sponsors),
            ),
            lambda gpus: (*allow, ("spec.funding.maxBorrowGPUs", gpus)),
        )
    if funding.allow_borrow and funding.sponsors:
        anybody = replace(run, funding=replace(funding, sponsors=()))
        yield from copies.once(RemedyKind.ANY_SPONSOR, anybody, ("spec.funding.sponsors", None))


def gpus_needed_max(view: StateView, run: Run) -> int:
    """Return how many GPUs a start of ``run`` can take at most, including spares."""
    if not run.spares_per_group:
        return run.gpus
    domains = max(len(view.domains(run.pool, flavor).keys) for flavor in run.flavors)
    request = pack_request(run, view.pools[run.pool], run.flavors[0], run.gpus)
    groups = sum(
        min(item.gpus, domains) if item.divisible else item.count for item in items_of(request)
    )
    return run.gpus + run.spares_per_group * groups


def _other_flavors(copies: _Copies, run: Run) -> Iterator[Remedy]:
    """Yield a remedy for each other flavor of the pool on which the copy starts."""
    islands = (record.island for record in copies.view.nodes.values())
    known = sorted({key.flavor for key in islands if key.pool == run.pool} - set(run.flavors))
    for flavor in known[:FLAVORS_MAX]:
        changes: Changes = (("spec.resources.gpuType", flavor),)
        if len(run.flavors) > 1:
            changes = (("spec.resources.gpuTypes", None), *changes)
        yield from copies.once(RemedyKind.OTHER_FLAVOR, replace(run, flavors=(flavor,)), *changes)


def _fewer_gpus(copies: _Copies, run: Run) -> Iterator[Remedy]:
    """Yield the remedy with the largest reduced width with which the copy starts, if any.

    The minimum of a malleable run is reduced by whole steps; a fixed run may get any width.
    """
    if run.malleable is not None:
        grid = run.malleable
        yield from copies.best(
            RemedyKind.FEWER_GPUS,
            range(grid.gpus_min - grid.gpus_step, 0, -grid.gpus_step),
            lambda gpus: replace(run, malleable=replace(grid, gpus_min=gpus)),
            lambda gpus: (("spec.malleable.minTotalGPUs", gpus),),
        )
        return
    unit = _whole_node_unit(copies.view, run)
    group = run.group_gpus or run.gpus
    # The last group may be smaller than the others, so every width is valid, and all widths are
    # tried first. If nodes are given whole, the least width may fail to start although larger
    # widths start. So widths with only full groups are tried next.
    every = range((run.gpus - 1) // unit * unit, 0, -unit)
    full = range((run.gpus - 1) // group * group, 0, -group)
    for values in (every, full):
        remedies = list(
            copies.best(
                RemedyKind.FEWER_GPUS,
                values,
                lambda gpus: replace(run, gpus=gpus),
                lambda gpus: (("spec.resources.totalGPUs", gpus),),
            )
        )
        if remedies:
            yield from remedies
            return


def _whole_node_unit(view: StateView, run: Run) -> int:
    """Return the step between possible widths.

    The step is one GPU, or, if nodes are given whole, the greatest common divisor of their sizes.
    """
    if not view.pools[run.pool].whole_nodes:
        return 1
    sizes = {
        node.gpus
        for flavor in run.flavors
        for _, domain in view.domain_order(run.pool, flavor)
        for node in view.island(IslandKey(run.pool, flavor, domain)).nodes
    }
    return gcd(*sizes) or 1
