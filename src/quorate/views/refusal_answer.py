"""Refusals in an answer: first the short name, then the sentence, then every number."""

from __future__ import annotations

from quorate.model.refusal import Refusal, RefusalCode, sentence

_OF_QUOTAS = (
    RefusalCode.MAX_NODES,
    RefusalCode.MAX_CONCURRENT_RUNS,
    RefusalCode.WAITING_FOR_QUOTA,
)


def error(name: str, refusal: Refusal) -> dict[str, object]:
    """Return a refusal as an answer of ``quorate calc``; ``name`` is the refusal's name there."""
    return {"error": name, "message": sentence(refusal), "refusal": refusal_tree(refusal)}


def invalid_request(message: str) -> dict[str, object]:
    """Return the answer to a request that cannot be evaluated."""
    return {"error": "InvalidRequest", "message": message}


def refusal_tree(refusal: Refusal) -> dict[str, object]:
    """Return ``refusal`` as JSON values."""
    tree: dict[str, object] = {
        "code": refusal.code.value,
        "subject": refusal.subject,
        "wanted": refusal.wanted,
        "short": refusal.short,
        "shortages": [
            {
                "where": shortage.where,
                "wanted": shortage.wanted,
                "available": shortage.available,
                "short": shortage.short,
                "limit": shortage.limit,
            }
            for shortage in refusal.shortages
        ],
    }
    if refusal.code in _OF_QUOTAS:
        tree |= {"current": refusal.current, "limit": refusal.limit}
    if refusal.remedy:
        tree["remedy"] = refusal.remedy
    if refusal.also is not None:
        tree["also"] = refusal_tree(refusal.also)
    return tree
