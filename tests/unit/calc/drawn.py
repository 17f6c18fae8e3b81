"""Short functions for worlds: nodes, envelopes, budgets as JSON for ``quorate calc``."""

from __future__ import annotations

from typing import Any

NOW = "2026-01-01T12:00:00Z"
WEST = {"region": "west"}


def node(name: str, gpus: int = 8, domain: str = "A", flavor: str = "H100") -> dict[str, Any]:
    """Return a node in region west, cluster c."""
    return {
        "name": name,
        "region": "west",
        "cluster": "c",
        "domain": domain,
        "flavor": flavor,
        "gpus": gpus,
    }


def nodes(**domains: int) -> list[dict[str, Any]]:
    """Return nodes of 8 GPUs with the given number of GPUs in each domain."""
    return [
        node(f"{domain.lower()}{number:02d}", 8, domain)
        for domain, gpus in domains.items()
        for number in range(gpus // 8)
    ]


def fleet(**domains: int) -> dict[str, Any]:
    """Return a world of H100s and nothing else."""
    return {"flavor": "H100", "nodes": nodes(**domains)}


def envelope(name: str, concurrency: int, **more: object) -> dict[str, Any]:
    """Return an envelope of H100s in region west."""
    return {
        "name": name,
        "flavor": "H100",
        "concurrency": concurrency,
        "selector": WEST,
        **more,
    }


def budget(name: str, owner: str, *envelopes: dict[str, Any], **more: object) -> dict[str, Any]:
    """Return a budget."""
    return {"name": name, "owner": owner, "envelopes": list(envelopes), **more}


def lease(payer: str, gpus: int, **more: object) -> dict[str, Any]:
    """Return an open lease paid by ``budget/envelope``."""
    budget_name, envelope_name = payer.split("/")
    return {
        "budget": budget_name,
        "envelope": envelope_name,
        "gpus": gpus,
        "start": "2026-01-01T11:00:00Z",
        **more,
    }


def question(quantity: int, *, owner: str = "me", **more: object) -> dict[str, Any]:
    """Return a request for cover: H100s in region west."""
    return {"owner": owner, "flavor": "H100", "quantity": quantity, "location": WEST, **more}


def funds(*budgets: dict[str, Any], cover: dict[str, Any], **more: object) -> dict[str, Any]:
    """Return a world with budgets and a request for cover."""
    return {"now": NOW, "budgets": list(budgets), "cover": cover, **more}


def work(name: str, gpus: int, *, owner: str = "me", **more: object) -> dict[str, Any]:
    """Return a run of H100s."""
    return {"name": name, "owner": owner, "gpuType": "H100", "totalGPUs": gpus, **more}


def placed(run: str, node: str, gpus: int, **more: object) -> dict[str, Any]:
    """Return an open lease of ``run`` on ``node``, named after both, with a payer."""
    return {
        "name": f"{run}-{node}",
        "run": run,
        "node": node,
        "gpus": gpus,
        "start": "2026-01-01T10:00:00Z",
        **more,
    }
