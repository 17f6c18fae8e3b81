"""Services for tests, each on a ledger with the fleet and the teams of the examples."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from quorate.documents import parse_documents
from quorate.documents.parse import Invalid
from quorate.documents.render import render
from tests.oracles.effort import leaves_out_slow
from tests.service.serving import Served, new_ledger, serving

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def documents_of(*names: str) -> list[dict[str, Any]]:
    """Return the documents of examples in the form in which clients send them."""
    found: list[dict[str, Any]] = []
    for name in names:
        text = (EXAMPLES / name).read_text(encoding="utf-8")
        parsed = parse_documents(text, source=name)
        assert not isinstance(parsed, Invalid), parsed
        found += [json.loads(json.dumps(render(each.spec), default=str)) for each in parsed.items]
    return found


@dataclass
class Stage:
    """A service with a fleet, and clients with tokens of all roles."""

    served: Served
    admin: httpx.Client
    user: httpx.Client
    auditor: httpx.Client
    stranger: httpx.Client

    def token(self, role: str, user: str, tenant: str = "", **more: Any) -> str:
        """Return a new token."""
        body = {"role": role, "user": user, "tenant": tenant} | more
        found = self.admin.post("/api/v1/tokens", json=body)
        assert found.status_code == 200, found.text
        return str(found.json()["token"]["secret"])


_QUICK: Final = frozenset({"test_config.py", "test_office.py", "test_openapi.py"})
"""Files that run after each change; the other files start servers or send thousands of requests."""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Skip files that contribute no requested test, because reading all files takes longest."""
    is_quick = leaves_out_slow(config) and collection_path.is_file()
    return True if is_quick and collection_path.name not in _QUICK else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark all tests of this folder as slow, except those in ``_QUICK``."""
    here = Path(__file__).parent
    for item in items:
        if item.path.parent == here and item.path.name not in _QUICK:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """Return a service that the tests of one module share."""
    with serving(new_ledger(tmp_path_factory.mktemp("stage"))) as served:
        admin = served.client(served.token)
        body = {"documents": documents_of("fleet.yaml", "teams.yaml")}
        applied = admin.post("/api/v1/apply", json=body)
        assert applied.status_code == 200, applied.text
        found = Stage(served, admin, admin, admin, admin)
        found.user = served.client(found.token("user", "ann", "rai"))
        found.auditor = served.client(found.token("auditor", "eve"))
        found.stranger = served.client(found.token("user", "sam", "partner"))
        yield found
        for client in (admin, found.user, found.auditor, found.stranger):
            client.close()
