"""Types that several threads may read at once."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import quorate

RACE = """
import sys, threading
from typing import Annotated
import msgspec
from quorate.prepared_types import prepared

sys.setswitchinterval(1e-6)
for _ in range(200):
    # Annotated types have a hash in Python, where threads change.
    low, text = Annotated[int, msgspec.Meta(ge=0)], Annotated[str, msgspec.Meta(min_length=1)]
    fields = [("a", text), ("b", tuple[tuple[text, low], ...], ()), ("c", dict[text, low], {})]
    kind = msgspec.defstruct("Kind", fields)
    together = threading.Barrier(4)

    def read():
        together.wait()
        assert msgspec.json.decode(b'{"a":"x","b":[["y",1]]}', type=prepared(kind)).a == "x"

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
"""


@pytest.mark.heavy
def test_threads_read_a_new_type_at_the_same_time() -> None:
    done = subprocess.run(
        [sys.executable, "-c", RACE], capture_output=True, text=True, check=False, timeout=120
    )
    assert (done.returncode, done.stderr) == (0, "")


# One thread reads these: that of a command, or that of an import.
ONE_THREAD = {"sim/scenario.py", "ledger/codec.py", "cli/commands/logs_command.py"}
SAFE = ("prepared(", "tuple[str, ...]")


@pytest.mark.heavy
def test_threads_read_only_prepared_types() -> None:
    root = Path(quorate.__file__).parent
    found: list[str] = []
    for path in root.rglob("*.py"):
        name = path.relative_to(root).as_posix()
        if name in ONE_THREAD:
            continue
        text = path.read_text(encoding="utf-8")
        # Walking through all modules takes seconds.
        nodes = ast.walk(ast.parse(text)) if "msgspec." in text else ()
        shapes = [shape for node in nodes for shape in _read(node)]
        found += [f"{name}: {shape}" for shape in shapes if not shape.startswith(SAFE)]
    assert found == []


def _read(node: ast.AST) -> list[str]:
    """Return the types that a call of msgspec decodes."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return []
    if ast.unparse(node.func) == "msgspec.convert":
        return [ast.unparse(node.args[1])] if len(node.args) > 1 else []
    if ast.unparse(node.func) in {f"msgspec.{form}.decode" for form in ("json", "msgpack", "yaml")}:
        return [ast.unparse(word.value) for word in node.keywords if word.arg == "type"]
    return []
