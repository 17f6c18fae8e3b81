"""Makes a picture of the demo's transcript: its important lines, as a terminal shows them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape
from typing import Final

COLUMNS: Final = 104
_WIDTH: Final = 880
_LINE: Final = 17
_TOP: Final = 44
_SHOWN: Final = (
    r"== 1\.",
    r"\$ quorate submit -f pretrain\.yaml",
    r"run/pretrain started",
    r"  PART ",
    r"  group/0 .*owned",
    r"  group/1 .*borrowed",
    r"  spare/0 ",
    r"  spare/1 ",
    r"",
    r"  eu-north.*free 8",
    r"  us-west/c1/A ",
    r"  us-west/c1/B ",
    r"== 2\.",
    r"\$ quorate explain detect",
    r"  budgets can pay 2 of 4 GPUs",
    r"    vision/north: can pay",
    r"a dry run showed",
    r"  quorate patch budget",
    r"      detect starts now",
    r"",
    r"\$ quorate patch budget",
    r"run/detect started",
    r"== 3\.",
    r"\$ quorate node fail a1",
    r"run/pretrain: spares take over",
    r"",
    r"\$ quorate logs pretrain \| grep",
    r"quorate: start 2",
    r"pretrain goes on from its checkpoint",
    r"pretrain step",
    r"== 4\.",
    r"\$ quorate plan grasp",
    r"    OWNER ",
    r"    speech ",
    r"    vision ",
    r"",
    r"\$ quorate logs \w+ \| grep stop",
    r"quorate: told to stop",
    r"\w+ received the stop signal",
    r"",
    r"\$ python verify_lottery\.py export\.jsonl",
    r"conflict\t",
    r"1\tCleared",
    r"== 5\.",
    r"\$ quorate --ledger forged\.db ledger verify$",
    r"error: forged\.db does not verify",
    r"== Who paid",
    r"\$ quorate get charges",
    r"RUN ",
    r"pretrain .*owned",
    r"pretrain .*borrowed",
    r"detect ",
    r"listen ",
    r"grasp ",
    r"TOTAL ",
)
"""The beginning of each line that is shown, in order; an empty text shows an empty line."""
_STYLE: Final = """
  .back { fill: #10161d; stroke: #3a4654 } text { fill: #d7dee6 }
  .head { fill: #7ee2a8; font-weight: bold } .typed { fill: #ffffff; font-weight: bold }
  .error { fill: #ff9a8f } .bar { fill: #8ecbff }
  @media (prefers-color-scheme: light) {
    .back { fill: #fbfcfd; stroke: #c5ced8 } text { fill: #24292f }
    .head { fill: #11703c } .typed { fill: #000000 } .error { fill: #b3261e }
    .bar { fill: #0b57a4 }
  }
"""


def picture(transcript: str) -> str:
    """Return the picture as SVG; raises ``ValueError`` if the transcript lacks a line."""
    lines = list(_lines(transcript))
    height = _TOP + _LINE * len(lines) + 14
    rows = "\n".join(
        f'  <text x="18" y="{_TOP + _LINE * at}"{_class(line)} xml:space="preserve">'
        f"{escape(line, quote=False)}</text>"
        for at, line in enumerate(lines)
        if line
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" '
        f'width="{_WIDTH}" height="{height}" role="img" '
        'font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace" font-size="13">\n'
        "  <title>quorate demo: five scenes, as a terminal shows them</title>\n"
        f"  <style>{_STYLE}  </style>\n"
        f'  <rect class="back" x="1" y="1" width="{_WIDTH - 2}" height="{height - 2}" rx="8"/>\n'
        f'  <text x="18" y="22" class="typed">$ make demo</text>\n{rows}\n</svg>\n'
    )


def _lines(transcript: str) -> Iterator[str]:
    found = iter(transcript.splitlines())
    for pattern in _SHOWN:
        if not pattern:
            yield ""
            continue
        line = next((line for line in found if re.match(pattern, line)), None)
        if line is None:
            raise ValueError(f"the transcript has no line that begins with {pattern!r} there")
        if line.startswith("== "):
            yield ""
        yield _cut(line.expandtabs(10))


def _cut(line: str) -> str:
    return line if len(line) <= COLUMNS else line[: COLUMNS - 3] + "..."


def _class(line: str) -> str:
    for begin, name in (("== ", "head"), ("$ ", "typed"), ("error: ", "error")):
        if line.startswith(begin):
            return f' class="{name}"'
    return ' class="bar"' if re.match(r"  \S+/\S+ +\w+ \[", line) else ""
