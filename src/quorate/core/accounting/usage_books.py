"""The usage books: GPU time and node time per owner and per user, in any period.

The usage of a run belongs to the run's owner, whichever envelope pays. A lease adds the GPUs that
it got at its start. It adds them from its charged start to its charged end, or up to now while it
is open. Leases of spares add usage like other leases. Node time is the number of different nodes
that an owner uses, over time. If a run fills the spare of another run, the nodes of the spare still
belong to the node time of the spare's owner. Amounts are whole GPU-milliseconds and
node-milliseconds.

Each event is entered into the books once, when it is recorded. A service keeps the books, and can
ask them for usage at any time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final

from quorate.core.accounting.integral import Integral
from quorate.core.accounting.node_time import NodeTime, used_together
from quorate.model.events import (
    Event,
    LeaseEnded,
    LeaseStarted,
    NodeApplied,
    OwnerApplied,
    OwnerRemoved,
    PledgeClosed,
    RunEnded,
    RunSubmitted,
    SpareFilled,
)
from quorate.model.specs import Quota

SWEEPS_PER_WINDOW: Final = 16
"""How many times the books drop old entries in the course of one window."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Used GPU time and node time. ``flavors`` has the GPU-milliseconds of each used flavor."""

    gpu_ms: int
    node_ms: int
    flavors: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class UserUsage:
    """The usage of the runs that one user has for one owner."""

    owner: str
    user: str
    usage: Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetUse:
    """How much of a soft budget of hours is used. Any use exceeds a budget of 0."""

    used_ms: int
    budget_ms: int

    @property
    def fraction(self) -> Fraction | None:
        """The used part of the budget; None stands for infinity, if a budget of 0 has been used."""
        if self.budget_ms:
            return Fraction(self.used_ms, self.budget_ms)
        return None if self.used_ms else Fraction(0)

    def reaches(self, percent: int) -> bool:
        """Return whether ``percent`` or more of the budget is used."""
        fraction = self.fraction
        return fraction is None or 100 * fraction >= percent

    def is_worse_than(self, other: BudgetUse) -> bool:
        """Return whether the used part of this budget is larger than that of ``other``."""
        mine, theirs = self.fraction, other.fraction
        if mine is None or theirs is None:
            return mine is None and theirs is not None
        return mine > theirs


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetUses:
    """The use of an owner's soft budgets; None for a budget that the owner does not have.

    The owner has at least one soft budget.
    """

    gpu: BudgetUse | None
    node: BudgetUse | None

    @property
    def worse(self) -> BudgetUse:
        """The soft budget of the two that has the larger used part."""
        if self.gpu is None or self.node is None:
            only = self.node if self.gpu is None else self.gpu
            assert only is not None, self
            return only
        return self.node if self.node.is_worse_than(self.gpu) else self.gpu


def budget_uses(quota: Quota, usage: Usage) -> BudgetUses | None:
    """Return the use of the soft budgets of ``quota``; None if it has no soft budget."""
    gpu = node = None
    if quota.gpu_ms_budget is not None:
        gpu = BudgetUse(used_ms=usage.gpu_ms, budget_ms=quota.gpu_ms_budget)
    if quota.node_ms_budget is not None:
        node = BudgetUse(used_ms=usage.node_ms, budget_ms=quota.node_ms_budget)
    return None if gpu is None and node is None else BudgetUses(gpu=gpu, node=node)


@dataclass(slots=True)
class _Account:
    """The GPU and node time of an owner, or of one of its users."""

    flavors: dict[str, Integral] = field(default_factory=dict)
    nodes: NodeTime = field(default_factory=NodeTime)

    def add(self, flavor: str, at_ms: int, gpus: int) -> None:
        integral = self.flavors.get(flavor)
        if integral is None:
            integral = self.flavors[flavor] = Integral()
        integral.add(at_ms, gpus)

    def forget(self, before_ms: int) -> bool:
        """Drop usage that was over by ``before_ms``, and return whether nothing is left."""
        self.nodes.forget(before_ms)
        for flavor, integral in list(self.flavors.items()):
            integral.forget(before_ms)
            if integral.is_empty:
                del self.flavors[flavor]
        return not self.flavors and self.nodes.is_empty


@dataclass(frozen=True, slots=True)
class _Hold:
    """An open lease, or the pledge of a spare that another run fills. A pledge has no GPUs here."""

    owner: str
    user: str
    nodes: tuple[str, ...]
    gpus: tuple[tuple[str, int], ...]


class UsageBooks:
    """The usage of owners and users, computed from all events so far.

    ``window_ms`` is how far back from the last event callers may ask for usage. Earlier usage is
    dropped, so the books do not grow with the ledger. If ``window_ms`` is None, the books keep all
    usage.
    """

    __slots__ = (
        "_flavors",
        "_leases",
        "_owners",
        "_parents",
        "_pledges",
        "_runs",
        "_sweep_ms",
        "_users",
        "_window_ms",
        "at_ms",
    )

    def __init__(self, *, window_ms: int | None = None) -> None:
        assert window_ms is None or window_ms > 0, window_ms
        self.at_ms = 0
        self._window_ms = window_ms
        self._sweep_ms = 0
        self._flavors: dict[str, str] = {}
        self._parents: dict[str, tuple[str, ...]] = {}
        self._runs: dict[str, tuple[str, str]] = {}
        self._leases: dict[str, _Hold] = {}
        self._pledges: dict[str, _Hold] = {}
        self._owners: dict[str, _Account] = {}
        self._users: dict[tuple[str, str], _Account] = {}

    def fold(self, event: Event) -> None:  # noqa: C901 - one case per kind
        """Enter ``event``, which must be the next event of the ledger."""
        match event:
            case LeaseStarted():
                self._start(event)
            case LeaseEnded():
                self._release(event.lease, self._leases.pop(event.lease), event.end_ms)
            case RunSubmitted():
                self._runs[event.run.name] = (event.run.owner, event.run.user)
            case RunEnded():
                del self._runs[event.run]
            case SpareFilled():
                spare = self._leases[event.lease]
                nodes = tuple(node for node, _ in event.slots)
                pledge = _Hold(spare.owner, spare.user, nodes, ())
                self._pledges[event.pledge] = pledge
                self._hold(_pledge_name(event.pledge), pledge, event.at_ms)
            case PledgeClosed():
                pledge = self._pledges.pop(event.pledge)
                self._release(_pledge_name(event.pledge), pledge, event.at_ms)
            case NodeApplied():
                self._flavors[event.node.name] = event.node.flavor
            case OwnerApplied():
                self._parents[event.owner.name] = event.owner.parents
            case OwnerRemoved():
                del self._parents[event.owner]
            case _:
                pass
        self.at_ms = max(self.at_ms, event.at_ms)
        if self._window_ms is not None and self.at_ms >= self._sweep_ms:
            self._sweep(self._window_ms)

    def fold_all(self, events: Iterable[Event]) -> None:
        """Enter ``events``, in order."""
        for event in events:
            self.fold(event)

    def owner(self, name: str, *, from_ms: int, until_ms: int) -> Usage:
        """Return the usage of the owner's own runs in [``from_ms``, ``until_ms``)."""
        return _usage(_only(self._owners.get(name)), from_ms, until_ms)

    def family(self, name: str, *, from_ms: int, until_ms: int) -> Usage:
        """Return the usage of the owner and its descendants together.

        A node that several of these owners use at the same time counts once. Only descendants that
        exist now are included. Each descendant is included once, even if several paths of parents
        lead to the owner.
        """
        accounts = [
            self._owners[each] for each in self._with_descendants(name) if each in self._owners
        ]
        return _usage(accounts, from_ms, until_ms)

    def user(self, owner: str, name: str, *, from_ms: int, until_ms: int) -> Usage:
        """Return the usage of the runs that the user ``name`` has for the owner ``owner``."""
        return _usage(_only(self._users.get((owner, name))), from_ms, until_ms)

    def users(
        self, *, owner: str | None = None, user: str | None = None, from_ms: int, until_ms: int
    ) -> tuple[UserUsage, ...]:
        """Return the usage of each user with node time in the period, sorted by owner and user.

        If ``owner`` or ``user`` is given, only runs of that owner or that user are included.
        """
        found = []
        for each_owner, each_user in sorted(self._users):
            if owner not in (None, each_owner) or user not in (None, each_user):
                continue
            usage = self.user(each_owner, each_user, from_ms=from_ms, until_ms=until_ms)
            if usage.node_ms:
                found.append(UserUsage(owner=each_owner, user=each_user, usage=usage))
        return tuple(found)

    def _start(self, fact: LeaseStarted) -> None:
        owner, user = self._runs[fact.run]
        gpus: dict[str, int] = {}
        for node, mask in fact.slots:
            flavor = self._flavors[node]
            gpus[flavor] = gpus.get(flavor, 0) + mask.bit_count()
        nodes = tuple(node for node, _ in fact.slots)
        lease = _Hold(owner, user, nodes, tuple(gpus.items()))
        self._leases[fact.lease] = lease
        self._hold(fact.lease, lease, fact.start_ms)

    def _hold(self, name: str, hold: _Hold, from_ms: int) -> None:
        for account in self._accounts(hold):
            for flavor, gpus in hold.gpus:
                account.add(flavor, from_ms, gpus)
            for node in hold.nodes:
                account.nodes.begin(node, name, from_ms)

    def _release(self, name: str, hold: _Hold, until_ms: int) -> None:
        for account in self._accounts(hold):
            for flavor, gpus in hold.gpus:
                account.add(flavor, until_ms, -gpus)
            for node in hold.nodes:
                account.nodes.end(node, name, until_ms)

    def _accounts(self, hold: _Hold) -> tuple[_Account, _Account]:
        mine = self._owners.get(hold.owner)
        if mine is None:
            mine = self._owners[hold.owner] = _Account()
        users = self._users.get((hold.owner, hold.user))
        if users is None:
            users = self._users[hold.owner, hold.user] = _Account()
        return mine, users

    def _with_descendants(self, name: str) -> list[str]:
        children: dict[str, list[str]] = {}
        for child, parents in self._parents.items():
            for parent in parents:
                children.setdefault(parent, []).append(child)
        family = {name: None}
        waiting = [name]
        while waiting:
            for child in children.get(waiting.pop(), ()):
                if child not in family:
                    family[child] = None
                    waiting.append(child)
        return list(family)

    def _sweep(self, window_ms: int) -> None:
        self._sweep_ms = self.at_ms + max(1, window_ms // SWEEPS_PER_WINDOW)
        before_ms = self.at_ms - window_ms
        self._owners = {k: v for k, v in self._owners.items() if not v.forget(before_ms)}
        self._users = {k: v for k, v in self._users.items() if not v.forget(before_ms)}


def _pledge_name(pledge: str) -> str:
    # The prefix distinguishes a pledge from a lease, because a node may have holds of both kinds at
    # the same time.
    return f"pledge {pledge}"


def _only(account: _Account | None) -> list[_Account]:
    return [] if account is None else [account]


def _usage(accounts: Sequence[_Account], from_ms: int, until_ms: int) -> Usage:
    gpu_ms: dict[str, int] = {}
    for account in accounts:
        for flavor, integral in account.flavors.items():
            gpu_ms[flavor] = gpu_ms.get(flavor, 0) + integral.used(from_ms, until_ms)
    if len(accounts) == 1:
        node_ms = accounts[0].nodes.used(from_ms, until_ms)
    else:
        node_ms = used_together((account.nodes for account in accounts), from_ms, until_ms)
    flavors = tuple(sorted((flavor, used) for flavor, used in gpu_ms.items() if used))
    return Usage(gpu_ms=sum(gpu_ms.values()), node_ms=node_ms, flavors=flavors)
