"""Resources as attributes of a client: typed, read to the last page, and rendered in notebooks."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import pytest

from quorate import AsyncClient, Client
from quorate.client.errors import NotFoundError
from quorate.client.resources.any_resource import ResourceList
from quorate.client.resources.notebook_html import ROWS_MAX
from quorate.client.resources.run_resources import RunInfo
from tests.client.scripted import Act, gives, refuses, serving

pytestmark = pytest.mark.slow


def tree(name: str, phase: str = "Running") -> dict[str, Any]:
    return {
        "apiVersion": "quorate.dev/v1",
        "kind": "Run",
        "metadata": {"name": name},
        "spec": {"owner": "rai", "resources": {"gpuType": "H100", "totalGPUs": 8}},
        "status": {"phase": phase, "submitted": "2026-01-01T00:00:00Z"},
    }


def listing(*names: str, more: str | None = None) -> Act:
    page: dict[str, Any] = {"apiVersion": "quorate.dev/v1", "kind": "List"}
    page["items"] = [tree(name) for name in names]
    return gives(page | ({} if more is None else {"next": more}))


def test_one_is_got_by_its_name_with_types() -> None:
    with serving(gives(tree("a", "Completed"))) as server, Client(server.url) as client:
        run: RunInfo = client.runs.get("a")
        assert (run.name, run.status.phase, run.spec.resources.total_gpus) == ("a", "Completed", 8)
    assert server.got[0].path == "/api/v1/runs/a"


def test_one_that_is_not_there_is_an_error_of_its_own() -> None:
    with (
        serving(refuses(404, "unknown-name", "there is no run 'a'")) as server,
        Client(server.url) as client,
        pytest.raises(NotFoundError, match="there is no run 'a'"),
    ):
        client.runs.get("a")


def test_all_pages_are_read_only_as_far_as_the_caller_iterates() -> None:
    pages = (listing("a", "b", more="b"), listing("c", more="c"), listing("d"))
    with serving(*pages) as server, Client(server.url) as client:
        found = client.runs.list(owner="rai", phase="Running")
        assert next(found).name == "a"
        assert len(server.got) == 1
        assert [run.name for run in found] == ["b", "c", "d"]
    chosen = [("owner", "rai"), ("phase", "Running")]
    assert [sorted(got.query) for got in server.got] == [
        chosen,
        sorted([("cursor", "b"), *chosen]),
        sorted([("cursor", "c"), *chosen]),
    ]


def test_other_kinds_and_both_clients_iterate() -> None:
    async def names(url: str) -> list[str]:
        async with AsyncClient(url) as client:
            return [each.name async for each in client.nodes]

    with serving(listing("a", more="a"), listing("b")) as server:
        assert asyncio.run(names(server.url)) == ["a", "b"]
    assert {got.path for got in server.got} == {"/api/v1/nodes"}
    with serving(listing("a")) as server, Client(server.url) as client:
        assert [each.name for each in client.budgets.list(names=["a"])] == ["a"]
    assert server.got[0].query == [("names", "a")]


def test_a_submit_can_be_tried_and_says_what_it_takes() -> None:
    outcome = {
        "dryRun": True,
        "changes": [{"kind": "Run", "name": "a", "change": "submitted"}],
        "warnings": [],
        "events": [],
        "head": None,
    }
    with serving(gives(outcome)) as server, Client(server.url) as client:
        handle = client.submit({"kind": "Run"}, dry_run=True)
        assert handle.outcome is not None
        assert handle.outcome.dry_run
    assert ("dryRun", "true") in server.got[0].query or server.got[0].json.get("dryRun")
    for client_class in (Client, AsyncClient):
        known = inspect.signature(client_class.submit).parameters
        assert {"document", "gpus", "team", "command", "duration", "dry_run"} <= set(known)
        assert not any(each.kind is each.VAR_KEYWORD for each in known.values())


def test_notebooks_show_tables_in_which_nothing_is_markup() -> None:
    with serving(listing("a", "<b>")) as server, Client(server.url) as client:
        page = client.list_runs()
    assert isinstance(page, ResourceList)
    assert [run.name for run in page] == ["a", "<b>"]
    html = page._repr_html_()
    assert "<th>phase</th>" in html
    assert "<td>&lt;b&gt;</td><td>rai</td><td>Running</td><td>8</td><td>H100</td>" in html
    assert "<td>a</td>" in page.items[0]._repr_html_()
    many = ResourceList(
        api_version="", kind="List", items=tuple(page.items[:1] * (ROWS_MAX + 2)), next="x"
    )
    assert many._repr_html_().count("<tr>") == ROWS_MAX + 1
    assert "and 2 more" in many._repr_html_()
    assert "and further pages" in many._repr_html_()
    assert ResourceList(api_version="", kind="List", items=())._repr_html_() == "<p>none</p>"
