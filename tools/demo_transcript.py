"""Plays the demo, and writes docs/demo.txt and docs/demo.svg: ``python -m tools.demo_transcript``.

With ``--picture``, the demo is not played, and only the picture is made again from the text.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from quorate.cli.demo.demo_service import ALLOW_ROOT
from quorate.cli.demo.demo_story import AS_ROOT
from tools.demo_picture import picture

TRANSCRIPT: Final = Path("docs/demo.txt")
PICTURE: Final = Path("docs/demo.svg")
SECONDS_MAX: Final = 500
_MASKS: Final = (
    (r"\b\d{4}-\d\d-\d\dT[\d:.]+Z", "<time>"),
    (r"\((?:in )?\d+(?:ms|s|m|h)(?: \d+\w)?(?: ago)?\)", "(<span>)"),
    (r"\b(?=[0-9a-f]*[a-f])(?=[0-9a-f]*\d)[0-9a-f]{8,64}\b", "<hash>"),
    (r"\S*python[\d.]*(?= (?:train|verify_lottery)\.py)", "python"),
    (r"127\.0\.0\.1:[1-9]\d*", "127.0.0.1:<port>"),
    (r"^  (cd )?'?/.*$", r"  \1<folder>"),
    (r"\bsequence \d+(?:-\d+)?", "sequence <n>"),
    (r"\bblock \d+", "block <n>"),
    (r"\b(?:\d+ events in )?\d+ blocks", "<n> blocks"),
    (r"(receipt|--receipt) \d+:", r"\1 <n>:"),
    (r"\bstep \d+(, loss [\d.]+)?", "step <n>"),
    (r"\b\d+(?= GPU-milliseconds)", "<n>"),
    (r"\b\d+\.\d{3}\b", "<x.xxx>"),
    (r"\b\d+\.\d\d\b(?! %)", "<x.xx>"),
    (r"\b[01]\.\d{4}\b", "<score>"),
    (r"(?<=told to stop: )\d+ s\b", "<s>"),
    (r"(?<= )(?:in )?\d+[smhd](?: \d+[smh])?(?= )", "<s>"),
)
"""Patterns of the texts that differ from one play to the next, and their replacements."""
_MASKED: Final = re.compile(r"<[a-z.]+>")
_GAP: Final = re.compile(r"(?<=\S) {2,}")
_DRAWN: Final = "$ quorate get resolveroutcomes"
_PAID: Final = "== Who paid"
_CUT: Final = "  Who was cut?\n"


def play(folder: Path, *, python: str = sys.executable) -> str:
    """Play the demo in the new folder ``demo`` below ``folder``; return its output."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("QUORATE_")}
    done = subprocess.run(  # noqa: S603 - this project's own command
        [python, "-m", "quorate", "demo", "--dir", "demo"],
        cwd=folder,
        env={**environ, "NO_COLOR": "1", "COLUMNS": "80"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    if done.returncode:
        sys.exit(f"{done.stdout}\nthe demo ended with exit code {done.returncode}")
    return done.stdout


def victim_of(transcript: str) -> tuple[str, str]:
    """Return the run that the lottery drew, and its owner."""
    found = re.search(r"The lottery has drawn (\w+) of (\w+)", " ".join(transcript.split()))
    assert found is not None, "the transcript has no lottery"
    return found[1], found[2]


def as_any_user(transcript: str) -> str:
    """Return ``transcript`` as every user but root sees it."""
    said = r"\s+".join(map(re.escape, AS_ROOT.split()))
    return re.sub(rf"\n{said}\n", "", transcript).replace(f" {ALLOW_ROOT} &", " &")


def masked(transcript: str) -> str:
    """Return ``transcript`` without random and timed parts; the drawn run is called ``VICTIM``."""
    transcript = as_any_user(transcript)
    victim, owner = victim_of(transcript)
    other, other_owner = ("listen", "speech") if victim == "detect" else ("detect", "vision")
    roles = {victim: "VICTIM", owner: "LOSER_", other: "SPARED", other_owner: "WINNER"}
    before, drawn, rest = transcript.partition(_DRAWN)
    proof, paid, end = rest.partition(_PAID)
    end, cut, answer = end.partition(_CUT)
    proof = re.sub(r"(?<=A100 )\[[VSR ]+\]", "[<who>]", proof)
    text = before + drawn + _called(proof, roles) + paid + end + cut + _called(answer, roles)
    for pattern, name in _MASKS:
        text = re.sub(pattern, name, text, flags=re.MULTILINE)
    return "\n".join(_closed_up(line).rstrip() for line in text.splitlines()) + "\n"


def _closed_up(line: str) -> str:
    """Return ``line`` with gaps of one width, because masked texts differ in length."""
    return _GAP.sub("  ", line) if _MASKED.search(line) else line


def _called(text: str, roles: dict[str, str]) -> str:
    return re.sub(r"\b(?:" + "|".join(roles) + r")\b", lambda found: roles[found[0]], text)


def main() -> None:
    """Write the transcript and the picture."""
    if sys.argv[1:] != ["--picture"]:
        with TemporaryDirectory(prefix="quorate-") as folder:
            TRANSCRIPT.write_text(as_any_user(play(Path(folder))), encoding="utf-8")
    PICTURE.write_text(picture(TRANSCRIPT.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
