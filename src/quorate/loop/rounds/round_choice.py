"""The choice of the runs that get GPUs in the next round, and of their flavors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Final, NamedTuple

from quorate.core.rounds.round_trial import Room, nodes_of
from quorate.loop.rounds.round_funds import Funds
from quorate.loop.rounds.round_held import HeldLeases
from quorate.loop.rounds.round_limits import Limits
from quorate.loop.rounds.round_seats import Nodes, Seats, is_scattered
from quorate.loop.rounds.round_snapshot import Floor, Member
from quorate.loop.rounds.round_spare import faster_candidates, spare_candidates
from quorate.model.amounts import SECOND_MS
from quorate.model.events import RoundGrant
from quorate.model.state.state_view import StateView
from quorate.policy.allocation import ALONE, Allocation, paired_shares, run_shares
from quorate.policy.rounds.round_book import Row, Rules, Standing, over_slack, turn_s
from quorate.policy.rounds.row_choice import Candidate, choose, is_ahead

SHARE_MIN: Final = 1e-6
"""The smallest share that does not count as zero, because shares are recorded in millionths."""


def choose_rows(  # noqa: PLR0913 - what is shared, and what the policy is for
    floor: Floor,
    members: Sequence[Member],
    answer: Allocation,
    funds: Funds,
    *,
    is_thrifty: bool = False,
    is_for_the_last: bool = False,
) -> tuple[RoundGrant, ...]:
    """Return the grants of the next round, the most deserving run first.

    The ledger says how much GPU time each run is owed, so nothing is remembered from one choice to
    the next. A run is skipped if more deserving runs leave no room for it, or if its owner's money
    or quotas are not enough. The next run in order is then chosen, and the skipped run is still
    owed its time.

    Left-over GPUs go first to chosen runs that are faster on these GPUs than on the flavor chosen
    for them. The GPUs that are still free go to other runs that can use them, even to runs without
    a share. A policy may withhold GPUs (``discounts``) so that no run gains by misstating its
    rates. In that case no run gets more than its share. ``is_thrifty`` is true if the policy
    considers prices. Then no run is moved to a faster flavor that the policy did not choose.
    ``is_for_the_last`` is true if the policy's objective is that the last run ends as early as
    possible. Then the order depends on the slack of each run. The slack is the fraction of time in
    which the run should have no GPUs.
    """
    by_name = {member.record.spec.name: member for member in members}
    rules = Rules(round_s=floor.pool.round_ms / SECOND_MS)
    held = HeldLeases(floor.view, by_name)
    found = round_candidates(floor, members, answer, rules, held, is_for_the_last=is_for_the_last)
    candidates = list(found)
    if floor.late:
        candidates = [each for each in candidates if floor.late.isdisjoint(each.row)]
    withholds = answer.discounts is not None
    if withholds:
        candidates = [each for each in candidates if not each.is_ahead]
    free = {f: floor.gpus[at] - floor.gpus_late[at] for at, f in enumerate(floor.flavors)}

    # A policy that considers prices may leave a flavor idle on purpose.
    meant = {each.flavor: free[each.flavor] for each in candidates} if is_thrifty else free

    def chosen(seats: Seats | None) -> _ChoicePass:
        limits = Limits(floor.view, by_name, funds, held, candidates)
        choices = _ChoicePass(limits, seats, held)
        rows = choose(candidates, free, floor.flavors, rules, choices.admits)
        choices.rows = sorted(
            chain.from_iterable(rows.values()), key=lambda c: c.rank, reverse=True
        )
        if not withholds:
            choices.rows += _spare(floor, members, choices, meant)
        return choices

    choices = chosen(None)
    keeps = withholds or is_thrifty
    faster = [] if keeps else faster_candidates(floor, by_name, choices.rows, free)
    if faster:
        candidates += faster
        choices = chosen(None)
    if floor.room is not None:
        room, likely = floor.room, choices.rows
        choices = chosen(Seats(floor.view, room.over(), by_name, held, likely))
        if choices.rows != likely:
            # Some likely runs, whose nodes were kept, were not chosen. The choice is repeated, and
            # keeps the nodes of the runs that were chosen.
            choices = chosen(Seats(floor.view, room.over(), by_name, held, choices.rows))
    else:
        choices.gather(floor, by_name)
    return tuple(_grant(each, choices.nodes(each)) for each in choices.rows)


class _ChoicePass:
    """One pass over the candidates in order, which accepts the candidates within all limits."""

    def __init__(self, limits: Limits, seats: Seats | None, held: HeldLeases) -> None:
        self._limits = limits
        self._seats = seats
        self._held = held
        self.rows: list[Candidate] = []
        self.moved: set[Row] = set()
        """The rows (runs or pairs) that keep their GPUs, but get other payers than before."""

    def admits(self, candidate: Candidate) -> bool:
        """Return whether ``candidate`` is within all limits and gets nodes; if so, count it."""
        bill, seats = self._limits.bill(candidate), self._seats
        if bill is None and seats is not None:
            seats.pass_over(candidate)
        if bill is None or (seats is not None and not seats.seat(candidate)):
            return False
        self._limits.count(bill)
        if bill.is_moved:
            self.moved.add(candidate.row)
        return True

    def gather(self, floor: Floor, members: Mapping[str, Member]) -> None:
        """Move runs that would stay on needlessly many nodes to fewer nodes, if there is room."""
        scattered = [each for each in self.rows if self._is_scattered(floor.view, each)]
        if scattered:
            room = Room.empty(floor.view, floor.pool.name)
            self._seats = Seats(floor.view, room, members, self._held, self.rows)
            self._seats.gather(self.rows, scattered)

    def _is_scattered(self, view: StateView, chosen: Candidate) -> bool:
        leases = self._held.of(chosen.row, chosen.flavor)
        return bool(leases) and is_scattered(view, [lease.fact.slots for lease in leases])

    def nodes(self, chosen: Candidate) -> Nodes:
        """Return the nodes for a chosen run; empty if it keeps its nodes, or may use any nodes.

        If a run's payers have to change, the run starts again on its present nodes.
        """
        meant = () if self._seats is None else self._seats.nodes.get(chosen.row, ())
        if meant or chosen.row not in self.moved:
            return meant
        leases = self._held.of(chosen.row, chosen.flavor)
        return nodes_of(lease.fact.slots for lease in leases)


def _spare(
    floor: Floor, members: Sequence[Member], choices: _ChoicePass, free: Mapping[str, int]
) -> list[Candidate]:
    """Return further runs for left-over GPUs, which no run with a share of the flavor can use."""
    left = dict(free)
    for each in choices.rows:
        if each.flavor in left:
            left[each.flavor] -= each.gpus
    if not any(left.values()):
        return []
    taken = {name for each in choices.rows for name in each.row} | floor.late
    spare = []
    for candidate in spare_candidates(floor, members, taken, left):
        if choices.admits(candidate):
            left[candidate.flavor] -= candidate.gpus
            taken.add(candidate.row[0])
            spare.append(candidate)
    return spare


def _grant(chosen: Candidate, nodes: Nodes = ()) -> RoundGrant:
    """Return the grant of ``chosen``; a pair names its two runs in the same order every round."""
    run, *others = sorted(chosen.row)
    return RoundGrant(run, chosen.flavor, partner=others[0] if others else None, nodes=nodes)


def round_candidates(  # noqa: PLR0913 - as for ``choose_rows``
    floor: Floor,
    members: Sequence[Member],
    answer: Allocation,
    rules: Rules,
    held: HeldLeases,
    *,
    is_for_the_last: bool = False,
) -> Iterator[Candidate]:
    """Yield a candidate for each row and each flavor that the row has a share of and can use.

    A row is a run alone, or a pair of runs. Runs without a share get only GPUs that these
    candidates leave over. The priority and the deficit of a candidate are computed as in
    ``policy.rounds`` for an allocation that begins now. If two rows have the same priority and the
    same deficit on a flavor, the row that is owed more time over all flavors comes first. If this
    time is equal, too, the row that had GPUs for less time comes first.
    """
    rows = sorted(_rows(members, answer), key=lambda row: (-sum(row.owed_ms), row.had_ms))
    idle = held.holders.isdisjoint
    stays_on = ["" if idle(row.names) else held.may_stay_on(row.names) for row in rows]
    staying, waiting, new = Standing.STAYING, Standing.WAITING, Standing.NEW
    round_s = rules.round_s
    for place, flavor in enumerate(floor.flavors):
        for row, kept in zip(rows, stays_on, strict=True):
            names, gpus, shares, parts, runs, owed, had_ms, whole = row
            share = shares[place]
            if share < SHARE_MIN or not runs[place]:
                continue
            owed_s = owed[place] / SECOND_MS
            standing = staying if kept == flavor else waiting if had_ms else new
            # The share of a new row decides whether a run begins alone or in one of its pairs.
            part = share if standing is new else parts[place]
            turn = turn_s(owed_s, part, round_s, standing)
            if whole is None:
                ahead = is_ahead(owed_s, turn, rules)
            else:
                ahead = whole.is_ahead(place, standing, rules)
            if is_for_the_last:
                turn = over_slack(turn, parts if whole is None else whole.parts)
            yield Candidate(names, flavor, gpus, turn, owed_s, share, is_ahead=ahead)


class _Whole(NamedTuple):
    """The shares of a run and the time that it is owed, alone and in pairs together.

    For a pair, both values are the averages of its two runs.
    """

    parts: Sequence[float]
    owed_ms: Sequence[float]

    def is_ahead(self, place: int, standing: Standing, rules: Rules) -> bool:
        """Return whether a run had more than its share of a flavor, alone and in pairs together."""
        owed_s = self.owed_ms[place] / SECOND_MS
        turn = turn_s(owed_s, self.parts[place], rules.round_s, standing)
        return is_ahead(owed_s, turn, rules)


class _Row(NamedTuple):
    """A run alone, or two runs that share GPUs: the shares, the flavors, and the owed time.

    ``parts`` are the shares from which ``owed_ms`` was computed. For a run alone, ``parts`` are the
    run's shares without a partner. For a pair, the shares of each run in all its pairs are added,
    and ``parts`` are the averages of the two sums. ``whole`` is None if the policy's answer has no
    pairs.
    """

    names: Row
    gpus: int
    shares: Sequence[float]
    parts: Sequence[float]
    runs: Sequence[int]
    owed_ms: Sequence[float]
    had_ms: int
    whole: _Whole | None = None


def _rows(members: Sequence[Member], answer: Allocation) -> Iterator[_Row]:
    """Yield the rows of ``answer``; a pair is owed the average of what its two runs are owed.

    Rows are ordered by the time that a run is owed without a partner, or that two runs are owed in
    pairs. But whether a row is ahead of its share depends on all the time of its runs, alone and in
    pairs. So a run that is ahead in total does not get GPUs through one of its other rows before
    runs that are not ahead.
    """
    shares = answer.shares.tolist()
    count = len(members)
    if len(shares) == count:
        for one, part in zip(members, shares, strict=True):
            spec = one.record.spec
            yield _Row((spec.name,), spec.gpus, part, part, one.rates, one.owed_ms, one.had_ms)
        return
    paired = paired_shares(answer, count).tolist()
    wholes = run_shares(answer, count).tolist()
    owed = [_owed_by_part(*each) for each in zip(members, shares[:count], paired, strict=True)]
    first, second = answer.first.tolist(), answer.second.tolist()
    for share, a, b in zip(shares, first, second, strict=True):
        one = members[a]
        spec = one.record.spec
        if b == ALONE:
            whole = _Whole(wholes[a], one.owed_ms)
            owed_ms = owed[a][0]
            yield _Row((spec.name,), spec.gpus, share, share, one.rates, owed_ms, one.had_ms, whole)
            continue
        other = members[b]
        whole = _Whole(_mean(wholes[a], wholes[b]), _mean(one.owed_ms, other.owed_ms))
        runs = [min(pair) for pair in zip(one.rates, other.rates, strict=True)]
        yield _Row(
            names=(spec.name, other.record.spec.name),
            gpus=spec.gpus,
            shares=share,
            parts=_mean(paired[a], paired[b]),
            runs=runs,
            owed_ms=_mean(owed[a][1], owed[b][1]),
            had_ms=one.had_ms + other.had_ms,
            whole=whole,
        )


def _owed_by_part(
    member: Member, alone: Sequence[float], paired: Sequence[float]
) -> tuple[Sequence[int], Sequence[int]]:
    """Return the time that a run is owed alone, and the time that it is owed in pairs, by flavor.

    If a run has a share of a flavor only without a partner, or only in pairs, its time is not
    divided: both results have all the time that the run is owed on the flavor.
    """
    if not any(paired):
        return member.owed_ms, member.owed_ms
    owed_alone, owed_paired = list(member.owed_ms), list(member.owed_ms)
    for place, in_pairs_ms in enumerate(member.owed_paired_ms or (0,) * len(alone)):
        if min(alone[place], paired[place]) >= SHARE_MIN:
            owed_paired[place] = in_pairs_ms
            owed_alone[place] -= in_pairs_ms
    return owed_alone, owed_paired


def _mean(one: Sequence[float], other: Sequence[float]) -> list[float]:
    return [(a + b) / 2 for a, b in zip(one, other, strict=True)]
