"""Conflicts over limits that pay for bound runs and for runs that share in rounds."""

from __future__ import annotations

from msgspec.structs import replace

from quorate.core.commands import Apply, Decision, Draw, Resolve, ShareOut, Submit
from quorate.model.amounts import MINUTE_MS
from quorate.model.events import ConflictDeclared, LeaseStarted, RoundGrant
from quorate.model.specs import Budget, Cap, Discipline, OnQuota, Owner, Pool, RoundsWork
from quorate.model.state.apply_event import apply_all
from quorate.testing.builders import NOW_MS, budget, envelope, fleet
from tests.oracles.lives import Life
from tests.oracles.plans import of
from tests.oracles.resolving import committed, link

ROUND_MS = 6 * MINUTE_MS  # The default of a pool.
WORK = RoundsWork(throughputs=(("H100", 1.0),), total_steps=10**9)


class Mixed:
    """A ledger in which ``bound`` and ``turning`` have had 8 GPUs each for two hours.

    ``turning`` shares in rounds, and has kept its GPUs since its start.
    """

    def __init__(self, line: Budget, owner: str, *owners: Owner) -> None:
        side = Pool(
            name="side",
            selector=(("fabric.domain", "B"),),
            discipline=Discipline.ROUNDS,
            policy="p",
            runtime_min_ms=None,
        )
        self.life = Life(
            nodes=fleet({"A": 8, "B": 8}),
            budgets=[line],
            owners=owners,
            pools=[Pool(name="default"), side],
        )
        apply_all(self.life.state, [committed()])
        self.life.events.append(committed())
        self.life.do(Submit(of("bound", 8, "one", minutes=600)))
        turning = of("turning", 8, owner, pool="side", rounds=WORK, on_quota=OnQuota.WAIT)
        self.life.do(Submit(turning))
        self.number = 0
        for _ in range(21):
            self.share()
        assert list(self.life.state.runs["turning"].leases) == ["turning/0"]

    def share(self) -> Decision:
        """Begin the next round, in which ``turning`` has GPUs again."""
        self.number += 1
        grant = RoundGrant("turning", "H100")
        command = ShareOut(pool="side", number=self.number, policy="p", grants=(grant,))
        return self.life.do(command, NOW_MS + (self.number - 1) * ROUND_MS)


def capped() -> Mixed:
    cap = Cap(name="c", flavor="H100", envelopes=("a", "b"), concurrency_max=16)
    a = envelope("a", 8, selector=(("fabric.domain", "A"),))
    b = envelope("b", 8, selector=(("fabric.domain", "B"),))
    return Mixed(budget("b-one", "one", a, b, caps=[cap]), "one")


def test_a_run_that_keeps_its_gpus_in_rounds_may_be_drawn_like_a_bound_run_of_its_age() -> None:
    line = budget("b-org", "org", envelope("e", 16))
    owners = [Owner(name=name, parents=("org",)) for name in ("one", "two")]
    world = Mixed(line, "two", *owners)
    lowered = replace(line, envelopes=(replace(line.envelopes[0], concurrency=8),))
    events = world.life.do(Apply((lowered,))).events
    (declared,) = [each for each in events if isinstance(each, ConflictDeclared)]
    assert {token.owner for token in declared.tokens} == {"one", "two"}


def test_a_conflict_by_hand_over_a_cap_cuts_no_run_that_shares_in_rounds() -> None:
    world = capped()
    refused = world.life.try_(Resolve("default", "H100", (), 16, cap="b-one/c"))
    assert refused.refusals, "only 8 GPUs under the cap are of a bound run"
    world.life.do(Resolve("default", "H100", (), 8, cap="b-one/c"))
    (name,) = world.life.state.open_conflicts
    declared = world.life.state.conflicts[name].declared
    while NOW_MS + world.number * ROUND_MS <= declared.due_ms:
        world.share()
    seed = link(declared.preimage_index) if declared.tokens else ""
    world.life.do(Draw(name, seed), declared.due_ms)
    assert not world.life.state.runs["bound"].leases
    assert not any(isinstance(each, LeaseStarted) for each in world.share().events)
    assert list(world.life.state.runs["turning"].leases) == ["turning/0"]
