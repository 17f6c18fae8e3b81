"""Playing the lottery: every way for an owner to arrange its work, in every small world.

There is no sampling: each world is resolved for every order in which owners and tokens can be
drawn, all equally likely. Two amounts of the player are compared: the odds that any of its work is
drawn or cut, and the expected number of its GPUs at stake, the missing GPUs when its turn comes.
Losses beyond that are reported, too: a small bundle wastes less than a large one.

``docs/reference/lottery-attacks.md`` has the table that these tests check.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import permutations, product
from pathlib import Path

import pytest

from quorate.core.commands import Cancel, Command, Complete, Draw, Resolve, Submit
from quorate.core.decide import decide
from quorate.core.preemption.conflict_scope import Prepared, Question, for_reservation, prepare
from quorate.core.preemption.conflicts import asked_again
from quorate.core.preemption.lottery import draw, seed_of, seed_parts, tokens_by_owner
from quorate.model.amounts import HOUR_MS, MINUTE_MS
from quorate.model.events import ConflictCause, ConflictDeclared, Scope, Token
from quorate.model.specs import Follow, Malleable, Pool, Run
from quorate.model.state.apply_event import apply_all
from quorate.model.state.state import State
from quorate.testing.builders import NOW_MS, run
from tests.oracles.effort import few_of
from tests.oracles.resolving import BEGAN_MS, RESERVED, WANTED, begin, link, reserve, start

pytestmark = pytest.mark.slow

PAGE = Path("docs/reference/lottery-attacks.md")
PLAYER = "ada"
COLLATERAL = (1, 2, 4)
LONG_MS = 1_000 * HOUR_MS

Shape = tuple[tuple[int, int, int], ...]
"""(minimum, steps, GPUs in a step) of each run of an owner."""


def fixed(*sizes: int) -> Shape:
    """Return fixed runs of ``sizes``."""
    return tuple((size, 0, 1) for size in sizes)


@dataclass(frozen=True)
class World:
    """The runs of the player and of the others, and the number of missing GPUs."""

    mine: Shape
    others: tuple[tuple[int, ...], ...]
    short: int
    collateral: int = 4
    names: str = "m"
    expected_ms: int = LONG_MS


@dataclass(frozen=True)
class Fate:
    """The result for the player, exactly, over all draws.

    ``beyond``: it has tokens larger than the bound, maxCollateral times the missing GPUs.
    """

    odds: Fraction
    put_up: Fraction
    lost: Fraction
    beyond: bool


def played(world: World) -> State:
    """Return the fleet of ``world``, in which every GPU is in use."""
    runs = [
        _spec(f"{world.names}{number}", PLAYER, shape, world.expected_ms)
        for number, shape in enumerate(world.mine)
    ]
    for number, sizes in enumerate(world.others):
        owner = ("ben", "cy")[number]
        runs += [
            _spec(f"{owner}{place}", owner, (size, 0, 1), LONG_MS)
            for place, size in enumerate(sizes)
        ]
    total = sum(spec.gpus for spec in runs)
    pool = Pool(name="default", collateral_max=world.collateral)
    state = begin({"A": total}, pool, gpus=total)
    for spec in runs:
        assert start(state, spec, NOW_MS), spec
    return state


def _spec(name: str, owner: str, shape: tuple[int, int, int], expected_ms: int) -> Run:
    least, steps, step = shape
    most = least + steps * step
    elastic = Malleable(gpus_min=least, gpus_max=most, gpus_step=step, gpus_desired=most)
    return run(
        name,
        most,
        owner,
        malleable=elastic if steps else None,
        expected_duration_ms=expected_ms,
        nonce=name,
    )


def orders(held: Mapping[str, Sequence[str]]) -> Iterator[list[tuple[str, str]]]:
    """Yield every order in which owners, and each owner's tokens, can be drawn."""
    ways = {owner: list(permutations(runs)) for owner, runs in held.items()}
    for owners in permutations(held):
        for chosen in product(*(ways[owner] for owner in owners)):
            yield [
                (owner, name) for owner, runs in zip(owners, chosen, strict=True) for name in runs
            ]


@cache
def fate(world: World) -> Fate | None:
    """Return the result for the player; None if all permitted cuts are not enough."""
    state = played(world)
    question = Question(ConflictCause.BY_HAND, Scope("default", "H100", ()), gpus=world.short)
    return fate_in(state, question)


def fate_in(state: State, question: Question) -> Fate | None:
    """Return the result for the player when ``question`` is settled in ``state``."""
    resolver = question.resolver(state, BEGAN_MS)
    assert resolver is not None
    prepared = prepare(state, question, resolver, BEGAN_MS)
    if isinstance(prepared, int):
        return None
    mine = {name for name, record in state.runs.items() if record.spec.owner == PLAYER}
    mine -= {WANTED}
    cut = sum(item.gpus for item in resolver.cuts if item.run in mine)
    if not resolver.short:
        return Fate(Fraction(bool(cut)), Fraction(cut), Fraction(cut), beyond=False)
    bound = state.pools["default"].collateral_max * resolver.short
    tokens = resolver.tokens(question.enters(state, BEGAN_MS))
    beyond = any(token.gpus > bound for token in tokens if token.run in mine)
    odds = put_up = lost = 0
    count = 0
    for order in orders(_held(prepared)):
        count += 1
        drawn = resolver.draw(prepared.tokens, order)
        assert drawn is not None
        sizes = {token.run: token.gpus for token in prepared.tokens}
        before, here = 0, 0
        for _, name in drawn.draws:
            if name in mine:
                here += sizes[name]
            elif not here:
                before += sizes[name]
        odds += bool(cut or here)
        put_up += cut + min(here, max(0, resolver.short - before))
        lost += cut + sum(victim.gpus for victim in drawn.victims if victim.run in mine)
    return Fate(
        Fraction(odds, count),
        Fraction(put_up, count),
        Fraction(lost, count),
        beyond=beyond,
    )


def _held(prepared: Prepared) -> dict[str, list[str]]:
    held: dict[str, list[str]] = {}
    for token in prepared.tokens:
        held.setdefault(prepared.owners[token.run], []).append(token.run)
    return held


def partitions(total: int, most: int = 3) -> Iterator[tuple[int, ...]]:
    """Yield every way to run ``total`` GPUs as up to ``most`` fixed runs."""
    for count in range(1, most + 1):
        for sizes in product(range(1, total + 1), repeat=count):
            if sum(sizes) == total and list(sizes) == sorted(sizes, reverse=True):
                yield sizes


OTHERS: tuple[tuple[tuple[int, ...], ...], ...] = (
    ((2,),),
    ((4,),),
    ((3, 1),),
    ((1,), (4,)),
    ((2, 2), (3,)),
    ((6,), (1, 1)),
)


@dataclass
class Gain:
    """The largest gain of an attack against the world without it; losses are negative.

    If the attack ends with tokens beyond the bound, its gain counts as ``odds_beyond`` instead.
    """

    odds: Fraction = Fraction(-1)
    put_up: Fraction = Fraction(-100)
    lost: Fraction = Fraction(-100)
    worlds: int = 0
    odds_beyond: Fraction = Fraction(-1)
    worlds_beyond: int = 0

    def note(self, before: Fate | None, after: Fate | None) -> None:
        """Compare two results of the player in worlds that differ in what it does."""
        if before is None or after is None:
            return
        if after.beyond:
            self.worlds_beyond += 1
            self.odds_beyond = max(self.odds_beyond, before.odds - after.odds)
            return
        self.worlds += 1
        self.odds = max(self.odds, before.odds - after.odds)
        self.put_up = max(self.put_up, before.put_up - after.put_up)
        self.lost = max(self.lost, before.lost - after.lost)


def _worlds(totals: Sequence[int] = (2, 4, 5)) -> Iterator[World]:
    for total, others, short, collateral in product(totals, OTHERS, (1, 2, 4), COLLATERAL):
        for sizes in partitions(total):
            yield World(fixed(*sizes), others, short, collateral)


def _replaced(world: World, mine: Shape, **more: object) -> World:
    fields = {
        "mine": mine,
        "others": world.others,
        "short": world.short,
        "collateral": world.collateral,
    }
    return World(**{**fields, **more})  # type: ignore[arg-type]


def _finer(sizes: Sequence[int], than: Sequence[int]) -> bool:
    return len(sizes) > len(than)


def _arranged(*, finer: bool) -> Gain:
    gain = Gain()
    for world in _worlds():
        mine = [least for least, _, _ in world.mine]
        for sizes in partitions(sum(mine)):
            if len(sizes) != len(mine) and _finer(sizes, mine) is finer:
                gain.note(fate(world), fate(_replaced(world, fixed(*sizes))))
    return gain


def splitting() -> Gain:
    """Return the gain of running the same GPUs as more runs."""
    return _arranged(finer=True)


def merging() -> Gain:
    """Return the gain of running the same GPUs as fewer runs."""
    return _arranged(finer=False)


def decoys() -> Gain:
    """Return the gain of additional runs."""
    gain = Gain()
    for world in _worlds((2, 4)):
        for size in (1, 2):
            if len(world.mine) < 3:
                gain.note(fate(world), fate(_replaced(world, (*world.mine, (size, 0, 1)))))
    return gain


def renaming() -> Gain:
    """Return the gain of names that sort first or last."""
    gain = Gain()
    for world in _worlds((4,)):
        for names in ("a", "z"):
            gain.note(fate(world), fate(_replaced(world, world.mine, names=names)))
    return gain


def understating() -> Gain:
    """Return the gain of a short declared duration for a run that takes longer."""
    gain = Gain()
    for world in _worlds((4,)):
        told = _replaced(world, world.mine, expected_ms=15 * MINUTE_MS)
        gain.note(fate(world), fate(told))
    return gain


def bounding() -> Gain:
    """Return the gain of declaring a run malleable, with any minimum and steps."""
    gain = Gain()
    for world in _worlds((4, 5)):
        first, *rest = world.mine
        size = first[0]
        for least in range(1, size):
            for step in range(1, size - least + 1):
                if (size - least) % step == 0:
                    shape = (least, (size - least) // step, step)
                    gain.note(fate(world), fate(_replaced(world, (shape, *rest))))
    return gain


def resubmitting() -> Gain:
    """Return the gain of restarting runs after a firm start or a conflict by hand is recorded."""
    gain = Gain()
    for sizes, short in product(((4,), (2, 2), (3, 1)), (1, 2, 4)):
        gain.note(_promised(sizes, short, began_ms=0), _promised(sizes, short, began_ms=MINUTE_MS))
        for dodging in range(1, len(sizes) + 1):
            gain.note(_by_hand(sizes, short), _by_hand(sizes, short, dodging=dodging))
    return gain


def _by_hand(sizes: Sequence[int], short: int, *, dodging: int = 0) -> Fate | None:
    """Return the result for runs of which the first few are restarted under other names.

    They are restarted after a conflict by hand was declared; the last declaration counts.
    """
    state = begin({"A": sum(sizes) + 6}, Pool(name="default"), gpus=sum(sizes) + 6)
    for name, (owner, size) in {"ben0": ("ben", 4), "cy0": ("cy", 2)}.items():
        assert start(state, _spec(name, owner, (size, 0, 1), LONG_MS), NOW_MS)
    _start_all(state, {f"m{n}": size for n, size in enumerate(sizes)}, NOW_MS, LONG_MS)
    declared_ms = BEGAN_MS - 15 * MINUTE_MS
    _do(state, Resolve("default", "H100", (), short), declared_ms)
    for number, size in enumerate(sizes[:dodging]):
        _do(state, Cancel(f"m{number}"), declared_ms + MINUTE_MS)
        _start_all(state, {f"again{number}": size}, declared_ms + MINUTE_MS, LONG_MS)
    if dodging:
        _do(state, Draw("1", link(1)), BEGAN_MS)
    declared = state.conflicts["2" if dodging else "1"].declared
    assert declared.due_ms == BEGAN_MS
    return fate_in(state, asked_again(state, declared))


def _do(state: State, command: Command, at_ms: int) -> None:
    decision = decide(state, command, now_ms=at_ms, actor="test")
    assert decision.refusals == (), decision.refusals
    apply_all(state, decision.events)


def _promised(sizes: Sequence[int], short: int, *, began_ms: int) -> Fate | None:
    """Return the result for runs that began this long after a firm start; 0: long before it."""
    world = World(fixed(*sizes), ((4,), (2,)), short)
    made_ms = BEGAN_MS - 15 * MINUTE_MS
    mine = {f"m{number}": size for number, size in enumerate(sizes)}
    state = begin({"A": sum(sizes) + 6}, Pool(name="default"), gpus=sum(sizes) + 6)
    wanted = run(WANTED, short, "wanting", expected_duration_ms=HOUR_MS)
    for name, (owner, size) in {"ben0": ("ben", 4), "cy0": ("cy", 2)}.items():
        assert start(state, _spec(name, owner, (size, 0, 1), LONG_MS), NOW_MS)
    at_ms = made_ms + began_ms if began_ms else NOW_MS
    _start_all(state, mine, at_ms, LONG_MS)
    # The firm start is recorded last and dated back, so that it gets none of their room.
    _tick(state, made_ms)
    reserve(state, wanted, ["r/c/A"])
    _tick(state, max(made_ms, at_ms))
    assert world.short == short
    return fate_in(state, for_reservation(state, RESERVED))


def _start_all(state: State, mine: Mapping[str, int], at_ms: int, expected_ms: int) -> None:
    for name, size in mine.items():
        assert start(state, _spec(name, PLAYER, (size, 0, 1), expected_ms), at_ms), name


def _tick(state: State, at_ms: int) -> None:
    state.at_ms = at_ms


ATTACKS = {
    "splitting": splitting,
    "merging": merging,
    "resubmitting": resubmitting,
    # These take longest, and run in a soak only.
    "decoys": decoys,
    "renaming": renaming,
    "understating expectedDuration": understating,
    "malleable bounds": bounding,
}


@cache
def gain_of(name: str) -> Gain:
    return ATTACKS[name]()


@pytest.mark.parametrize("name", few_of(ATTACKS, 3))
def test_no_way_to_arrange_ones_work_lowers_the_odds_or_what_is_put_up(name: str) -> None:
    gain = gain_of(name)
    assert gain.worlds > 0
    assert gain.odds <= 0
    assert gain.put_up <= 0


@pytest.mark.soak
def test_only_what_is_beyond_the_bound_can_stay_out() -> None:
    gains = {name: gain_of(name).odds_beyond for name in ATTACKS}
    assert [name for name, gain in gains.items() if gain > 0] == ["merging"]


@pytest.mark.parametrize("name", few_of(ATTACKS, 3))
def test_the_page_tells_the_worst_gain_of_each(name: str) -> None:
    gain = gain_of(name)
    row = re.search(rf"^\| {re.escape(name)} \|(.*)\|$", PAGE.read_text(), re.MULTILINE)
    assert row is not None, f"no row for {name}"
    assert [cell.strip() for cell in row[1].split("|")[1:]] == [
        str(gain.worlds),
        _told(gain.odds),
        _told(gain.put_up),
        _told(gain.lost),
        f"{gain.worlds_beyond}: {_told(gain.odds_beyond)}",
    ]


def _told(gain: Fraction) -> str:
    """Return a gain to two decimals; a gain of 0 or less is ``none``."""
    return "none" if gain <= 0 else f"{float(gain):.2f}"


def test_a_chain_of_short_runs_gives_up_its_room_when_a_stage_ends() -> None:
    state = begin({"A": 8})
    hour = {"expected_duration_ms": HOUR_MS - MINUTE_MS}
    first = run("stage1", 8, PLAYER, **hour)
    assert start(state, first, NOW_MS)
    follower = run("stage2", 8, PLAYER, follow=Follow(after=("stage1",)), **hour)
    for command in (Submit(follower), Submit(run("waiting", 8, "ben", **hour))):
        apply_all(state, decide(state, command, now_ms=NOW_MS, actor="test").events)
    ended = NOW_MS + 58 * MINUTE_MS
    apply_all(state, decide(state, Complete("stage1"), now_ms=ended, actor="test").events)
    assert state.runs["waiting"].leases
    assert not state.runs["stage2"].leases


def test_a_stage_that_began_after_the_promise_enters_like_anything_else() -> None:
    before = _promised((4,), 2, began_ms=0)
    after = _promised((4,), 2, began_ms=5 * MINUTE_MS)
    assert before is not None
    assert after is not None
    assert (after.odds, after.put_up) == (before.odds, before.put_up)


def test_no_nonce_is_better_than_another() -> None:
    """First draws under 4,000 links each: a nonce changes which links hit, never how many."""
    hits = []
    for nonce in ("", "0", "lucky", "7" * 64, "\N{SNOWMAN}"):
        declared = _declared(nonce)
        hit = 0
        for number in range(4_000):
            preimage = number.to_bytes(32, "big")
            seed = seed_of(seed_parts(declared, preimage))
            owner, _ = next(draw(seed, tokens_by_owner(declared)))
            hit += owner == PLAYER
        hits.append(hit)
    # A third of 4,000, plus or minus four standard deviations.
    assert all(abs(hit - 4_000 / 3) < 4 * (4_000 * 2 / 9) ** 0.5 for hit in hits), hits


def _declared(nonce: str) -> ConflictDeclared:
    return ConflictDeclared(
        at_ms=NOW_MS,
        actor="test",
        conflict="1",
        cause=ConflictCause.BY_HAND,
        scope=Scope("default", "H100", ()),
        reservation="",
        deficit=4,
        short=4,
        size_max=16,
        due_ms=NOW_MS,
        attempt=1,
        preimage_index=1,
        commitment="",
        tokens=(
            Token(PLAYER, "mine", 4, nonce),
            Token("ben", "b", 4, "b"),
            Token("cy", "c", 4, "c"),
        ),
    )
