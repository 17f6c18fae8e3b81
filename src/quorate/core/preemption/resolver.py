"""The resolver: finds the smallest set of cuts and draws, in a fixed order, that reaches a goal.

Cuts are added in their order until the goal is reached. Then unnecessary cuts are undone, last
first. If all cuts are not enough, draws of the lottery are added until the goal is reached. Then
unnecessary draws are undone, last first, and after them the cuts that the draws made unnecessary.
So the goal needs every cut and draw that remains. If all cuts and draws together are not enough,
nothing is cut.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from quorate.core.preemption.cut_order import Burst, Candidate, Cutter, summed
from quorate.core.preemption.cut_trial import Trial
from quorate.core.preemption.goals import Goal
from quorate.core.preemption.scope_survey import Survey
from quorate.model.events import CutStep
from quorate.model.state.records import RunRecord
from quorate.model.state.state_view import StateView


@dataclass(frozen=True, slots=True)
class Drawn:
    """The result of a sequence of draws, up to the last draw that was needed.

    ``cuts`` are the structural cuts that are needed in addition to ``victims``. ``spared`` are
    the runs that were drawn but turned out not to be needed, or had lost their tokens.
    """

    cuts: tuple[Candidate, ...]
    victims: tuple[Candidate, ...]
    draws: tuple[tuple[str, str], ...]
    spared: frozenset[str]


class Chosen:
    """A list of candidates to cut, and how many GPUs the goal lacks after these cuts."""

    __slots__ = ("_ends", "_goal", "_going", "_room", "_trial", "items")

    def __init__(
        self,
        goal: Goal,
        trial: Trial,
        going: Iterable[str],
        items: Iterable[Candidate] = (),
    ) -> None:
        self._goal = goal
        self._trial = trial
        self._going = tuple(going)
        self._room: dict[str, int] = {}
        self._ends: dict[str, dict[int, int]] = {}
        self.items: list[Candidate] = []
        for item in items:
            self.add(item)

    def add(self, item: Candidate) -> None:
        """Also cut ``item``."""
        self.items.append(item)
        self._count(item, 1)

    def pop(self, place: int = -1) -> Candidate:
        """Undo the cut of the item at index ``place``, and return the item."""
        item = self.items.pop(place)
        self._count(item, -1)
        return item

    def insert(self, place: int, item: Candidate) -> None:
        """Cut ``item`` again, at index ``place`` of the list."""
        self.items.insert(place, item)
        self._count(item, 1)

    def _count(self, item: Candidate, sign: int) -> None:
        room, end_ms = self._room, self._goal.end_ms(self._trial.base, item.leases)
        for domain, gpus in item.room.items():
            room[domain] = room.get(domain, 0) + sign * gpus
            ends = self._ends.setdefault(domain, {})
            ends[end_ms] = ends.get(end_ms, 0) + sign * gpus

    @property
    def is_plain(self) -> bool:
        """Whether a count of GPUs shows how many the goal still lacks."""
        return self._goal.is_plain

    @property
    def gpus(self) -> int:
        """The number of GPUs that come free, in all domains."""
        return sum(self._room.values())

    def lacking(self) -> int:
        """Return the least number of missing GPUs, by counting."""
        return self._goal.lacking(self._goal.room_of(self._ends))

    def short(self) -> int:
        """Return how many GPUs are missing; 0 if and only if the goal is reached."""
        lacking = self.lacking()
        if lacking and self._goal.is_plain:
            return lacking
        return max(lacking, self._goal.missing(self.view))

    def view(self) -> StateView:
        """Return the state without the cut leases and without the leases that are stopping."""
        gone = [name for item in self.items for name in item.leases]
        closed = [name for item in self.items for name in item.pledges]
        return self._trial.without((*self._going, *gone), closed)


class Resolver:
    """The resolver of one conflict, in the present state."""

    def __init__(  # noqa: PLR0913 - what is there, what is wanted, and by whom
        self,
        survey: Survey,
        goal: Goal,
        trial: Trial,
        *,
        now_ms: int,
        reservation: str = "",
        burst: Burst | None = None,
    ) -> None:
        self._survey = survey
        self._goal = goal
        self._trial = trial
        self._now_ms = now_ms
        self._reservation = reservation
        self._burst = burst
        self._cutter = Cutter(survey)
        self.deficit = self._chosen().short()
        """The number of GPUs that are missing before any cut."""
        self.short = self.deficit
        """The number of GPUs that are missing after the cuts."""
        self.cuts: tuple[Candidate, ...] = ()
        self._parts: tuple[Candidate, ...] = ()
        """The same work as ``cuts``, but spares are separate from their bundles."""
        self._enough: frozenset[str] | None = None
        """The runs of the last tokens that were found to be enough together."""
        if self.deficit:
            self._cut()

    def _chosen(self, items: Iterable[Candidate] = ()) -> Chosen:
        return Chosen(self._goal, self._trial, self._survey.going, items)

    # --- Steps 1 to 4 ---

    def _cut(self) -> None:
        chosen = self._chosen()
        self.short = _until_packs(chosen, self._structural())
        if self.short and self._burst is not None:
            bursts = self._cutter.bursts(self._burst, chosen.view)
            self.short = _until_packs(chosen, bursts)
        _give_back(chosen, self.short, self.deficit)
        self._parts = tuple(chosen.items)
        self.cuts = tuple(_joined(self._parts))

    def _structural(self) -> Iterator[Candidate]:
        yield from self._cutter.backfills(self._reservation, self._now_ms)
        yield from self._cutter.spares()
        yield from self._cutter.steps()

    # --- The lottery ---

    def tokens(self, enters: Callable[[RunRecord], bool]) -> list[Candidate]:
        """Return the tokens that remain after the cuts: one for each run whose minimum is in scope.

        ``enters`` returns whether a run may be drawn.
        """
        gone = {name for cut in self.cuts for name in cut.leases}
        return self._cutter.tokens(gone, enters)

    def entrants(
        self, tokens: Sequence[Candidate], gpus_max: int
    ) -> tuple[list[Candidate], int] | None:
        """Return the tokens that enter the lottery, and the bound on their size.

        Tokens of up to ``gpus_max`` GPUs enter. If these do not suffice, the bound is the smallest
        size at which the tokens suffice. Return None if all tokens together do not suffice.
        """
        small = [token for token in tokens if token.gpus <= gpus_max]
        if self.suffices(small):
            return small, gpus_max
        sizes = sorted({token.gpus for token in tokens if token.gpus > gpus_max})
        low, high = 0, len(sizes)
        while low < high:
            middle = (low + high) // 2
            if self.suffices([token for token in tokens if token.gpus <= sizes[middle]]):
                high = middle
            else:
                low = middle + 1
        if low == len(sizes):
            return None
        return [token for token in tokens if token.gpus <= sizes[low]], sizes[low]

    def suffices(self, tokens: Sequence[Candidate]) -> bool:
        """Return whether the goal is reached if all of ``tokens`` end in addition to the cuts.

        If counting alone does not decide the goal, all tokens are tried together. A part of the
        tokens would prove nothing, because with more room the search may try other GPUs and fail.
        """
        room = summed(candidate.room for candidate in (*self.cuts, *tokens))
        if self._goal.lacking(room):
            return False
        if self._goal.is_plain:
            # Usually the count is right, and a part of the tokens is enough. Trying only this part
            # is quicker than trying all tokens.
            some = self._chosen(self.cuts)
            largest = sorted(tokens, key=lambda token: sum(token.room.values()), reverse=True)
            _until_nothing_lacks(some, iter(largest))
            if some.short() == 0:
                self._enough = _drawn_in(some.items)
                return True
        if self.short_without(tokens):
            return False
        self._enough = _drawn_in(tokens)
        return True

    def view_without(self, tokens: Sequence[Candidate]) -> StateView:
        """Return the state after the ends of the cuts and of all ``tokens``."""
        return self._chosen((*self.cuts, *tokens)).view()

    def short_without(
        self, tokens: Sequence[Candidate], cuts: Sequence[Candidate] | None = None
    ) -> int:
        """Return how many GPUs are missing after ``tokens`` and ``cuts`` end.

        If ``cuts`` is None, the cuts of the resolver are used.
        """
        return self._chosen((*(self.cuts if cuts is None else cuts), *tokens)).short()

    def draw(self, tokens: Iterable[Candidate], draws: Iterable[tuple[str, str]]) -> Drawn | None:
        """Return the result of ``draws``, which is a sequence of (owner, run).

        Return None if all draws together are not enough. A drawn run that no longer has a token is
        skipped. No run is drawn if the cuts are enough after all: the bounded search for a start
        may find now what it did not find while the cuts were chosen.
        """
        by_run = {token.run: token for token in tokens}
        drawn: list[tuple[str, str]] = []

        def in_order() -> Iterator[Candidate]:
            for owner, run in draws:
                drawn.append((owner, run))
                if run in by_run:
                    yield by_run[run]

        chosen = self._chosen(self._parts)
        if _until_packs(chosen, in_order()) and not self._are_enough(chosen.items):
            return None
        ended = [item.run for item in chosen.items if item.step is CutStep.LOTTERY]
        _give_back(chosen, 0, self.deficit)
        victims = tuple(item for item in chosen.items if item.step is CutStep.LOTTERY)
        cuts = tuple(_joined([item for item in chosen.items if item.step is not CutStep.LOTTERY]))
        shown = drawn[: 1 + [run for _, run in drawn].index(ended[-1])] if ended else []
        spared = {run for _, run in shown} - {victim.run for victim in victims}
        return Drawn(cuts, victims, tuple(shown), frozenset(spared))

    def _are_enough(self, cuts: Iterable[Candidate]) -> bool:
        """Return whether ``cuts`` have all tokens that were found to be enough before.

        All tries of a goal share the steps of the long search. So a later try may fail although an
        earlier try with the same tokens, or with some of them, succeeded.
        """
        return self._enough is not None and self._enough <= _drawn_in(cuts)


def _drawn_in(cuts: Iterable[Candidate]) -> frozenset[str]:
    """Return the runs in ``cuts`` that are cut by a draw of the lottery."""
    return frozenset(cut.run for cut in cuts if cut.step is CutStep.LOTTERY)


def _until_nothing_lacks(chosen: Chosen, candidates: Iterator[Candidate]) -> bool:
    """Cut ``candidates`` until counting finds no missing GPUs; return False if they run out."""
    lacking = chosen.lacking()
    since = 0
    while lacking:
        candidate = next(candidates, None)
        if candidate is None:
            return False
        chosen.add(candidate)
        since += sum(candidate.room.values())
        # The goal cannot be reached until all missing GPUs have come free in scope.
        if since >= lacking or candidate.is_beyond:
            lacking, since = chosen.lacking(), 0
    return True


def _until_packs(chosen: Chosen, candidates: Iterator[Candidate]) -> int:
    """Cut ``candidates`` in order until the goal is reached; return the number of missing GPUs.

    A goal that is reached stays reached with more room, so the least number of cuts that is enough
    is found by bisection.
    """
    if not _until_nothing_lacks(chosen, candidates):
        return chosen.lacking()
    if chosen.short() == 0:
        return 0
    enough = len(chosen.items)
    step = 1
    while True:
        low, before = enough, step
        for candidate in candidates:
            chosen.add(candidate)
            before -= 1
            if not before:
                break
        enough = len(chosen.items)
        if enough == low:
            return chosen.short()
        if chosen.short() == 0:
            break
        step *= 2
    _shorten(chosen, low, enough)
    return 0


def _shorten(chosen: Chosen, low: int, enough: int) -> None:
    """Undo cuts from the end of the list, as long as the goal is still reached.

    The first ``enough`` cuts reach the goal, and the first ``low`` cuts do not reach it.
    """
    items = list(chosen.items)
    while enough - low > 1:
        middle = (low + enough) // 2
        _cut_to(chosen, items, middle)
        if chosen.short() == 0:
            enough = middle
        else:
            low = middle
    _cut_to(chosen, items, enough)


def _cut_to(chosen: Chosen, items: Sequence[Candidate], count: int) -> None:
    while len(chosen.items) > count:
        chosen.pop()
    for item in items[len(chosen.items) : count]:
        chosen.add(item)


def _give_back(chosen: Chosen, short: int, deficit: int) -> None:
    """Undo every unnecessary cut, last first: afterwards at most ``short`` GPUs are missing.

    ``deficit`` GPUs were missing before all cuts. A cut is necessary if fewer than
    ``deficit - short`` GPUs come free without it. The spares of a cut bundle stay cut, because they
    are useless without the bundle. Other cuts of a run that ends as a whole stay, too.
    """
    if chosen.is_plain:
        items = list(chosen.items)
        _give_back_by(chosen, Chosen.lacking, short, deficit)
        if short or chosen.short() == 0:
            # If the goal is reached with the remaining cuts, it was also reached at each step
            # before, with more cuts. So the single steps need no checks.
            return
        _cut_to(chosen, items, 0)
        _cut_to(chosen, items, len(items))
    _give_back_by(chosen, Chosen.short, short, deficit)


def _give_back_by(chosen: Chosen, judge: Callable[[Chosen], int], short: int, deficit: int) -> None:
    """Undo each unnecessary cut: without it, ``judge`` still finds at most ``short`` missing GPUs.

    The cuts are tried from the last to the first.
    """
    # A GPU that comes free outside the scope may lower the number of missing GPUs by more than one.
    is_counted = chosen.is_plain and not any(item.is_beyond for item in chosen.items)
    cut: set[tuple[str, int]] = set()
    for place in range(len(chosen.items) - 1, -1, -1):
        if is_counted and chosen.gpus == deficit - short:
            return
        item = chosen.items[place]
        if (item.run, 0) in cut or (item.step is CutStep.SPARE and (item.run, item.bundle) in cut):
            continue
        least = deficit - short + sum(item.room.values())
        if not (is_counted and chosen.gpus < least):
            chosen.pop(place)
            if judge(chosen) <= short:
                continue
            chosen.insert(place, item)
        if item.step is not CutStep.SPARE:
            cut.add((item.run, item.bundle))


def _joined(items: Sequence[Candidate]) -> Iterator[Candidate]:
    """Yield ``items``, with the spares of each cut bundle joined to the bundle.

    If a step was cut separately from the rest of its run, its spares are joined to the step.
    """
    bundles = {(item.run, item.bundle) for item in items if item.step is not CutStep.SPARE}
    spares: dict[str, list[Candidate]] = {}
    for item in items:
        if item.step is CutStep.SPARE:
            spares.setdefault(item.run, []).append(item)
    for item in items:
        if item.step is not CutStep.SPARE:
            own = [
                spare
                for spare in spares.get(item.run, ())
                if item.bundle == spare.bundle
                or (item.bundle == 0 and (item.run, spare.bundle) not in bundles)
            ]
            yield _with(item, own) if own else item
        elif not {(item.run, item.bundle), (item.run, 0)} & bundles:
            yield item


def _with(item: Candidate, spares: Sequence[Candidate]) -> Candidate:
    room = dict(item.room)
    for spare in spares:
        for domain, gpus in spare.room.items():
            room[domain] = room.get(domain, 0) + gpus
    return Candidate(
        item.step,
        item.run,
        item.bundle,
        item.gpus + sum(spare.gpus for spare in spares),
        item.leases + tuple(name for spare in spares for name in spare.leases),
        room,
        item.pledges + tuple(name for spare in spares for name in spare.pledges),
        item.is_beyond or any(spare.is_beyond for spare in spares),
    )
