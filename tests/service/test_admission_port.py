"""The admission port is open to every pod, but no pod can block the API server."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, cast

import httpx
import pytest

from quorate.operations.caller import Caller, Role
from quorate.service.config import configured
from quorate.service.custom_resources.admission_review import AdmissionRules
from quorate.service.custom_resources.admission_surface import (
    BODY_BYTES_MAX,
    MEMORY_BYTES_MAX,
    OF_ADDRESS_MAX,
    PARTS_MAX,
    PATH,
    Admission,
    admission_surface,
)
from quorate.service.http.accepting import IDLE_S_MIN, Connections
from quorate.service.http.body_reader import AT_ONCE_BYTES, BodyReader
from quorate.service.limits.tenant_shares import OF_ONE_PART
from quorate.views.exits import CommandError
from tests.bounds import WAIT_S, Deadline
from tests.service.certificates import certificate

REVIEW: dict[str, Any] = {
    "apiVersion": "admission.k8s.io/v1",
    "kind": "AdmissionReview",
    "request": {
        "uid": "1",
        "operation": "CREATE",
        "resource": {"group": "quorate.dev", "version": "v1", "resource": "runs"},
        "namespace": "quorate-rai",
        "userInfo": {"username": "ada", "groups": []},
        "object": {"metadata": {"name": "x"}, "spec": {"owner": "rai"}},
    },
}


@asynccontextmanager
async def admitting(cert: Path, key: Path, **more: str) -> AsyncIterator[str]:
    """Serve reviews; yield the address."""
    flags = {
        "kubernetes.admission": "127.0.0.1:0",
        "tls.cert": str(cert),
        "tls.key": str(key),
        **{f"kubernetes.{name}": value for name, value in more.items()},
    }
    surface = asynccontextmanager(admission_surface(configured(flags, {}, None)))
    # Admission needs neither the ledger nor an authenticated caller.
    async with surface(cast("Any", None), cast("Any", None)) as said:
        yield f"https://localhost:{said.removesuffix(PATH).rpartition(':')[2]}{PATH}"


async def ask(url: str, trust: ssl.SSLContext, address: str = "127.0.0.1") -> int:
    """Return the status of the answer to a review from ``address``; 0 if there is no answer."""
    transport = httpx.AsyncHTTPTransport(verify=trust, local_address=address, trust_env=False)
    async with httpx.AsyncClient(transport=transport, timeout=30) as client:
        try:
            return (await client.post(url, json=REVIEW)).status_code
        except httpx.TransportError:
            return 0


def test_idle_connections_of_one_address_keep_no_review_out(tmp_path: Path) -> None:
    cert, key = certificate(tmp_path)
    trust = ssl.create_default_context(cafile=str(cert))

    async def attack() -> None:
        async with admitting(cert, key) as url, AsyncExitStack() as stack:
            port = int(url.removesuffix(PATH).rpartition(":")[2])
            for _ in range(OF_ADDRESS_MAX):
                _, writer = await asyncio.open_connection(
                    "127.0.0.1", port, ssl=trust, server_hostname="localhost"
                )
                stack.callback(writer.close)
            assert await ask(url, trust, "127.0.0.2") == 200
            deadline = Deadline("one that is idle has made room", WAIT_S)
            while await ask(url, trust) != 200:
                deadline.check()
                await asyncio.sleep(0.01)

    asyncio.run(attack())


def test_an_address_has_a_share_and_its_idle_connections_make_room() -> None:
    now = [0.0]
    connections = Connections(9, lambda: now[0], of_address_max=2)
    gone: list[str] = []

    def come(name: str, address: str) -> bool:
        connections.opened()
        is_in = connections.begin(name, address)
        if is_in:
            connections.idle(name, lambda: gone.append(name))
        else:
            connections.lost(name)
        return is_in

    assert come("a1", "a")
    assert come("a2", "a")
    assert not come("a3", "a")
    assert come("b1", "b")
    now[0] += IDLE_S_MIN
    connections.busy("a1")
    assert come("a4", "a")
    assert gone == ["a2"]
    connections.lost("a2")
    assert not come("a5", "a")
    connections.lost("a1")
    assert come("a6", "a")
    assert connections.open == 3


def test_a_client_shows_a_certificate_of_the_authority_that_is_named(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("own", "api", "eve")]
    for folder in folders:
        folder.mkdir()
    own, api, eve = map(certificate, folders)
    trusts = []
    for shown in (None, api, eve):
        trust = ssl.create_default_context(cafile=str(own[0]))
        if shown is not None:
            trust.load_cert_chain(*map(str, shown))
        trusts.append(trust)

    async def ask_all() -> list[int]:
        async with admitting(*own, admission_ca=str(api[0])) as url:
            return [await ask(url, trust) for trust in trusts]

    assert asyncio.run(ask_all()) == [0, 200, 0]


def test_an_authority_that_is_no_certificate_is_refused(tmp_path: Path) -> None:
    cert, key = certificate(tmp_path)

    async def serve() -> None:
        async with admitting(cert, key, admission_ca=str(tmp_path / "none")):
            raise AssertionError("it serves")

    with pytest.raises(CommandError, match=r"kubernetes\.admission_ca cannot be used"):
        asyncio.run(serve())


class Noting(BodyReader):
    """Notes the lengths of the bodies that it reads."""

    def __init__(self) -> None:
        super().__init__(memory_bytes_max=MEMORY_BYTES_MAX, body_bytes_max=BODY_BYTES_MAX)
        self.lengths: list[int] = []

    async def run(self, length: int, read: Any) -> Any:
        self.lengths.append(length)
        return await super().run(length, read)


def test_reviews_are_read_beside_the_loop_in_a_memory_of_which_each_address_has_a_part() -> None:
    async def answers() -> list[int]:
        bodies = Noting()
        admission = Admission(AdmissionRules(template="quorate-{owner}", account="q"), bodies)
        transport = httpx.ASGITransport(admission, client=("10.0.0.1", 1))
        eve = Caller(actor="", role=Role.USER, user="10.0.0.1")
        url = f"https://localhost{PATH}"
        async with httpx.AsyncClient(transport=transport) as client:
            wide = {**REVIEW, "wide": "x" * AT_ONCE_BYTES}
            found = [await client.post(url, json=wide)]
            assert bodies.lengths[0] > AT_ONCE_BYTES
            with bodies.held(eve) as held:
                held.hold(MEMORY_BYTES_MAX // OF_ONE_PART)
                found.append(await client.post(url, json=REVIEW))
            found.append(await client.post(url, content=b"x" * (BODY_BYTES_MAX + 1)))
            found.append(await client.post(url, content=b"[" * BODY_BYTES_MAX))
            many = b'{"request": {"uid": "1", "x": [%s[]]}}' % (b"[]," * (PARTS_MAX // 2))
            found.append(await client.post(url, content=many))
            assert found[-1].json() == {"message": f"no review: has more than {PARTS_MAX} values"}
            found.append(await client.post(url, content=b'{"request": 1}'))
        bodies.close()
        return [each.status_code for each in found]

    assert asyncio.run(answers()) == [200, 503, 413, 400, 400, 400]
