"""Custom resources as ``kubectl get`` prints them, from the table that the API server makes."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import httpx

from quorate.adapters.kubernetes.kube_api import KubeApi
from tests.kubernetes.resources import KIND_OF

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
_GAP = 3
_MASKS = (
    (re.compile(r"\b2\d{3}-\d\d-\d\dT[\d:.]+Z"), "(time)"),
    (re.compile(r"-[0-9a-f]{10}\b"), "-##########"),
    (re.compile(r"-[0-9a-f]{8}\b"), "-########"),
    (re.compile(r"\b\d+(?:s|m|m\d+s|h)\b"), "#"),
)


def printed(api: KubeApi, kind: str, namespace: str) -> str:
    """Return the resources of ``kind`` as people see them, with times and digits of uids masked.

    The rows are in the order of their names.
    """
    answer = table_of(api, KIND_OF[kind].folder(namespace))
    head = [each["name"].upper() for each in answer["columnDefinitions"]]
    rows = [
        ["" if cell is None else str(cell) for cell in each["cells"]] for each in answer["rows"]
    ]
    return layout([head, *sorted(rows)])


def table_of(api: KubeApi, path: str, **params: str) -> dict[str, Any]:
    """Return the objects at ``path`` as a table, as ``kubectl`` asks for them."""
    found: dict[str, Any] = plain_answer(api, path, accept=TABLE, **params).json()
    return found


def plain_answer(api: KubeApi, path: str, *, accept: str, **params: str) -> httpx.Response:
    """Return what the API server answers in another form than as objects."""
    access = api._access
    answer = httpx.get(
        f"{access.server}{path}",
        params=params,
        headers={**access.headers(), "Accept": accept},
        verify=access.trust or False,
        trust_env=False,
    )
    assert answer.is_success, answer.text
    return answer


def by_kubectl(kubeconfig: Path, kind: str, namespace: str) -> str:
    """Return what ``kubectl get`` prints, masked and laid out alike."""
    done = subprocess.run(
        ["kubectl", "--kubeconfig", kubeconfig, "get", KIND_OF[kind].plural, "-n", namespace],
        capture_output=True,
        text=True,
        check=True,
    )
    lines = done.stdout.splitlines()
    starts = [found.start() for found in re.finditer(r"\S+", lines[0])]
    bounds = list(zip(starts, [*starts[1:], None], strict=True))
    rows = [[line[low:high].strip() for low, high in bounds] for line in lines]
    return layout([rows[0], *sorted(rows[1:])])


def layout(rows: list[list[str]]) -> str:
    """Return ``rows`` in columns, masked."""
    masked = [[_masked(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*masked, strict=True)]
    lines = (
        "".join(cell.ljust(width + _GAP) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in masked
    )
    return "\n".join(lines) + "\n"


def _masked(cell: str) -> str:
    for pattern, mask in _MASKS:
        cell = pattern.sub(mask, cell)
    return cell
