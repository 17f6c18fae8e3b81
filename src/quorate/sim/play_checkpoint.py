"""The checkpoint of a simulation, as bytes: its scenario, its play, and its ledger.

A ledger that is recorded in a file of its own is not repeated: the checkpoint says where it ended.
Files that the scenario names are not repeated either: what they held is known by a hash.
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

MARK: Final = b"quorate simulation 1\n"
"""What a checkpoint begins with; the number is that of its form."""


class Checkpoint(Struct, frozen=True, kw_only=True):
    """A simulation that was paused. ``blocks`` is None if its ledger is ``scenario.record``."""

    scenario: Scenario
    files: dict[str, str]
    play: SavedPlay
    blocks: tuple[Block, ...] | None


_ENCODER: Final = Encoder()
_DECODER: Final = Decoder(Checkpoint)


def checkpoint_bytes(checkpoint: Checkpoint) -> bytes:
    """Return ``checkpoint`` as it is kept in a file."""
    return MARK + _ENCODER.encode(checkpoint)


def read_checkpoint(data: bytes) -> Checkpoint:
    """Return the checkpoint that ``data`` is, or raise ``ScenarioError``."""
    if not data.startswith(MARK):
        raise ScenarioError(
            "resume",
            "is no checkpoint that this version can read",
            "name a file that quorate simulate --checkpoint wrote",
        )
    try:
        return _DECODER.decode(data[len(MARK) :])
    except MsgspecError as error:
        raise ScenarioError(
            "resume", f"is damaged: {error}", "play the scenario again from its beginning"
        ) from None


class HashedReads:
    """Reads files by ``read``, and notes a hash of what each of them held."""

    def __init__(self, read: Callable[[str], bytes]) -> None:
        self._read = read
        self.files: dict[str, str] = {}

    def __call__(self, name: str) -> bytes:
        """Return what the file ``name`` holds."""
        data = self._read(name)
        self.files[name] = sha256(data).hexdigest()
        return data

    def must_equal(self, files: Mapping[str, str]) -> None:
        """Raise ``ScenarioError`` if a file does not hold what it held in ``files``."""
        for name, known in files.items():
            if self.files.get(name) != known:
                raise ScenarioError(
                    "resume",
                    f"needs {name} as it was when the simulation began, and it has changed",
                    "restore the file, or play the scenario again",
                )
