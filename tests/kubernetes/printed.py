"""Custom resources as ``kubectl get`` prints them, from the table that the API server returns."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import httpx

from quorate.adapters.kubernetes.kube_api import KubeApi
from tests.bounds import WAIT_S
from tests.kubernetes.resources import KIND_OF

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
_GAP = 3
_MASKS = (
    (re.compile(r"\b2\d{3}-\d\d-\d\dT[\d:.]+Z"), "(time)"),
    (re.compile(r"\b[0-9a-f]{64}\b"), "(hash)"),
    (re.compile(r"-[0-9a-f]{10}\b"), "-##########"),
    (re.compile(r"-[0-9a-f]{8}\b"), "-########"),
    (re.compile(r"\b\d+(?:s|m|m\d+s|h)\b"), "#"),
)


def printed(api: KubeApi, kind: str, namespace: str, *, is_wide: bool) -> str:
    """Return the printed resources of ``kind``, with times and digits of uids masked.

    The rows are sorted by name. ``is_wide`` adds the columns of ``-o wide``.
    """
    answer = table_of(api, KIND_OF[kind].folder(namespace))
    columns = answer["columnDefinitions"]
    shown = [at for at, each in enumerate(columns) if is_wide or not each["priority"]]
    head = [columns[at]["name"].upper() for at in shown]
    rows = [
        ["" if row["cells"][at] is None else str(row["cells"][at]) for at in shown]
        for row in answer["rows"]
    ]
    return layout([head, *sorted(rows)])


def table_of(api: KubeApi, path: str, **params: str) -> dict[str, Any]:
    """Return the objects at ``path`` as a table, with the request that ``kubectl`` sends."""
    found: dict[str, Any] = plain_answer(api, path, accept=TABLE, **params).json()
    return found


def plain_answer(api: KubeApi, path: str, *, accept: str, **params: str) -> httpx.Response:
    """Return the API server's answer in the form ``accept``."""
    access = api._access
    answer = httpx.get(
        f"{access.server}{path}",
        params=params,
        headers={**access.headers(), "Accept": accept},
        verify=access.trust or False,
        trust_env=False,
        timeout=WAIT_S,
    )
    assert answer.is_success, answer.text
    return answer


def by_kubectl(kubeconfig: Path, kind: str, namespace: str, *, is_wide: bool) -> str:
    """Return the output of ``kubectl get``, masked and in the same layout."""
    wide = ("-o", "wide") if is_wide else ()
    words = ("get", KIND_OF[kind].plural, "-n", namespace, *wide)
    done = subprocess.run(
        ["kubectl", "--kubeconfig", kubeconfig, *words],
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
