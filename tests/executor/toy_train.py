"""A small program that trains like real ones: ranks, a rendezvous, an all-reduce, checkpoints.

It fits a line to points of a line. Each rank has its share of the points; rank 0 adds up the
gradients and sends the new weights to all ranks, over sockets at MASTER_ADDR and MASTER_PORT. So
the loss after a step is the same for every number of ranks, except for the order of additions.

It ends after the number of steps in the given file, and continues while there is no file. It uses
only the standard library and ``quorate.runtime``.
"""

from __future__ import annotations

import json
import socket
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from quorate import runtime

POINTS: Final = [(x / 32, 3 * x / 32 + 1) for x in range(64)]
RATE: Final = 0.002
EVERY: Final = 10
"""The number of steps between two checkpoints."""
STEP_S: Final = 0.01
JOIN_S: Final = 60.0

Weights = tuple[float, float]


def gradient(weights: Weights, points: Sequence[tuple[float, float]]) -> tuple[float, float, float]:
    """Return sums over ``points``: of both derivatives of the squared error, and of the error."""
    slope, offset = weights
    errors = [(x, slope * x + offset - y) for x, y in points]
    return (
        sum(2 * error * x for x, error in errors),
        sum(2 * error for _, error in errors),
        sum(error * error for _, error in errors),
    )


def stepped(weights: Weights, sums: Sequence[tuple[float, float, float]]) -> tuple[Weights, float]:
    """Return the weights after a step, and the loss before it; ``sums`` are of all ranks."""
    slope, offset, error = (sum(column) / len(POINTS) for column in zip(*sums, strict=True))
    return (weights[0] - RATE * slope, weights[1] - RATE * offset), error


class Peers:
    """The connections to the other ranks on rank 0, or to rank 0 on the other ranks."""

    def __init__(self, world: runtime.World) -> None:
        self._files: list[Any] = []
        if world.rank:
            self._add(_connected(world.master_addr, world.master_port))
            return
        with socket.create_server((world.master_addr, world.master_port)) as listening:
            listening.settimeout(JOIN_S)
            for _ in range(world.size - 1):
                self._add(listening.accept()[0])

    def _add(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._files.append(connection.makefile("rw", encoding="utf-8"))

    def tell(self, what: object) -> None:
        """Send ``what`` to all peers."""
        for file in self._files:
            file.write(json.dumps(what) + "\n")
            file.flush()

    def hear(self) -> list[Any]:
        """Return what each peer sends; raise ``ConnectionError`` if one has disconnected."""
        found = [file.readline() for file in self._files]
        if not all(found):
            raise ConnectionError("a peer has gone")
        return [json.loads(line) for line in found]


def _connected(host: str, port: int) -> socket.socket:
    end_s = time.monotonic() + JOIN_S
    while True:
        try:
            return socket.create_connection((host, port))
        except ConnectionRefusedError:
            if time.monotonic() > end_s:
                raise
            time.sleep(0.01)


def say(text: str) -> None:
    """Write a line to the log of the run."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def save(step: int, weights: Weights) -> None:
    """Save the checkpoint from which the next start continues."""
    path = runtime.checkpoints() / f"{step}.json"
    path.write_text(json.dumps(weights), encoding="utf-8")
    runtime.saved(path, step)


def lead(peers: Peers, goal: Path, world: runtime.World) -> None:
    """Train as rank 0."""
    last = runtime.last_checkpoint()
    step, weights = 0, (0.0, 0.0)
    if last is not None:
        step, weights = last.step, tuple(json.loads(last.path.read_text(encoding="utf-8")))
    say(f"generation {world.generation} of {world.size} from step {step}")
    while True:
        is_done = goal.exists() and step >= int(goal.read_text())
        is_over = is_done or runtime.stop_requested()
        peers.tell([*weights, is_over])
        if is_over:
            save(step, weights)
            if is_done:
                runtime.done()
            say(f"{'done' if is_done else 'saved'} at step {step}")
            return
        own = gradient(weights, POINTS[:: world.size])
        weights, loss = stepped(weights, [own, *peers.hear()])
        step += 1
        runtime.report(step, loss=loss)
        if step % EVERY == 0:
            save(step, weights)
        time.sleep(STEP_S)


def follow(peers: Peers, world: runtime.World) -> None:
    """Train as one of the other ranks."""
    while True:
        ((slope, offset, is_over),) = peers.hear()
        if is_over:
            return
        peers.tell(gradient((slope, offset), POINTS[world.rank :: world.size]))


def main(goal: Path) -> int:
    """Return 0 if the goal was reached."""
    world = runtime.world()
    say(f"rank {world.rank} of {world.size} on {world.node}")
    try:
        peers = Peers(world)
        if world.rank:
            follow(peers, world)
        else:
            lead(peers, goal, world)
    except ConnectionError:
        # The other rank was lost; a moment later this rank is told to stop, too.
        end_s = time.monotonic() + JOIN_S
        while not runtime.stop_requested():
            if time.monotonic() > end_s:
                raise
            time.sleep(0.01)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
