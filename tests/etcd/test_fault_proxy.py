"""Links that a test controls: what passes through them, and that they leave nothing open."""

from __future__ import annotations

import gc
import socket
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from threading import Thread

import pytest

from tests.bounds import WAIT_S, until
from tests.etcd.fault_proxy import Links

PAIR = [("a", "b")]


@contextmanager
def echoing() -> Iterator[int]:
    """Yield the port of a server that sends back the first bytes of each connection."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            while True:
                accepted, _ = listening.accept()
                with accepted:
                    accepted.settimeout(WAIT_S)
                    said = accepted.recv(10)
                    if said == b"end":
                        return
                    if said:
                        accepted.sendall(said)

        thread = Thread(target=serve)
        thread.start()
        port: int = listening.getsockname()[1]
        try:
            yield port
        finally:
            with connected(port) as last:
                last.sendall(b"end")
            thread.join(WAIT_S)


def connected(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), WAIT_S)


def test_cut_link_keeps_bytes_until_it_is_whole_again() -> None:
    with echoing() as port, Links() as links:
        there = links.listen("a", "b", port)
        links.cut(PAIR, there=False)
        with connected(there) as waiting:
            waiting.sendall(b"x")
            waiting.settimeout(0.1)
            with pytest.raises(TimeoutError):
                waiting.recv(1)
            links.mend()
            waiting.settimeout(WAIT_S)
            assert waiting.recv(1) == b"x"


def test_reset_ends_the_connections_of_a_link_alone() -> None:
    with echoing() as port, Links() as links:
        one, other = links.listen("a", "b", port), links.listen("c", "b", port)
        links.cut([*PAIR, ("c", "b")], there=False)
        with connected(one) as ended, connected(other) as kept:
            ended.sendall(b"x")
            until(lambda: links.count("a", "b") == 2, "both ends of the link are there")
            links.reset(PAIR)
            assert ended.recv(1) == b"", "its end"
            kept.sendall(b"y")
            links.mend()
            assert kept.recv(1) == b"y"


def test_links_leave_no_socket_open_whatever_is_connecting_at_their_end() -> None:
    with warnings.catch_warnings(record=True) as caught, echoing() as port:
        warnings.simplefilter("always")
        ports = {port}
        for number in range(10):
            with ExitStack() as stack, Links() as links:
                there = links.listen("a", "b", port)
                ports.add(there)
                if number % 2:
                    links.cut(PAIR)
                for _ in range(5):
                    stack.enter_context(connected(there))
        gc.collect()
    left = [str(each.message) for each in caught if each.category is ResourceWarning]
    # Only connections of this test are checked; other tests may have left some open.
    assert [each for each in left if any(f"'127.0.0.1', {own})" in each for own in ports)] == []
