"""Signatures of requests to an object store, by AWS Signature Version 4. Pure.

A test uses AWS's published example of a signed GET. The signature covers every given header.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Final
from urllib.parse import quote

from quorate.adapters.s3.s3_address import S3Key

ALGORITHM: Final = "AWS4-HMAC-SHA256"
_SERVICE: Final = "s3"


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Request:
    """The signed parts of a request. ``path`` is not escaped.

    ``at`` is the time of the request, in the form ``20130524T000000Z``.
    """

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body_sha256: str
    at: str


def signed_headers(request: S3Request, key: S3Key, region: str) -> dict[str, str]:
    """Return the headers of ``request``, and headers with its time, body hash and signature."""
    headers = {name.lower(): " ".join(value.split()) for name, value in request.headers.items()}
    headers |= {"x-amz-date": request.at, "x-amz-content-sha256": request.body_sha256}
    names = ";".join(sorted(headers))
    canonical = "\n".join(
        (
            request.method,
            quote(request.path, safe="/-_.~"),
            query_text(request.query),
            *(f"{name}:{headers[name]}" for name in sorted(headers)),
            "",
            names,
            request.body_sha256,
        )
    )
    day = request.at[:8]
    scope = f"{day}/{region}/{_SERVICE}/aws4_request"
    text = "\n".join((ALGORITHM, request.at, scope, sha256(canonical.encode()).hexdigest()))
    signing = f"AWS4{key.secret}".encode()
    for part in (day, region, _SERVICE, "aws4_request"):
        signing = _mac(signing, part)
    signature = _mac(signing, text).hex()
    credential = f"Credential={key.key_id}/{scope}"
    headers["authorization"] = (
        f"{ALGORITHM} {credential},SignedHeaders={names},Signature={signature}"
    )
    return headers


def query_text(query: Mapping[str, str]) -> str:
    """Return ``query`` in the form that is signed and sent: sorted and escaped."""
    pairs = sorted((quote(name, safe="-_.~"), quote(query[name], safe="-_.~")) for name in query)
    return "&".join(f"{name}={value}" for name, value in pairs)


def _mac(key: bytes, text: str) -> bytes:
    return hmac.new(key, text.encode(), sha256).digest()
