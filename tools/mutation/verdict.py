"""Computes the score: the part of the mutants, without accepted survivors, that tests noticed."""

from __future__ import annotations

import json
import tomllib
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from tools.mutation.mutants import Mutant
from tools.mutation.trials import Outcome

Key = tuple[str, str, str, str]
_FIELDS: Final = ("module", "function", "operator", "text")
_VERDICTS: Final = ("killed", "timeout", "survived", "uncovered")
_TEXT_CHARS_MAX: Final = 160


class AcceptedError(Exception):
    """The list of accepted survivors has a wrong entry."""


def read_accepted(path: Path) -> dict[Key, str]:
    """Return, by key, the reason why each mutant in the file need not be noticed."""
    found: dict[Key, str] = {}
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    entries = tomllib.loads(text).get("accepted", [])
    for number, entry in enumerate(entries, start=1):
        wrong = {*_FIELDS, "reason"} ^ entry.keys()
        if wrong or not all(isinstance(said, str) and said for said in entry.values()):
            raise AcceptedError(
                f"{path.name}: entry {number} needs text for {', '.join(_FIELDS)} and reason, "
                f"and nothing else; see {', '.join(sorted(wrong)) or 'its values'}"
            )
        key = (entry["module"], entry["function"], entry["operator"], entry["text"])
        if key in found:
            raise AcceptedError(f"{path.name}: entry {number} is there twice: {key}")
        found[key] = entry["reason"]
    return found


def check_accepted(accepted: Iterable[Key], mutants: Iterable[Mutant]) -> None:
    """Raise ``AcceptedError`` if an entry names no mutant of the present source."""
    known = {mutant.key for mutant in mutants}
    stale = [key for key in accepted if key not in known]
    if stale:
        lines = "\n".join("  " + " | ".join(key) for key in stale)
        raise AcceptedError(f"accepted, but there is no such mutant (any more); remove:\n{lines}")


def draw(mutants: Sequence[Mutant], *, total: int, seed: int, at_least: int = 4) -> list[Mutant]:
    """Return a sample of about ``total`` mutants, at least ``at_least`` from each module.

    The same seed draws the same mutants. A larger sample contains the smaller one. A change of the
    source affects only the mutants that it changes.
    """
    counts = Counter(mutant.module for mutant in mutants)
    chosen: list[Mutant] = []
    for module, count in counts.items():
        ranked = sorted((m for m in mutants if m.module == module), key=lambda m: m.rank(seed))
        chosen += ranked[: max(at_least, total * count // len(mutants))]
    return chosen


def score_percent(outcomes: Sequence[Outcome]) -> float:
    """Return the percentage of noticed mutants; mutants that no test executes are not noticed."""
    noticed = sum(outcome.verdict in ("killed", "timeout") for outcome in outcomes)
    return 100 * noticed / len(outcomes) if outcomes else 100.0


def as_json(outcomes: Sequence[Outcome], *, seed: int, accepted: int) -> str:
    """Return the report as JSON: the score, and every outcome other than ``killed``."""
    return json.dumps(
        {
            "seed": seed,
            "mutants": len(outcomes),
            "accepted": accepted,
            "score_percent": round(score_percent(outcomes), 2),
            "verdicts": dict(Counter(outcome.verdict for outcome in outcomes)),
            "modules": {m: dict(Counter(o.verdict for o in of)) for m, of in _by_module(outcomes)},
            "outcomes": [
                {
                    "verdict": outcome.verdict,
                    "line": outcome.mutant.line,
                    **dict(zip(_FIELDS, outcome.mutant.key, strict=True)),
                    "noticed_by": outcome.noticed_by,
                    "seconds": round(outcome.seconds, 2),
                }
                for outcome in outcomes
            ],
        },
        indent=1,
    )


def as_table(outcomes: Sequence[Outcome]) -> str:
    """Return the report as text: a line for each module, then each mutant to examine."""
    head = f"{'module':<28}{'mutants':>9}" + "".join(f"{v:>11}" for v in _VERDICTS) + f"{'%':>8}"
    lines = [head]
    for module, of in [*_by_module(outcomes), ("all", outcomes)]:
        counts = Counter(outcome.verdict for outcome in of)
        cells = "".join(f"{counts[verdict]:>11}" for verdict in _VERDICTS)
        lines.append(f"{module:<28}{len(of):>9}{cells}{score_percent(of):>8.1f}")
    for verdict in _VERDICTS[1:]:
        shown = [one_line(outcome) for outcome in outcomes if outcome.verdict == verdict]
        lines += ["", f"{verdict}:", *(f"  {text}" for text in shown)] if shown else []
    return "\n".join(lines)


def one_line(outcome: Outcome) -> str:
    """Return the place of the mutant and its change."""
    mutant = outcome.mutant
    text = mutant.text if len(mutant.text) <= _TEXT_CHARS_MAX else f"{mutant.text[:156]} ..."
    return f"{mutant.module}:{mutant.line} {mutant.function} [{mutant.operator}] {text}"


def _by_module(outcomes: Sequence[Outcome]) -> list[tuple[str, list[Outcome]]]:
    modules = sorted({outcome.mutant.module for outcome in outcomes})
    return [(name, [o for o in outcomes if o.mutant.module == name]) for name in modules]
