"""``--mail-type`` and ``--mail-user``: which notices they ask for, and who gets them. Pure."""

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
    """Return the kinds of notices that ``--mail-type=value`` asks for, and what is to be said.

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
        elif word not in ("ALL", "ARRAY_TASKS"):  # Each task of an array is mailed in any case.
            raise ValueError(
                f"{word!r} is not known; write NONE, BEGIN, END, FAIL, REQUEUE or ALL, with commas"
            )
    note = f"{','.join(left_out)}: left out: there is no such notice" if left_out else ""
    return tuple(found), note


def mail_remark(to: str | None, kinds: tuple[str, ...] | None) -> str:
    """Return why no mail is asked for, or how it is sent; empty where none is wanted.

    ``to`` is None where no address was given, ``kinds`` where no ``--mail-type`` was.
    """
    if to is None:
        return "--mail-type: left out: who is mailed? add --mail-user=ADDRESS" if kinds else ""
    if kinds is None:
        return "--mail-user: left out: nothing is mailed without --mail-type, such as END"
    return "--mail-type: is for a service that sends mail to that domain" if kinds else ""
