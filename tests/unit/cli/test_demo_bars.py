"""The demo's bars: one letter for each GPU."""

from __future__ import annotations

from typing import Any

import click
import pytest

from quorate.cli.demo.demo_bars import Machine, Screen, bars, machines


def _node(name: str, domain: str, status: str = "Ready") -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "spec": {"flavor": "H100", "gpus": 4},
        "status": {"status": status, "domain": domain},
    }


def _lease(run: str, node: str, slots: list[int], role: str = "Active") -> dict[str, Any]:
    return {"status": {"run": run, "role": role, "slots": [{"node": node, "slots": slots}]}}


def test_each_gpu_is_a_letter() -> None:
    fleet = machines(
        [_node("a1", "A"), _node("a2", "A", "Failed"), _node("b1", "B")],
        [_lease("x", "a1", [0, 1]), _lease("y", "a1", [3], "Spare"), _lease("x", "b1", [2])],
        {"x": "vision", "y": "speech"},
    )
    assert [machine.cells for machine in fleet] == ["VV.s", "xxxx", "..V."]


def test_a_line_says_who_has_how_much_of_a_domain() -> None:
    fleet = [
        Machine("A", "H100", "VV.s"),
        Machine("A", "H100", "xxxx"),
        Machine("B", "A100", "..V."),
    ]
    assert bars(fleet, ["vision", "speech", "vision"]) == [
        "  A             H100 [VV.s xxxx] speech 1 (1 spare), vision 2, free 1, lost 4",
        "  B             A100 [..V.]      vision 1, free 3",
    ]


def test_colors_change_nothing_but_colors() -> None:
    fleet = [Machine("A", "H100", "VV.sxLl"), Machine("B", "H100", "....")]
    owners = ["vision", "speech", "language"]
    colored = bars(fleet, owners, color=True)
    assert "\x1b[" in colored[0]
    assert [click.unstyle(line) for line in colored] == bars(fleet, owners)


def test_nothing_is_drawn_where_it_cannot_be_taken_back(capsys: pytest.CaptureFixture[str]) -> None:
    screen = Screen({"TERM": "xterm"})
    assert not screen.is_live
    screen.draw(["a line"])
    screen.clear()
    assert capsys.readouterr().out == ""
