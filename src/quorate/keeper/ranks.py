"""The processes of a run, and the environment of each."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from quorate.keeper.wanted import Slot, Work
from quorate.runtime import LEASE_SECONDS, LEASE_STEPS, LEASE_UNTIL_MS

LOOPBACK: Final = "127.0.0.1"
RANK: Final = "QUORATE_RANK"
"""The variable that marks every descendant of a rank's process with the rank's number."""


@dataclass(frozen=True, slots=True)
class Rank:
    """One process, its slots, and the variables ``env`` that only this process gets."""

    number: int
    node: str
    slots: tuple[Slot, ...]
    env: Mapping[str, str]

    def is_hit(self, lost: Collection[Slot]) -> bool:
        """Return whether the process has lost a slot on the node on which it runs.

        A process that does the work of several nodes runs on the first of these nodes.
        """
        return any(slot in lost for slot in self.slots if slot[0] == self.node)


def ranks_of(work: Work, slots: Sequence[Slot], port: int, generation: int) -> list[Rank]:
    """Return the processes on ``slots``, node by node.

    A process sees all GPUs that the run has on its node, and ``LOCAL_RANK`` counts the processes of
    the node.
    """
    by_node: dict[str, list[int]] = {}
    for node, ordinal in slots:
        by_node.setdefault(node, []).append(ordinal)
    shares: list[tuple[int, str, tuple[Slot, ...]]] = []
    for node_rank, (node, ordinals) in enumerate(by_node.items()):
        own = [(node, ordinal) for ordinal in sorted(ordinals)]
        if work.processes == "gpu":
            shares += [(node_rank, node, (slot,)) for slot in own]
        else:
            shares.append((node_rank, node, tuple(own)))
    if work.processes == "run":
        # A single process does the work of the whole run.
        shares = [(0, shares[0][1], tuple(slots))]
    found: list[Rank] = []
    for number, (node_rank, node, own_slots) in enumerate(shares):
        peers = [index for index, share in enumerate(shares) if share[0] == node_rank]
        env = {
            "RANK": number,
            "WORLD_SIZE": len(shares),
            "LOCAL_RANK": peers.index(number),
            "LOCAL_WORLD_SIZE": len(peers),
            "NODE_RANK": node_rank,
            "NNODES": len(by_node),
            "MASTER_ADDR": LOOPBACK,
            "MASTER_PORT": port,
            "CUDA_VISIBLE_DEVICES": ",".join(str(each) for each in sorted(by_node[node])),
            "QUORATE_NODE": node,
            RANK: number,
            "QUORATE_GENERATION": generation,
            **_round(work),
        }
        found.append(Rank(number, node, own_slots, {k: str(v) for k, v in env.items()}))
    return found


def _round(work: Work) -> dict[str, object]:
    """Return the variables about the round in which a process starts; empty without rounds."""
    if work.round_ms is None:
        return {}
    return {
        LEASE_STEPS: work.round_steps,
        LEASE_SECONDS: f"{work.round_ms / 1_000:g}",
        LEASE_UNTIL_MS: work.round_until_ms,
    }
