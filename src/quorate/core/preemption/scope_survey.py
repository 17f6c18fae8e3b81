"""Collects the leases in a scope, or under a limit, that a conflict may end.

A scope may be a whole fleet, so each lease in scope is examined once and quickly. How much room a
lease makes is computed later, only for leases that may be cut.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from quorate.core.lifecycle.spares import holder
from quorate.core.preemption.goals import Room
from quorate.core.preemption.run_age import last_start_ms
from quorate.model.events import Role, Tier
from quorate.model.specs import EnvelopeId
from quorate.model.state.free_slots import IslandKey
from quorate.model.state.records import Lease
from quorate.model.state.state_view import StateView

# Reading a member of an enumeration is slow in Python 3.11, so the inner loop compares with this
# constant.
_SPARE: Final = Role.SPARE


@dataclass(slots=True)
class Survey:
    """The leases in scope.

    ``runs`` has, for each run, its leases that are not stopping, in the order in which they were
    found. ``spares`` has the spares among these leases, and ``steps`` the leases that belong to
    steps above a minimum. ``going`` are the stopping leases. ``pledges`` are the filled spares that
    count against a limit, and ``filled`` has the filled spares on the slots of each lease.
    If the goal may also use GPUs that a cut frees outside the domains of the conflict, ``scope``
    has the domains of the conflict. Otherwise ``scope`` is None.
    """

    view: StateView
    room_of: Callable[[Lease], Room]
    runs: dict[str, dict[str, None]] = field(default_factory=dict)
    spares: list[str] = field(default_factory=list)
    steps: list[str] = field(default_factory=list)
    going: dict[str, None] = field(default_factory=dict)
    pledges: tuple[str, ...] = ()
    filled: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    scope: frozenset[str] | None = None

    def newest_first(self, runs: Iterable[str]) -> list[str]:
        """Return ``runs`` sorted by last start and then by submission, the latest first."""
        records = self.view.runs
        return sorted(
            dict.fromkeys(runs),
            key=lambda name: (last_start_ms(self.view, records[name]) or 0, records[name].seq),
            reverse=True,
        )

    def _note(self, names: Iterable[str]) -> None:
        leases, runs = self.view.leases, self.runs
        for name in names:
            lease = leases[name]
            if lease.ending is not None:
                self.going[name] = None
                continue
            fact = lease.fact
            held = runs.get(fact.run)
            if held is None:
                runs[fact.run] = {name: None}
            else:
                held[name] = None
            if fact.role is _SPARE:
                self.spares.append(name)
            if fact.bundle:
                self.steps.append(name)


def survey_domains(
    view: StateView,
    pool: str,
    flavor: str,
    domains: Sequence[str],
    *,
    counts_beyond: bool = False,
) -> Survey:
    """Return the survey of ``domains`` of a pool and flavor, or of all domains if none is given.

    If ``counts_beyond``, the goal may also use GPUs that come free outside ``domains`` when a run
    with GPUs inside is cut.
    """
    index = view.domains(pool, flavor)
    keys, scope = index.keys, None
    if domains:
        keys = tuple(keys[index.numbers[d]] for d in domains if d in index.numbers)
        if counts_beyond and len(keys) < len(index.keys):
            scope = frozenset(key.domain for key in keys)
    counted = frozenset(keys if scope is None else index.keys)
    survey = Survey(
        view, lambda lease: _room_in(view, counted, lease), filled=_filled(view), scope=scope
    )
    by_node = view.node_leases
    for key in keys:
        for node in view.island(key).nodes:
            name = node.name
            if name in by_node:
                survey._note(by_node[name])  # noqa: SLF001 - the module's own class
    return survey


def _room_in(view: StateView, counted: frozenset[IslandKey], lease: Lease) -> dict[str, int]:
    """Return the GPUs that the end of ``lease`` frees on nodes that take work, by domain."""
    slots = lease.fact.slots
    if len(slots) == 1:
        record = view.nodes[slots[0][0]]
        key = record.island
        if key not in counted or record.position in view.island(key).withheld:
            return {}
        return {key.domain: lease.gpus}
    room: dict[str, int] = {}
    for node, mask in slots:
        record = view.nodes[node]
        key = record.island
        if key in counted and record.position not in view.island(key).withheld:
            room[key.domain] = room.get(key.domain, 0) + mask.bit_count()
    return room


def _filled(view: StateView) -> dict[str, tuple[str, ...]]:
    """Return the filled spares by the lease that fills them."""
    found: dict[str, tuple[str, ...]] = {}
    for name in sorted(view.pledges):
        lease = holder(view, view.pledges[name])
        if lease is not None:
            found[lease.fact.lease] = (*found.get(lease.fact.lease, ()), name)
    return found


def survey_payers(
    view: StateView,
    payers: Iterable[EnvelopeId],
    pays: Callable[[Tier], bool],
    *,
    skips_rounds: bool = False,
) -> Survey:
    """Return the survey of the leases that ``payers`` pay for, in tiers that ``pays`` accepts.

    If ``skips_rounds``, leases in pools that share in rounds are left out.
    """
    keys = sorted(set(payers))
    survey = Survey(view, lambda lease: {"": lease.gpus})

    def counts(lease: Lease) -> bool:
        fact = lease.fact
        return pays(fact.tier) and not (skips_rounds and view.runs[fact.run].spec.rounds)

    for payer in keys:
        survey._note(  # noqa: SLF001 - the module's own class
            name for name in view.payer_leases.get(payer, ()) if counts(view.leases[name])
        )
    survey.pledges = tuple(
        name
        for name in view.pledges
        if view.pledges[name].payer in keys and pays(view.pledges[name].tier)
    )
    return survey
