"""The checkpoint of a simulation, as bytes: its scenario, its play, and its ledger.

If the ledger is in a separate file, the checkpoint has only the ledger's head. For each file that
the scenario names, the checkpoint has a hash, not the content.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Final

from msgspec import MsgspecError, Struct
from msgspec.msgpack import Decoder, Encoder

from quorate.ledger.chain import Block
from quorate.sim.saved_room import SavedPlay
from quorate.sim.scenario import Scenario, ScenarioError

MARK: Final = b"quorate simulation 2\n"
"""The first bytes of a checkpoint; the number is the version of its format."""


class Checkpoint(Struct, frozen=True, kw_only=True):
    """A paused simulation; ``blocks`` is None if its ledger is in the file ``scenario.record``."""

    scenario: Scenario
    files: dict[str, str]
    play: SavedPlay
    blocks: tuple[Block, ...] | None


_ENCODER: Final = Encoder()
_DECODER: Final = Decoder(Checkpoint)


def checkpoint_bytes(checkpoint: Checkpoint) -> bytes:
    """Return the bytes of ``checkpoint`` for a file."""
    return MARK + _ENCODER.encode(checkpoint)


def read_checkpoint(data: bytes) -> Checkpoint:
    """Return the checkpoint in ``data``, or raise ``ScenarioError``."""
    if not data.startswith(MARK):
        raise ScenarioError(
            "resume",
            "is not a checkpoint that this version can read",
            "name a file that quorate simulate --checkpoint wrote",
        )
    try:
        return _DECODER.decode(data[len(MARK) :])
    except MsgspecError as error:
        raise ScenarioError(
            "resume", f"is damaged: {error}", "play the scenario again from its beginning"
        ) from None


class HashedReads:
    """Reads files by ``read``, and keeps a hash of the content of each file."""

    def __init__(self, read: Callable[[str], bytes]) -> None:
        self._read = read
        self.files: dict[str, str] = {}

    def __call__(self, name: str) -> bytes:
        """Return the content of the file ``name``."""
        data = self._read(name)
        self.files[name] = sha256(data).hexdigest()
        return data

    def must_equal(self, files: Mapping[str, str]) -> None:
        """Raise ``ScenarioError`` if the content of a file differs from its hash in ``files``."""
        for name, known in files.items():
            if self.files.get(name) != known:
                raise ScenarioError(
                    "resume",
                    f"{name} has changed since the simulation began",
                    "restore the file, or play the scenario again",
                )
