"""Waldur MasterMind as an accounting system, through Waldur's own API client (docs/adr/0022).

The client reads the limit and the usage of a marketplace resource, and sets the usage of the
resource's components. Waldur keeps one figure for each resource, component and month. A report
replaces the figure, so a repeated report counts once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from time import monotonic
from typing import Any, Final, TypeVar
from uuid import UUID

import httpx
from waldur_api_client import AuthenticatedClient
from waldur_api_client.api.marketplace_component_usages import (
    marketplace_component_usages_set_usage as set_usage,
)
from waldur_api_client.api.marketplace_provider_resources import (
    marketplace_provider_resources_retrieve as retrieve,
)
from waldur_api_client.errors import UnexpectedStatus
from waldur_api_client.models.component_usage_create_request import ComponentUsageCreateRequest
from waldur_api_client.models.component_usage_item_request import ComponentUsageItemRequest
from waldur_api_client.models.resource_field_enum import ResourceFieldEnum

from quorate.model.amounts import HOUR_MS
from quorate.model.events import Allowance
from quorate.ports.accounting_port import Consumption
from quorate.ports.errors import AccountingDownError, AccountingError

ANSWER_BYTES_MAX: Final = 1024 * 1024
"""The most bytes that the client reads of one answer."""
HOURS_MAX: Final = 10**12
"""The most hours that the client accepts in an answer; a larger number is an error."""
_TOLD_MAX: Final = 200
"""The most characters of Waldur's error message that a message of Quorate quotes."""
_SERVER_FAULT: Final = 500
_TOO_MANY: Final = 429
_REMEDIES: Final = {
    401: "Waldur does not know the token; write a valid token into waldur.token_file",
    403: "the token lacks the permission; use a token of the offering's provider",
    404: "the resource does not exist, or this token may not see it; check waldur.links",
    _TOO_MANY: "Waldur received too many requests; Quorate asks again later",
}
_FIELDS: Final = [ResourceFieldEnum.LIMITS, ResourceFieldEnum.LIMIT_USAGE]

T = TypeVar("T")


class WaldurAccounting:
    """A client of one Waldur server, with one token. It is not thread-safe.

    Requests reuse the client's connections.
    """

    def __init__(self, url: str, token: str, timeout_s: float) -> None:
        self._url = url.rstrip("/")
        self._client = AuthenticatedClient(
            base_url=self._url,
            token=token,
            timeout=httpx.Timeout(timeout_s),
            httpx_args={"transport": _Bounded(timeout_s)},
        )

    def remaining(self, resource: str, components: Sequence[str]) -> tuple[Allowance, ...]:
        """Return the limit of each component and the limit's unused part; see ``Accounting``."""
        found = self._ask(lambda: retrieve.sync(UUID(resource), client=self._client, field=_FIELDS))
        limits = _table(found.limits, "limits", resource)
        used = _table(found.limit_usage, "limit_usage", resource)
        return tuple(_allowance(limits, used, each, resource) for each in components)

    def report(self, consumption: Consumption) -> None:
        """Set the usage of a month; see ``Accounting`` for the contract."""
        body = ComponentUsageCreateRequest(
            resource=UUID(consumption.resource),
            date=datetime.fromtimestamp(consumption.at_ms / 1_000, UTC),
            usages=[
                ComponentUsageItemRequest(
                    type_=each.component, amount=each.hours_text, description=consumption.note
                )
                for each in consumption.amounts
            ],
        )
        self._ask(lambda: set_usage.sync_detailed(client=self._client, body=body))

    def close(self) -> None:
        """Close the connections."""
        self._client.get_httpx_client().close()

    def _ask(self, request: Callable[[], T]) -> T:
        """Return Waldur's answer; translate errors of the client into errors of the port."""
        try:
            return request()
        except httpx.HTTPError as error:
            what = str(error) or type(error).__name__
            raise AccountingDownError(f"{self._url} cannot be queried: {what}") from error
        except UnexpectedStatus as error:
            raise _refused(self._url, error) from error
        except (ArithmeticError, AttributeError, KeyError, TypeError, ValueError) as error:
            # The client raises these if an answer does not have the expected fields.
            raise AccountingError(
                f"{self._url} sent an answer that Quorate cannot read: {type(error).__name__}: "
                f"{error}"
            ) from error


def _refused(url: str, error: UnexpectedStatus) -> AccountingError:
    code = error.status_code
    text = error.content.decode("utf-8", "replace")
    shown = "".join(c for c in text[:_TOLD_MAX] if c.isprintable())
    why = _REMEDIES.get(code, shown or "Waldur did not give a reason")
    is_down = code >= _SERVER_FAULT or code == _TOO_MANY
    kind = AccountingDownError if is_down else AccountingError
    return kind(f"{url} answered {code}: {why}")


def _table(found: Any, name: str, resource: str) -> Mapping[str, Any]:
    """Return a resource's table ``name``, by component; raise if the answer has no such table."""
    table = getattr(found, "additional_properties", None)
    if not isinstance(table, dict):
        raise AccountingError(f"resource {resource}: its {name} are missing")
    return table


def _allowance(
    limits: Mapping[str, Any], used: Mapping[str, Any], component: str, resource: str
) -> Allowance:
    if component not in limits:
        raise AccountingError(
            f"resource {resource}: component {component!r} has no limit; set one in Waldur, or "
            f"name another component in waldur.links"
        )
    granted_ms = _hours_ms(limits[component], f"limit of {component!r}", resource)
    # A component without a report in this period is not listed.
    used_ms = _hours_ms(used.get(component, 0), f"usage of {component!r}", resource)
    return Allowance(granted_ms=granted_ms, left_ms=granted_ms - used_ms)


def _hours_ms(value: object, what: str, resource: str) -> int:
    """Return hours in whole milliseconds, rounded down; raise if ``value`` is not valid."""
    hours = _number(value)
    if hours is None or not 0 <= hours <= HOURS_MAX:
        raise AccountingError(
            f"resource {resource}: the {what} must be hours from 0 to {HOURS_MAX}, got {value!r}"
        )
    return int(hours * HOUR_MS)


def _number(value: object) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        found = Decimal(str(value))
    except InvalidOperation:
        return None
    return found if found.is_finite() else None


class _Bounded(httpx.BaseTransport):
    """Reads whole answers, and limits the length of an answer and the time that it takes.

    The client's own time-out applies only to each part of an answer. A server that slowly sends
    single bytes could therefore keep the client waiting for ever.
    """

    def __init__(self, timeout_s: float) -> None:
        self._inner = httpx.HTTPTransport()
        self._timeout_s = timeout_s

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        until_s = monotonic() + self._timeout_s
        response = self._inner.handle_request(request)
        try:
            assert isinstance(response.stream, httpx.SyncByteStream)
            body = b"".join(_within(response.stream, request, until_s))
        finally:
            response.close()
        return httpx.Response(response.status_code, headers=response.headers, content=body)

    def close(self) -> None:
        self._inner.close()


def _within(
    stream: httpx.SyncByteStream, request: httpx.Request, until_s: float
) -> Iterator[bytes]:
    """Yield the parts of a body; raise if the body is too long or takes too long."""
    size = 0
    for part in stream:
        size += len(part)
        if size > ANSWER_BYTES_MAX:
            raise httpx.ReadError(f"the answer is longer than {ANSWER_BYTES_MAX} bytes")
        if monotonic() > until_s:
            raise httpx.ReadTimeout("the answer took too long", request=request)
        yield part
