"""Packers of whole GPUs: each rule compared with a scan of all nodes, the engine with best fit."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.node_packing import (
    Piece,
    RulePacker,
    best_fit,
    first_fit,
    fragments,
    fragments_in,
    least_gradient,
    parts_of,
)
from benchmarks.packing_play import EnginePacker, come_and_go, drawn, fill
from quorate.sim.traces.trace_job import TraceJob
from tests.oracles.effort import examples

_free = st.lists(st.integers(0, 8), min_size=1, max_size=8)
_sizes = st.lists(st.integers(1, 8), min_size=1, max_size=6)
_gpus = st.integers(1, 8)


def _rooms(free: Sequence[int], gpus: int) -> list[int]:
    return [number for number, left in enumerate(free) if left >= gpus]


@given(free=_free, gpus=_gpus)
def test_first_fit_takes_the_first_node_with_room(free: list[int], gpus: int) -> None:
    assert first_fit(free, gpus) == next(iter(_rooms(free, gpus)), None)


@given(free=_free, gpus=_gpus)
def test_best_fit_takes_the_first_of_the_fullest_nodes_with_room(
    free: list[int], gpus: int
) -> None:
    expected = min(_rooms(free, gpus), key=lambda number: (free[number], number), default=None)
    assert best_fit(free, gpus) == expected


@given(free=_free, gpus=_gpus, wanted=st.lists(_gpus, min_size=1, max_size=5))
def test_gradient_takes_a_node_after_which_fragments_are_fewest(
    free: list[int], gpus: int, wanted: list[int]
) -> None:
    parts = parts_of([Piece(str(number), each) for number, each in enumerate(wanted)])
    chosen = least_gradient(parts)(free, gpus)
    left = [
        fragments_in([*free[:at], free[at] - gpus, *free[at + 1 :]], parts)
        for at in _rooms(free, gpus)
    ]
    if chosen is None:
        assert left == []
        return
    assert left[_rooms(free, gpus).index(chosen)] == pytest.approx(min(left))


@given(free=st.integers(0, 8), wanted=st.lists(_gpus, min_size=1, max_size=6))
def test_fragments_are_the_mean_of_what_pieces_cannot_use(free: int, wanted: list[int]) -> None:
    parts = parts_of([Piece(str(number), each) for number, each in enumerate(wanted)])
    of_no_use = [free if each > free else 0 for each in wanted]
    assert fragments(free, parts) == pytest.approx(sum(of_no_use) / len(wanted))


@pytest.mark.heavy
@examples(1)
@given(sizes=_sizes, steps=st.lists(st.tuples(st.booleans(), _gpus), max_size=24))
def test_engine_packs_single_nodes_as_best_fit_does(
    sizes: list[int], steps: list[tuple[bool, int]]
) -> None:
    engine, rule = EnginePacker(sizes), RulePacker(sizes, best_fit)
    there: list[Piece] = []
    for number, (comes, gpus) in enumerate(steps):
        if comes or not there:
            piece = Piece(f"piece-{number}", gpus)
            is_placed = rule.place(piece)
            assert engine.place(piece) == is_placed
            there += [piece] * is_placed
        else:
            piece = there.pop(gpus % len(there))
            engine.remove(piece)
            rule.remove(piece)
        assert list(engine.free()) == list(rule.free())


def test_fill_counts_what_is_placed_and_refused() -> None:
    pieces = [Piece("a", 3), Piece("b", 4), Piece("c", 2), Piece("d", 1)]
    packed = fill(RulePacker([4, 4], first_fit), pieces, {1: 0.5, 4: 0.5}, (50, 100))
    assert (packed.placed, packed.gpus_placed, packed.refused) == (3, 8, 1)
    assert packed.first_refusal_gpus == 7
    # After requests for 7 of 8 GPUs, one GPU is free, which half of the pieces cannot use.
    assert packed.fragments_at == {50: 0.5, 100: 0.5}


def test_work_that_comes_and_goes_weighs_fragments_by_time() -> None:
    jobs = [
        TraceJob(name="a", arrives_s=0.0, gpus=3, owner="o", duration_s=10.0),
        TraceJob(name="b", arrives_s=20.0, gpus=4, owner="o", duration_s=10.0),
    ]
    packed = come_and_go(RulePacker([4], best_fit), jobs, {4: 1.0})
    assert (packed.placed, packed.refused) == (2, 0)
    assert packed.fragments_mean == pytest.approx(0.5)


def test_drawn_pieces_have_names_of_their_own_and_ask_for_enough() -> None:
    found = drawn([Piece("a", 2), Piece("b", 5)], 40)
    assert len({piece.name for piece in found}) == len(found)
    assert 40 <= sum(piece.gpus for piece in found) < 45
