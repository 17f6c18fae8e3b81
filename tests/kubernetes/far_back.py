"""A client whose first watch begins at a version that the server no longer has."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from quorate.adapters.kubernetes.cluster_access import ClusterAccess
from quorate.adapters.kubernetes.kube_api import KubeApi, Watched


class FromFarBack(KubeApi):
    """Begins its first watch of ``path`` at too old a version, and counts the lists of ``path``."""

    def __init__(self, access: ClusterAccess, path: str) -> None:
        super().__init__(access)
        self._path = path
        self._old = "1"
        self.lists = 0

    def watch(
        self,
        path: str,
        version: str,
        selector: str = "",
        *,
        for_s: int = 300,
        opened: Callable[[], None] = lambda: None,
    ) -> Iterator[Watched]:
        if path == self._path:
            version, self._old = self._old or version, ""
        return super().watch(path, version, selector, for_s=for_s, opened=opened)

    def list_all(self, path: str, selector: str = "") -> tuple[list[dict[str, Any]], str]:
        self.lists += path == self._path
        return super().list_all(path, selector)
