"""Chooses the form of a response by the ``Accept`` header."""

from __future__ import annotations

from typing import Final

from quorate.operations.operation import EVENT_STREAM, JSON, JSON_LINES, Effect, Operation
from quorate.service.problem_json import problem
from quorate.service.reply import Form

TOLD: Final = "application/vnd.quorate.told+json"
CSV: Final = "text/csv"
_RANGES_MAX: Final = 32

MEDIA_OF: Final = {
    Form.JSON: JSON,
    Form.TOLD: TOLD,
    Form.WIDE: f"{TOLD}; wide=true",
    Form.CSV: f"{CSV}; charset=utf-8",
    Form.LINES: JSON_LINES,
}


def media_of(operation: Operation) -> str:
    """Return the default media type of ``operation``."""
    return EVENT_STREAM if operation.effect is Effect.STREAM else operation.media


def form_of(accept: str, operation: Operation) -> Form:
    """Return the form that ``accept`` prefers; raises ``CommandError`` if no form fits."""
    usual = media_of(operation)
    forms = {JSON: Form.JSON, TOLD: Form.TOLD, CSV: Form.CSV}
    if usual == JSON_LINES:
        forms = {JSON_LINES: Form.LINES} | forms
    if usual == EVENT_STREAM:
        forms = {EVENT_STREAM: Form.LINES}
    if not accept.strip():
        return forms[usual]
    best: tuple[float, Form] | None = None
    for part in accept.split(",")[:_RANGES_MAX]:
        media, *parameters = (each.strip().lower() for each in part.split(";"))
        form = forms[usual] if _is_any(media, usual) else forms.get(media)
        weight = _weight(parameters)
        if form is Form.TOLD and "wide=true" in parameters:
            form = Form.WIDE
        if form is not None and weight > 0 and (best is None or weight > best[0]):
            best = (weight, form)
    if best is None:
        raise problem(
            "not-acceptable",
            f"Accept: {operation.name} is available as {', '.join(forms)}; ask for one of these",
        )
    return best[1]


def _is_any(media: str, usual: str) -> bool:
    return media in ("*/*", "*", f"{usual.partition('/')[0]}/*")


def _weight(parameters: list[str]) -> float:
    for each in parameters:
        name, _, value = each.partition("=")
        if name.strip() == "q":
            try:
                return min(1.0, max(0.0, float(value)))
            except ValueError:
                return 0.0
    return 1.0
