"""The time that runs are owed alone and in pairs, in random rounds: it adds up, and is bounded."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.core.audit.history_audit import audit
from quorate.core.audit.invariants import sweep
from quorate.core.commands import Apply, Cancel, Command, ShareOut
from quorate.core.decide import decide
from quorate.ledger.fold import fold
from quorate.ledger.snapshot import restore, take
from quorate.model.amounts import PPM
from quorate.model.events import Event, RoundGrant, RoundShare
from quorate.model.state.apply_event import apply_all
from quorate.model.state.entitlements import (
    AHEAD_ROUNDS_MAX,
    entitlements_ms,
    paired_entitlements_ms,
)
from quorate.model.state.state import State
from quorate.sim.demand import START_MS
from quorate.testing.states import same
from tests.oracles.effort import examples
from tests.oracles.rounds import FLAVORS, POOL, ROUND_MS, run, team, world

NAMES = ("one", "two", "three")


class _Play:
    """Rounds of three runs of one owner on one GPU of each flavor, without an executor."""

    def __init__(self) -> None:
        self.state = State()
        self.events: list[Event] = []
        self.now_ms = START_MS
        runs = [run(name, "ant") for name in NAMES]
        self.does(Apply((*world(team("ant"), per_flavor=1, gpus=1), *runs)))

    def does(self, command: Command) -> None:
        decision = decide(self.state, command, now_ms=self.now_ms, actor="test")
        assert not decision.refusals, decision.refusals
        apply_all(self.state, decision.events)
        self.events += decision.events

    def total_ms(self) -> dict[str, dict[str, tuple[int, int]]]:
        """Return the time that each run was due and had, by flavor."""
        found = entitlements_ms(self.state, POOL, self.now_ms)
        return {
            name: {flavor: (due.get(flavor, 0), had.get(flavor, 0)) for flavor in FLAVORS}
            for name, (due, had) in found.items()
        }


@st.composite
def _shares(draw: st.DrawFn, name: str) -> RoundShare:
    parts = st.sampled_from([0, 0, 1, PPM // 5, PPM // 2])
    alone, paired = ([draw(parts) for _ in FLAVORS] for _ in range(2))
    total = [a + b for a, b in zip(alone, paired, strict=True)]
    return RoundShare(name, tuple(total), (), 0, tuple(paired) if any(paired) else ())


@st.composite
def _grants(draw: st.DrawFn, here: list[str]) -> tuple[RoundGrant, ...]:
    """Return grants of one GPU of each flavor: to a run, to two runs, or to none."""
    left, found = sorted(draw(st.permutations(here))), []
    for flavor in draw(st.permutations(FLAVORS)):
        rows: list[tuple[str, str | None]] = [(name, None) for name in left]
        rows += [(a, b) for a in left for b in left if a < b]
        row = draw(st.sampled_from([None, *rows]))
        if row is not None:
            found.append(RoundGrant(row[0], flavor, partner=row[1]))
            left = [name for name in left if name not in row]
    return tuple(found)


def _check_parts(play: _Play, shares: dict[str, RoundShare]) -> None:
    """Check the parts of each run at the end of a round with ``shares``."""
    total = play.total_ms()
    for name, (due, had) in paired_entitlements_ms(play.state, POOL, play.now_ms).items():
        share = shares[name]
        paired_ppms = share.paired_ppm or (0,) * len(FLAVORS)
        for flavor, ppm, paired_ppm in zip(FLAVORS, share.shares_ppm, paired_ppms, strict=True):
            due_ms, had_ms = total[name][flavor]
            owed_ms = due_ms - had_ms
            paired_ms = due.get(flavor, 0) - had.get(flavor, 0)
            alone_ms = owed_ms - paired_ms
            assert 0 <= had.get(flavor, 0) <= had_ms
            if ppm and not paired_ppm:
                assert paired_ms == 0
            elif ppm and ppm == paired_ppm:
                assert alone_ms == 0
            ahead_ms = AHEAD_ROUNDS_MAX * ROUND_MS
            assert max(paired_ms, alone_ms) <= max(owed_ms, 0) + ahead_ms


@pytest.mark.heavy
@examples(0.5)
@given(data=st.data())
def test_parts_add_up_and_neither_is_owed_more_than_the_total_and_a_round(
    data: st.DataObject,
) -> None:
    play, whole = _Play(), _Play()
    here = list(NAMES)
    for number in range(1, data.draw(st.integers(2, 8)) + 1):
        shares = {name: data.draw(_shares(name)) for name in here}
        grants = data.draw(_grants(here))
        for each, parts in ((play, True), (whole, False)):
            given_ = tuple(
                share if parts else RoundShare(share.run, share.shares_ppm, (), 0)
                for share in shares.values()
            )
            gpus = (1,) * len(FLAVORS)
            each.does(
                ShareOut(
                    pool=POOL,
                    number=number,
                    policy="by hand",
                    flavors=FLAVORS,
                    gpus=gpus,
                    shares=given_,
                    grants=grants,
                )
            )
        late_ms = data.draw(st.sampled_from([0, 0, 1, ROUND_MS]))
        play.now_ms = whole.now_ms = play.now_ms + ROUND_MS + late_ms
        # What is owed in total does not depend on its parts.
        assert play.total_ms() == whole.total_ms()
        _check_parts(play, shares)
        if len(here) > 1 and data.draw(st.integers(0, 5)) == 0:
            over = here.pop()
            for each in (play, whole):
                each.does(Cancel(over))
    assert sweep(play.state) == []
    assert audit(play.events, view=play.state) == []
    assert same(fold(play.events), play.state) == []
    restored = restore(take(play.state))
    assert restored is not None
    assert same(restored, play.state) == []
