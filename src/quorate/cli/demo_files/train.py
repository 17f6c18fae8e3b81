"""A toy training program: each process has its own data, and together they learn one number.

The script needs only Python and ``quorate.runtime``. The processes find each other by MASTER_ADDR
and MASTER_PORT, as the processes of any framework do, and average their gradients at every step.
Now and then, and when warned to stop, the run saves a checkpoint; when started again, it continues
from the last checkpoint.
"""

from __future__ import annotations

import json
import socket
import struct
import sys
import time

from quorate import runtime

STEP_S = 0.25
SAVE_EVERY = 5
CONNECT_S = 30
TOLD_S = 2.0
WORD = struct.Struct("!d?")
"""A gradient, and whether rank 0 says that this step is the last."""


def meet(world: runtime.World) -> list[socket.socket]:
    """Return the connections of rank 0 to all other processes, or of another rank to rank 0."""
    place = (world.master_addr, world.master_port)
    if world.rank == 0:
        with socket.create_server(place) as server:
            server.settimeout(CONNECT_S)
            return [server.accept()[0] for _ in range(world.size - 1)]
    until_s = time.monotonic() + CONNECT_S
    while True:
        try:
            return [socket.create_connection(place, timeout=CONNECT_S)]
        except ConnectionRefusedError:
            if time.monotonic() > until_s:
                raise
            time.sleep(0.02)


def hear(peer: socket.socket) -> tuple[float, bool]:
    """Return the gradient of ``peer``, and whether this step is the last.

    Exits if ``peer`` has gone, because the other processes cannot continue without it.
    """
    try:
        found = peer.recv(WORD.size, socket.MSG_WAITALL)
    except ConnectionError:
        found = b""
    if len(found) == WORD.size:
        gradient, is_last = WORD.unpack(found)
        return gradient, is_last
    until_s = time.monotonic() + TOLD_S
    while not runtime.stop_requested():
        if time.monotonic() > until_s:
            sys.exit("another process of the run has exited")
        time.sleep(0.02)
    sys.exit(0)


def average(
    gradient: float, peers: list[socket.socket], world: runtime.World
) -> tuple[float, bool]:
    """Return the mean of all gradients, and whether all processes stop after this step."""
    if world.rank > 0:
        peers[0].sendall(WORD.pack(gradient, 0))
        return hear(peers[0])
    mean = (gradient + sum(hear(peer)[0] for peer in peers)) / world.size
    is_last = runtime.stop_requested()
    for peer in peers:
        peer.sendall(WORD.pack(mean, is_last))
    return mean, is_last


def save(step: int, weight: float) -> None:
    """Save a checkpoint."""
    path = runtime.checkpoints() / f"step-{step}.json"
    path.write_text(json.dumps({"weight": weight}))
    runtime.saved(path, step)


def main() -> None:
    """Train until a stop is requested."""
    world, last = runtime.world(), runtime.last_checkpoint()
    is_first = world.rank == 0
    step, weight = 0, 10.0
    if last is not None:
        step, weight = last.step, float(json.loads(last.path.read_text())["weight"])
    peers = meet(world)
    if is_first:
        begins = "begins" if last is None else f"goes on from its checkpoint of step {step}"
        print(f"{world.run} {begins}, on {world.nodes} node(s)")
    while True:
        gradient, is_last = average(2 * (weight - 3 - world.rank / 100), peers, world)
        weight -= 0.005 * gradient
        step += 1
        if is_first:
            loss = (weight - 3) ** 2
            runtime.report(step, loss=loss)
            print(f"{world.run} step {step}, loss {loss:.2f}")
            if is_last or step % SAVE_EVERY == 0:
                save(step, weight)
        if is_last:
            if is_first:
                print(f"{world.run} received the stop signal, and saved step {step}")
            return
        time.sleep(STEP_S)


if __name__ == "__main__":
    main()
