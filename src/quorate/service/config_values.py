"""Parses the values of settings, from text or TOML; raises ``WrongSettingError`` for a fault."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from quorate.adapters import run_as as job_users
from quorate.adapters.stores.store_urls import ledger_path
from quorate.documents.labels import LABEL_KEY
from quorate.documents.pod_document import OBJECT_NAME
from quorate.documents.values import is_name
from quorate.ports.errors import StoreUrlError

PORT_MAX: Final = 65_535
_NAMESPACE_MAX: Final = 23
"""The longest template of a namespace's name.

A namespace may have 63 characters, and 40 of these are for an owner's name.
"""
LISTEN_EXAMPLE: Final = "127.0.0.1:8414"


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """An address to listen at: a host, and a port; port 0 means any free port."""

    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach the address."""
        if self.host == "localhost":
            return True
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def is_wildcard(self) -> bool:
        """Whether the address means all addresses of this machine."""
        try:
            return ip_address(self.host).is_unspecified
        except ValueError:
            return False

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class WrongSettingError(Exception):
    """Raised with a description of the valid values of a setting."""


def text(value: object) -> str:
    """Return ``value`` if it is one line of printable text."""
    if isinstance(value, str) and value.isprintable():
        return value
    raise WrongSettingError("must be text on one line")


def path(value: object) -> str:
    """Return the path of a file."""
    found = text(value)
    if "\0" in found or not found:
        raise WrongSettingError("must be a path")
    return found


def ledger(value: object) -> str:
    """Return the path of a ledger, or the URL of its store."""
    found = path(value)
    try:
        ledger_path(found)
    except StoreUrlError as error:
        raise WrongSettingError(f"must be the URL of a store, or a path: {error}") from None
    return found


def flag(value: object) -> bool:
    """Return whether the flag is on."""
    if isinstance(value, bool):
        return value
    words = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
    if isinstance(value, str) and value.lower() in words:
        return words[value.lower()]
    raise WrongSettingError("must be true or false")


def address(value: object) -> Address:
    """Return the address to listen at."""
    host, colon, port = text(value).rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    is_number = port.isascii() and port.isdecimal() and len(port) <= len(str(PORT_MAX))
    if colon and host and is_number and int(port) <= PORT_MAX:
        return Address(host=host, port=int(port))
    raise WrongSettingError(
        f"must be HOST:PORT with a port up to {PORT_MAX}, such as {LISTEN_EXAMPLE}"
    )


def count(least: int, most: int) -> Callable[[object], int]:
    """Return a parser of whole numbers in a range."""

    def read(value: object) -> int:
        if isinstance(value, str) and value.isascii() and value.isdecimal():
            value = int(value) if len(value) <= len(str(most)) else most + 1
        if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
            return value
        raise WrongSettingError(f"must be a whole number from {least} to {most}")

    return read


def seconds(least: float, most: float) -> Callable[[object], float]:
    """Return a parser of seconds in a range."""

    def read(value: object) -> float:
        try:
            found = float(value) if isinstance(value, str | int | float) else least - 1
        except ValueError:
            found = least - 1
        if not isinstance(value, bool) and least <= found <= most:
            return found
        raise WrongSettingError(f"must be seconds from {least:g} to {most:g}")

    return read


def one_of(*words: str) -> Callable[[object], str]:
    """Return a parser of one word among ``words``."""

    def read(value: object) -> str:
        if value in words:
            return str(value)
        raise WrongSettingError(f"must be {' or '.join(words)}")

    return read


def run_as(value: object) -> job_users.RunAs:
    """Return the system users that work runs as."""
    try:
        return job_users.run_as(value)
    except job_users.RunAsError as error:
        raise WrongSettingError(str(error)) from None


def web_address(value: object) -> str:
    """Return the address of a service; the address must use TLS or be on this machine."""
    found = text(value)
    parts = urlsplit(found)
    is_near = Address(host=parts.hostname or "", port=0).is_loopback
    if not parts.hostname or parts.query or parts.fragment or parts.username is not None:
        raise WrongSettingError("must be an address like https://waldur.example")
    if parts.scheme != "https" and not (parts.scheme == "http" and is_near):
        raise WrongSettingError("must be an address with https")
    return found


def service_address(value: object) -> str:
    """Return the address of a Quorate service, without a path."""
    found = text(value).rstrip("/")
    wrong = WrongSettingError("must be an address like https://one.example:8414")
    try:
        parts = urlsplit(found)
        is_whole = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        raise wrong from None
    if not is_whole or f"{parts.scheme}://{parts.netloc}" != found or "@" in parts.netloc:
        raise wrong
    return found


def keys_source(value: object) -> str:
    """Return where an issuer's keys are: a file, or an address with TLS or on this machine."""
    found = path(value)
    parts = urlsplit(found)
    if parts.scheme == "http":
        host = parts.hostname or ""
        if not Address(host=host, port=0).is_loopback:
            raise WrongSettingError("must be a path, or an address with https")
    elif parts.scheme not in ("", "https"):
        raise WrongSettingError("must be a path, or an address with https")
    return found


@dataclass(frozen=True, slots=True)
class Clusters:
    """The kubeconfig of each cluster, by the name that pools use for it.

    A kubeconfig may be followed by ``#`` and one of its contexts; ``in-cluster`` means the service
    account of the service's own pod.
    """

    kubeconfigs: Mapping[str, str]

    def __str__(self) -> str:
        return ",".join(f"{name}={where}" for name, where in self.kubeconfigs.items())


def clusters(value: object) -> Clusters:
    """Return clusters from a table, or from text like ``west=/etc/quorate/west.kubeconfig``."""
    found = value
    if isinstance(value, str):
        pairs = [each.partition("=") for each in value.split(",")]
        found = {name.strip(): where.strip() for name, _, where in pairs}
        if len(found) < len(pairs):
            raise WrongSettingError("must name each cluster once")
    if not isinstance(found, dict) or not found:
        raise WrongSettingError("must be NAME=KUBECONFIG, or a table of names and kubeconfigs")
    for name, where in found.items():
        if not is_name(name) or not isinstance(where, str) or not where:
            raise WrongSettingError(f"must have a name and a kubeconfig for each cluster: {name!r}")
        path(where)
    return Clusters(found)


def names(value: object) -> str:
    """Return names separated by commas; ``value`` is a list of names, or a text with commas."""
    found = value.split(",") if isinstance(value, str) else value
    if not isinstance(found, list) or not found:
        raise WrongSettingError("must be names separated by commas, or a list of names")
    cleaned = [each.strip() if isinstance(each, str) else "" for each in found]
    if not all(map(is_name, cleaned)):
        raise WrongSettingError("must have names only, such as west,east")
    return ",".join(cleaned)


def taint_keys(value: object) -> str:
    """Return keys of taints separated by commas; ``value`` is a list, or a text with commas."""
    found = value.split(",") if isinstance(value, str) else value
    if found in ([""], []):
        return ""
    keys = [str(each).strip() for each in found] if isinstance(found, list) else [""]
    if not all(map(LABEL_KEY.fullmatch, keys)):
        raise WrongSettingError(
            "must be keys of taints separated by commas, or a list of keys, such as "
            "nvidia.com/gpu,dedicated"
        )
    return ",".join(keys)


def namespace(value: object) -> str:
    """Return the name of a namespace, which may contain ``{owner}``."""
    found = text(value)
    if not OBJECT_NAME.fullmatch(found.replace("{owner}", "o")) or len(found) > _NAMESPACE_MAX:
        raise WrongSettingError(
            f"must be a namespace like quorate-{{owner}}, of {_NAMESPACE_MAX} characters at most"
        )
    return found
