"""The notebook of examples/notebook does what it says, cell by cell, against a real service."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from quorate import Client
from quorate.documents import Documents, parse_documents, render
from tests.service.program import program
from tests.tidy.tree import ROOT, named_blocks

NOTEBOOK = ROOT / "examples/notebook/usage.ipynb"
SVG = "{http://www.w3.org/2000/svg}"


def cells() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(NOTEBOOK.read_text("utf-8"))["cells"]
    return found


def documents(text: str) -> list[dict[str, Any]]:
    """Return documents in the form in which clients send them."""
    parsed = parse_documents(text, source="fleet.yaml")
    assert isinstance(parsed, Documents), parsed
    return [json.loads(json.dumps(render(each.spec), default=str)) for each in parsed.items]


def shown(source: str, names: dict[str, Any]) -> Any:
    """Run a cell like a notebook; return the value of its last expression, or None."""
    tree = ast.parse(source)
    last = tree.body[-1] if isinstance(tree.body[-1], ast.Expr) else None
    if last is not None:
        tree.body.pop()
    exec(compile(tree, str(NOTEBOOK), "exec"), names)  # noqa: S102 - our own cells
    if last is None:
        return None
    value = compile(ast.Expression(last.value), str(NOTEBOOK), "eval")
    return eval(value, names)  # noqa: S307 - our own cells


def test_the_notebook_is_one_of_format_4_and_has_no_outputs_of_earlier_runs() -> None:
    tree = json.loads(NOTEBOOK.read_text("utf-8"))
    assert (tree["nbformat"], tree["metadata"]["language_info"]["name"]) == (4, "python")
    assert len({cell["id"] for cell in cells()}) == len(cells())
    code = [cell for cell in cells() if cell["cell_type"] == "code"]
    assert len(code) > 5
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)


@pytest.mark.soak
@pytest.mark.slow
def test_every_cell_runs_and_the_plots_show_what_was_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = named_blocks((ROOT / "README.md").read_text("utf-8"))["fleet.yaml"]
    words = ("--executor", "local", "--executor-allow-root")
    with program(tmp_path, *words) as service:
        monkeypatch.setenv("QUORATE_SERVER", service.wait_ready())
        monkeypatch.setenv("QUORATE_TOKEN", service.token)
        with Client() as client:
            client.apply(documents(fleet))
        names: dict[str, Any] = {"__name__": "__main__"}
        pictures, tables = list[str](), list[str]()
        for cell in cells():
            if cell["cell_type"] == "code":
                value = shown("".join(cell["source"]), names)
                # As in notebooks, before the next cell: a handle then reads its run.
                pictures += [value._repr_svg_()] if hasattr(value, "_repr_svg_") else []
                tables += [value._repr_html_()] if hasattr(value, "_repr_html_") else []
    assert names["info"].status.phase == "Completed"
    assert [tag.partition("/")[0] for tag in (names["history"][0], names["history"][-1])] == [
        "run-submitted",
        "run-ended",
    ]
    loss, by_user, by_envelope = map(ET.fromstring, pictures)
    line = loss.find(f"{SVG}polyline")
    assert line is not None
    assert len(line.attrib["points"].split()) == 20
    texts = [[each.text for each in plot.iter(f"{SVG}text")] for plot in (by_user, by_envelope)]
    used_s = names["usage"].gpu_ms_used / 1_000
    assert used_s > 0
    assert texts[0][1:] == [f"admin: {used_s:g}"]
    assert texts[1][1:] == [f"vision/home: {used_s:g}"]
    assert any(names["run"].name in table for table in tables)
