"""A webhook: its address, its notices, and their signatures.

Signatures follow the scheme of Standard Webhooks (standardwebhooks.com): three headers, and an
HMAC-SHA256 over the id, the time and the body. So a receiver can recognise forged and replayed
requests.
"""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from quorate.adapters.key_file import read_private
from quorate.model.notice_kinds import NoticeKind
from quorate.ports.errors import KeyFileError
from quorate.service import config_values as values
from quorate.service.config_values import Address, WrongSettingError
from quorate.service.metrics.metric_table import WEBHOOKS_MAX
from quorate.service.receivers.receiver_tables import (
    Readers,
    identity,
    kinds,
    receiver_name,
    tables_of,
)

TIMEOUT_S: Final = 10.0
"""How long a receiver may take to answer, if its configuration states no other time."""
_TIMEOUT_S_MAX: Final = 60.0
_URL_CHARS_MAX: Final = 2_048
_PREFIX: Final = "whsec_"
_KEY_BYTES: Final = range(24, 65)


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """A webhook; ``tenant`` includes the tenants below it.

    An empty ``tenant`` means all tenants, and empty ``kinds`` mean all kinds.
    """

    name: str
    url: str
    secret_file: str
    tenant: str = ""
    kinds: tuple[NoticeKind, ...] = ()
    timeout_s: float = TIMEOUT_S

    @property
    def digest(self) -> str:
        """A digest of address, tenant and kinds; with the name, it identifies the webhook."""
        return identity(self.tenant, *sorted(self.kinds), self.url)


@dataclass(frozen=True, slots=True)
class Seal:
    """Signs posts; the key is never shown."""

    key: bytes = field(repr=False)

    @classmethod
    def of_file(cls, path: str) -> Seal:
        """Return the signer with the key in a file of the operator; raises ``KeyFileError``."""
        text = read_private(
            Path(path), "webhook's secret file", ("the service cannot sign deliveries without it")
        )
        try:
            words = text.decode("ascii").strip()
            key = base64.b64decode(words.removeprefix(_PREFIX), validate=True)
        except (UnicodeDecodeError, binascii.Error):
            words, key = "", b""
        if not words.startswith(_PREFIX) or len(key) not in _KEY_BYTES:
            raise KeyFileError(
                f"{path} is not a webhook's secret: {_PREFIX} and {_KEY_BYTES[0]} to "
                f"{_KEY_BYTES[-1]} bytes in base64; make one: "
                f'echo "{_PREFIX}$(openssl rand -base64 32)"'
            )
        return cls(key)

    def headers(self, message: str, at_s: int, body: bytes) -> dict[str, str]:
        """Return the headers for ``body``."""
        signed = f"{message}.{at_s}.".encode() + body
        digest = hmac.digest(self.key, signed, "sha256")
        return {
            "content-type": "application/json",
            "webhook-id": message,
            "webhook-timestamp": str(at_s),
            "webhook-signature": f"v1,{base64.b64encode(digest).decode('ascii')}",
        }


def webhooks_of(given: object, where: str) -> tuple[tuple[Webhook, ...], list[str]]:
    """Return the webhooks of a configuration, and all faults.

    ``where`` names the configuration's file in the faults.
    """
    found, wrong = tables_of(given, f"{where}: webhooks", WEBHOOKS_MAX, _readers)
    return tuple(
        Webhook(
            name=each["name"],
            url=each["url"],
            secret_file=each["secret_file"],
            tenant=each["tenant"],
            kinds=each["kinds"],
            timeout_s=each["timeout"],
        )
        for each in found
    ), wrong


def _readers(tree: Mapping[str, Any]) -> Readers:
    insecure = tree.get("insecure") is True
    return {
        "name": (receiver_name, None),
        "url": (lambda value: _url(value, insecure=insecure), None),
        "tenant": (values.text, ""),
        "kinds": (kinds, ()),
        "secret_file": (values.path, None),
        "timeout": (values.seconds(0.1, _TIMEOUT_S_MAX), TIMEOUT_S),
        "insecure": (values.flag, False),
    }


def _url(value: object, *, insecure: bool) -> str:
    """Return the address to post to.

    The address must use TLS, unless it is on this machine or ``insecure`` is true.
    """
    text = values.text(value)
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        raise WrongSettingError("must be an address such as https://hooks.example/in") from None
    if parts.scheme not in ("http", "https") or not host or len(text) > _URL_CHARS_MAX:
        raise WrongSettingError("must be an address such as https://hooks.example/in")
    if parts.username is not None or parts.fragment:
        raise WrongSettingError("must contain no user, password or fragment")
    if parts.scheme == "http" and not (Address(host=host, port=0).is_loopback or insecure):
        raise WrongSettingError(
            "must begin with https: without TLS notices could be read on the way; set insecure = "
            "true if the network is safe"
        )
    return text


FIELDS: Final = tuple(_readers({}))
"""The names of all fields of a webhook's table."""
