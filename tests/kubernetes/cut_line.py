"""A proxy of an API server that can be cut: it closes all connections and accepts no new ones."""

from __future__ import annotations

import socket
from contextlib import suppress
from pathlib import Path
from threading import Lock, Thread

import httpx

from tests.kubernetes.engines import Server

READ_BYTES = 65_536


def line_to(cluster: Server, folder: Path) -> tuple[CutLine, Path]:
    """Return a proxy of a cluster, and a kubeconfig in ``folder`` that uses the proxy."""
    port = httpx.URL(cluster.access.server).port
    assert port is not None, cluster
    line, config = CutLine(port), folder / "cut.kubeconfig"
    text = cluster.kubeconfig.read_text("utf-8")
    config.write_text(text.replace(f":{port}", f":{line.port}"), "utf-8")
    return line, config


class CutLine:
    """Carries bytes between its own port and ``port``, both on the loopback, until ``close``."""

    def __init__(self, port: int) -> None:
        self._target = ("127.0.0.1", port)
        self._lock = Lock()
        self._open: set[socket.socket] = set()
        self._is_cut = False
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self.connections = 0
        self.refused = 0
        self._passing: list[Thread] = []
        self._accepting = Thread(target=self._accept, daemon=True)
        self._accepting.start()

    def cut(self) -> None:
        """Cut all connections, and accept none until ``mend``."""
        with self._lock:
            self._is_cut = True
            ends = list(self._open)
        for each in ends:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def mend(self) -> None:
        """Accept connections again."""
        with self._lock:
            self._is_cut = False

    def close(self) -> None:
        """Stop for ever; all sockets are closed on return."""
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._accepting.join()
        self._listening.close()
        self.cut()
        for each in self._passing:
            each.join()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listening.accept()
            except OSError:
                return
            with self._lock:
                far = None if self._is_cut else self._far()
                if far is None:
                    self.refused += 1
                    near.close()
                    continue
                self._open |= {near, far}
                self.connections += 1
            for source, target in ((near, far), (far, near)):
                thread = Thread(target=self._pass, args=(source, target), daemon=True)
                thread.start()
                self._passing.append(thread)

    def _far(self) -> socket.socket | None:
        """Return a connection to the API server; None if the server is not running."""
        try:
            return socket.create_connection(self._target)
        except OSError:
            return None

    def _pass(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(READ_BYTES):
                target.sendall(data)
        for each in (source, target):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        with self._lock:
            done = self._open & {source}
            self._open -= done
        for each in done:
            each.close()
