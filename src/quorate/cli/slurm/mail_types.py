"""``--mail-type`` and ``--mail-user``: the kinds of notices, and their receiver. Pure."""

from __future__ import annotations

from typing import Final

from quorate.model.notice_kinds import NoticeKind

_KINDS: Final[dict[str, tuple[NoticeKind, ...]]] = {
    "NONE": (),
    "BEGIN": (NoticeKind.RUN_STARTED,),
    "END": (NoticeKind.RUN_COMPLETED, NoticeKind.RUN_FAILED),
    "FAIL": (NoticeKind.RUN_FAILED,),
    "REQUEUE": (
        NoticeKind.RUN_CUT,
        NoticeKind.LOTTERY_LOST,
        NoticeKind.NODE_LOST,
        NoticeKind.MONEY_ENDED,
    ),
}
_ALL: Final = ("BEGIN", "END", "FAIL", "REQUEUE")
_NO_NOTICE: Final = frozenset(
    {"INVALID_DEPEND", "STAGE_OUT", "TIME_LIMIT", "TIME_LIMIT_90", "TIME_LIMIT_80", "TIME_LIMIT_50"}
)


def mailed_kinds(value: str) -> tuple[tuple[str, ...], str]:
    """Return the kinds of notices for ``--mail-type=value``, and a remark on ignored types.

    Raises ``ValueError`` for a word that Slurm does not know.
    """
    words = [each.strip().upper() for each in value.split(",")]
    if "ALL" in words:
        words += _ALL
    found: dict[str, None] = {}
    left_out: list[str] = []
    for word in words:
        if word in _NO_NOTICE:
            left_out.append(word)
        elif word in _KINDS:
            found |= dict.fromkeys(kind.value for kind in _KINDS[word])
        elif word not in ("ALL", "ARRAY_TASKS"):  # Each task sends mail without it, too.
            raise ValueError(
                f"unknown type {word!r}; write NONE, BEGIN, END, FAIL, REQUEUE or ALL, with commas"
            )
    note = f"{','.join(left_out)}: left out: no notice of this type exists" if left_out else ""
    return tuple(found), note


def mail_remark(to: str | None, kinds: tuple[str, ...] | None) -> str:
    """Return why no mail is sent, or what mail needs; empty if no mail was requested.

    ``to`` is None if no address was given. ``kinds`` is None if ``--mail-type`` was not given.
    """
    if to is None:
        return "--mail-type: left out: no address; add --mail-user=ADDRESS" if kinds else ""
    if kinds is None:
        return "--mail-user: left out: it needs --mail-type, such as END"
    return "--mail-type: needs a service that sends mail to that domain" if kinds else ""
