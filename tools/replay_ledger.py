"""Writes the ledgers that later versions must replay: ``python -m tools.replay_ledger``.

The command makes ``tests/replay/VERSION-*.db.xz``, ledgers written by this version. Beside each
ledger it writes a JSON file with the resulting state. Each release is recorded once, and its files
are never written again. ``--format`` only adds the state hashes of a new snapshot format to all
existing JSON files.
"""

from __future__ import annotations

import json
import lzma
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from quorate import __version__
from quorate.adapters.stores.head_file import head_path
from quorate.adapters.stores.store_sqlite import SqliteStore
from quorate.core.accounting.period_statement import Asked, make_statement
from quorate.ledger.chain import open_blocks
from quorate.ledger.fold import replay
from quorate.ledger.snapshot import SNAPSHOT_FORMAT, fingerprint
from quorate.policy.table import POLICIES
from quorate.sim.demand import Size
from quorate.sim.round_world import draw_round_world
from quorate.sim.seed_trial import Trial

FOLDER: Final = Path("tests/replay")


def planned() -> Trial:
    """Return the simulation of a planned fleet, with loans, conflicts and failures."""
    return Trial(8, size=Size(hours=40, runs=120, wishes=80))


def rounds() -> Trial:
    """Return the simulation of a fleet that is shared in rounds."""
    policies = {"max_min_fairness": POLICIES["max_min_fairness"]}
    draw = partial(draw_round_world, policies=tuple(policies), with_pairs=False)
    found = Trial(3, size=Size(hours=8, runs=40, wishes=30), draw=draw)
    found.simulation.share_by(policies)
    return found


LIVES: Final[dict[str, Callable[[], Trial]]] = {"planned": planned, "rounds": rounds}


def recorded(ledger: Path) -> dict[str, Any]:
    """Return the result of replaying the ledger in the file ``ledger``."""
    with SqliteStore.read(ledger) as store:
        state, head = replay(store.blocks())
        events = [event for _, block in open_blocks(store.blocks()) for event in block]
    whole = Asked(from_ms=events[0].at_ms, until_ms=events[-1].at_ms + 1, prices={})
    statement = make_statement(events, state, whole)
    phases = Counter(record.phase.value for record in state.runs.in_order())
    return {
        "sequence": head.seq,
        "head": head.hash.hex(),
        "runs": dict(sorted(phases.items())),
        "spent_gpu_ms": {line.envelope: line.spent_gpu_ms for line in statement.lines},
        "state": {str(SNAPSHOT_FORMAT): fingerprint(state).hex()},
    }


def unpacked(packed: Path, folder: Path) -> Path:
    """Return the file of the ledger in ``packed``, below ``folder``."""
    found = folder / packed.name.removesuffix(".xz")
    found.write_bytes(lzma.decompress(packed.read_bytes()))
    return found


def kept() -> Iterator[Path]:
    """Yield the packed ledgers of all versions."""
    yield from sorted(FOLDER.glob("*.db.xz"))


def told_of(packed: Path) -> Path:
    """Return the path of the JSON file with the result of ``packed``."""
    return packed.with_name(packed.name.removesuffix(".db.xz") + ".json")


def _record(name: str, folder: Path) -> None:
    packed = FOLDER / f"{__version__}-{name}.db.xz"
    if packed.exists():
        sys.exit(f"{packed} exists: a ledger of a release is never written again")
    trial = LIVES[name]()
    trial.run()
    ledger = folder / f"{name}.db"
    with SqliteStore.create(ledger) as store:
        store.append_all(trial.store.blocks())
    packed.write_bytes(lzma.compress(ledger.read_bytes(), preset=9))
    head_path(ledger).unlink()
    _write(told_of(packed), recorded(ledger))
    print(packed, packed.stat().st_size, "bytes")


def _write(path: Path, told: dict[str, Any]) -> None:
    path.write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")


def main(words: list[str]) -> None:
    """Record the ledgers of this version, or the state hashes of a new format of snapshots."""
    with TemporaryDirectory() as folder:
        if words == ["--format"]:
            for packed in kept():
                told = json.loads(told_of(packed).read_text(encoding="utf-8"))
                found = recorded(unpacked(packed, Path(folder)))
                told["state"] = found["state"] | told["state"]
                _write(told_of(packed), told)
        elif words:
            sys.exit(__doc__)
        else:
            for name in LIVES:
                _record(name, Path(folder))


if __name__ == "__main__":
    main(sys.argv[1:])
