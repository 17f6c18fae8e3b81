"""``quorate calc rounds``: the places in which it searches its table of throughputs."""

from __future__ import annotations

import json
from typing import Any

from tests.cli.shell import Shell
from tests.unit.calc.test_spoiled_worlds import RECORDING

RATES = RECORDING["throughputs"]
BARE: dict[str, Any] = {key: value for key, value in RECORDING.items() if key != "throughputs"}


def write(shell: Shell, name: str, value: object) -> str:
    (shell.folder / name).parent.mkdir(parents=True, exist_ok=True)
    return str(shell.file(name, json.dumps(value)))


def test_the_table_is_in_the_recording_or_named_or_found(shell: Shell) -> None:
    whole = shell("calc", "rounds", "-f", write(shell, "whole.json", RECORDING))
    assert whole.code == 0
    assert json.loads(whole.out)["jct"] == {"0": 180.0, "1": 60.0}

    bare = write(shell, "a/bare.json", BARE)
    rates = write(shell, "rates.json", RATES)
    assert shell("calc", "rounds", "-f", bare, "--throughputs", rates).out == whole.out

    naming = write(shell, "a/naming.json", {**BARE, "throughputs_file": "beside.json"})
    write(shell, "a/beside.json", RATES)
    assert shell("calc", "rounds", "-f", naming).out == whole.out

    naming = write(shell, "a/b/naming.json", {**BARE, "throughputs_file": "above.json"})
    write(shell, "data/gavel/above.json", RATES)
    assert shell("calc", "rounds", "-f", naming).out == whole.out


def test_a_table_that_is_nowhere_is_said_with_what_to_do(shell: Shell) -> None:
    said = shell("calc", "rounds", "-f", write(shell, "bare.json", BARE))
    assert (said.code, "throughputs: is required" in said.err) == (3, True)
    naming = write(shell, "naming.json", {**BARE, "throughputs_file": "nowhere.json"})
    said = shell("calc", "rounds", "-f", naming)
    assert (said.code, said.out) == (3, "")
    assert "throughputs_file: nowhere.json is neither beside the world" in said.err
    assert "--throughputs FILE" in said.err


def test_only_rounds_have_throughputs(shell: Shell) -> None:
    rates = write(shell, "rates.json", RATES)
    world = write(shell, "world.json", {"nodes": []})
    said = shell("calc", "topology", "-f", world, "--throughputs", rates)
    assert (said.code, said.out) == (3, "")
    assert "--throughputs is only for rounds, not for topology; remove it" in said.err
    assert shell("calc", "rounds", "-f", write(shell, "list.json", [])).code == 3
