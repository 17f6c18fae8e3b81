"""The invariants of rounds: which runs are in rounds, wait for room, or share a lease."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator

from quorate.core.admission.run_shape import Violation
from quorate.model.state.state_view import StateView


def check_rounds(view: StateView, runs: Collection[str]) -> Iterator[Violation]:
    """Yield a violation for runs in wrong tables (I8), and for partners of different owners (I1).

    It is also a violation if a run had GPUs together with a partner for longer than it had any GPUs
    (I8).

    ``runs`` are the runs of all pools of discipline ``rounds``, without runs that have ended. The
    table of rounds must have exactly these runs. Only a run of the pool may have a grant.
    """
    if set(view.in_rounds) != set(runs):
        yield Violation("I8", "rounds", "contain other runs than those that share in rounds")
    if Counter(member.pool for member in view.in_rounds.values()) != dict(view.round_sizes):
        yield Violation("I8", "rounds", "have wrong counts of runs")
    yield from _grants(view)
    yield from _partners(view)
    for name, member in view.in_rounds.items():
        had_ms = member.received_ms
        if any(ms > had_ms.get(flavor, 0) for flavor, ms in member.received_paired_ms.items()):
            yield Violation("I8", name, "had more time in pairs than in total")


def _partners(view: StateView) -> Iterator[Violation]:
    """Yield a violation for leases shared by more than two runs, or by runs of different owners."""
    beside = {
        lease.fact.partner: name
        for name, lease in view.leases.items()
        if lease.fact.partner is not None and lease.fact.partner in view.in_rounds
    }
    for name, lease in view.leases.items():
        partner = lease.fact.partner
        if partner is None:
            continue
        shared = view.in_rounds[partner].lease if partner in view.in_rounds else None
        if shared not in view.runs[lease.fact.run].leases:
            yield Violation("I8", name, f"is shared with {partner}, but {partner} shares no lease")
    for partner, name in beside.items():
        first = view.runs[view.leases[name].fact.run].spec
        if view.runs[partner].spec.owner != first.owner:
            yield Violation("I1", name, f"is shared with {partner}, which has another owner")
    for name, member in view.in_rounds.items():
        if member.lease and view.runs[name].leases:
            yield Violation("I1", name, "has a lease, but also shares another lease")
        if member.lease and (member.lease not in view.leases or name not in beside):
            yield Violation("I8", name, f"shares {member.lease}, which is not open")


def _grants(view: StateView) -> Iterator[Violation]:
    """Yield a violation for grants without a run, and for wrong lists of stopping leases.

    The record of a pool's rounds has to list the stopping leases of the pool.
    """
    for pool, round_ in view.rounds.items():
        leaving = {
            lease
            for name, member in view.in_rounds.items()
            if member.pool == pool
            for lease in view.runs[name].leases
            if view.leases[lease].ending is not None
        }
        if set(round_.leaving) != leaving:
            yield Violation("I8", pool, "has a wrong list of its leases that were ordered to stop")
        for name in round_.waiting:
            member = view.in_rounds.get(name)
            if member is None or member.pool != pool:
                yield Violation(
                    "I11", name, f"has a grant in {pool}, but is not a run of that pool"
                )
