"""Conflicts that may be declared, and conflicts that a run has entered: as lines or trees. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from quorate.core.preemption.conflict_preview import Contest, Entrant, Ordeal
from quorate.core.preemption.cut_order import Candidate
from quorate.core.preemption.lottery import first_draw_odds, run_odds, tokens_by_owner
from quorate.documents.times import time_text
from quorate.model.closed_words import counted
from quorate.model.events import ConflictDeclared, Cut, CutStep, Share
from quorate.views.kinds.kind import Tree
from quorate.views.kinds.kinds_plans import cut_tree, scope_text, scope_tree
from quorate.views.table import Column, indented, right, table
from quorate.views.word_forms import gpus, hours, names, odds_text, percent, since, until

_CUT_COLUMNS = (Column("STEP"), Column("RUN"), right("GPUS"), Column("LEASES"))
_TOKEN_COLUMNS = (
    Column("OWNER"),
    right("OWNER-FIRST"),
    Column("RUN"),
    right("GPUS"),
    right("RUN-FIRST"),
    right("CUT"),
)
_PAYER_COLUMNS = (Column("PAID-FROM"), Column("TIER"), right("GPUS"), right("HELD-GPU-HOURS"))
_STEPS = {
    CutStep.BACKFILL: "it used GPUs that were reserved for another run",
    CutStep.SPARE: "spares were given up",
    CutStep.SHRINK: "steps above its minimum were released",
    CutStep.BURST: "its owner was above its share",
    CutStep.LOTTERY: "drawn in the lottery",
}
_ORDEALS_MAX = 3
"""How many of a run's conflicts are described; older ones are only counted."""


def contest_lines(contest: Contest, now_ms: int) -> list[str]:
    """Return the cuts before a lottery, the runs in it with their odds, and a dummy draw."""
    short = f"{gpus(contest.deficit)} short of {scope_text(contest.scope)}"
    lines = [f"{short}, settled {until(contest.at_ms, now_ms)}"]
    if contest.cuts:
        unless = ", unless a draw makes that unnecessary" if contest.short else ""
        lines += [f"cut first, in this order{unless}:", indented(cuts_table(contest.cuts))]
    if contest.sample is None:
        return [*lines, f"these cuts are enough: no run is drawn; {_lost(contest)}"]
    tokens = counted(len(contest.entrants), "token")
    lines.append(
        f"{gpus(contest.short)} still missing: a lottery of {tokens} "
        f"of up to {gpus(contest.size_max)}; CUT is how often a run was cut "
        f"in {contest.draws} dummy draws:"
    )
    tokens_shown = [_token_row(each, contest.draws) for each in contest.entrants]
    lines.append(indented(table(_TOKEN_COLUMNS, tokens_shown)))
    drawn = ", ".join(
        f"{run} of {owner}{' (spared: not needed)' if run in contest.sample.spared else ''}"
        for owner, run in contest.sample.draws
    )
    lines += [
        f"a dummy draw: {drawn}; {_lost(contest)}",
        "the real draw uses another seed, which is not known before the draw",
    ]
    return lines


def cuts_table(cuts: Iterable[Cut | Candidate]) -> str:
    """Return the cuts as a table, in their order."""
    rows = [(cut.step.value, cut.run, str(cut.gpus), names(cut.leases, most=4)) for cut in cuts]
    return table(_CUT_COLUMNS, rows)


def tokens_table(declared: ConflictDeclared) -> str:
    """Return the runs that entered a conflict's lottery, with the odds to be drawn first."""
    held = tokens_by_owner(declared)
    odds, owners = run_odds(held), first_draw_odds(held)
    rows = [
        (
            token.owner,
            odds_text(owners[token.owner]),
            token.run,
            str(token.gpus),
            odds_text(odds[token.run]),
            token.nonce,
        )
        for token in sorted(declared.tokens, key=lambda token: (token.owner, token.run))
    ]
    return table((*_TOKEN_COLUMNS[:5], Column("NONCE")), rows)


def shares_table(payers: Iterable[Share]) -> str:
    """Return the payers of a planned start, and the GPU-hours held for it."""
    rows = [
        (share.payer, share.tier.value, str(share.gpus), hours(share.gpus * share.hold_ms))
        for share in payers
    ]
    return table(_PAYER_COLUMNS, rows) if rows else "nothing"


def _lost(contest: Contest) -> str:
    return f"{hours(contest.lost_gpu_ms)} GPU-hours of work would be lost"


def _token_row(entrant: Entrant, draws: int) -> tuple[str, ...]:
    return (
        entrant.owner,
        odds_text(entrant.owner_odds),
        entrant.run,
        str(entrant.gpus),
        odds_text(entrant.odds),
        percent(entrant.cut, draws),
    )


def contest_tree(contest: Contest) -> Tree:
    """Return a conflict that may be declared, for programs."""
    sample = contest.sample
    return {
        "conflict": contest.conflict or None,
        "scope": scope_tree(contest.scope),
        "at": time_text(contest.at_ms),
        "deficit": contest.deficit,
        "short": contest.short,
        "sizeMax": contest.size_max,
        "cuts": [cut_tree(cut) for cut in contest.cuts],
        "tokens": [
            {
                "owner": each.owner,
                "run": each.run,
                "gpus": each.gpus,
                "odds": str(each.odds),
                "ownerOdds": str(each.owner_odds),
                "dummyCuts": each.cut,
            }
            for each in contest.entrants
        ],
        "dummyDraws": contest.draws,
        "dummyDraw": None
        if sample is None
        else {
            "draws": [
                {"owner": owner, "run": run, "spared": run in sample.spared}
                for owner, run in sample.draws
            ],
            "victims": [cut_tree(victim) for victim in sample.victims],
        },
        "lostGPUMs": contest.lost_gpu_ms,
    }


# --- The conflicts of a run -----------------------------------------------------------------------


def ordeal_lines(ordeals: Sequence[Ordeal], now_ms: int) -> list[str]:
    """Return the last conflicts that a run entered, with seed and odds, newest first."""
    lines: list[str] = []
    for ordeal in list(reversed(ordeals))[:_ORDEALS_MAX]:
        lines += _ordeal(ordeal, now_ms)
    if len(ordeals) > _ORDEALS_MAX:
        lines.append(
            f"and {counted(len(ordeals) - _ORDEALS_MAX, 'conflict')} before: quorate get conflicts"
        )
    return lines


def _ordeal(ordeal: Ordeal, now_ms: int) -> list[str]:
    declared, resolved = ordeal.declared, ordeal.resolved
    asked = declared.reservation and f"for reservation/{declared.reservation}"
    asked = asked or (declared.scope.limit and f"because {declared.scope.limit} was tightened")
    what = "cut by" if ordeal.steps else "came through"
    when = since(resolved.at_ms, now_ms)
    lines = [f"{what} conflict/{declared.conflict} {when}, {asked or 'asked for by an operator'}"]
    lines += [f"  {gpus(count)}: {_STEPS[step]} ({step})" for step, count in ordeal.steps]
    if ordeal.was_spared:
        lines.append("  drawn, but not needed")
    if ordeal.odds is not None and ordeal.owner_odds is not None:
        lines.append(
            f"  odds to be drawn first: {odds_text(ordeal.odds)} of "
            f"{counted(ordeal.entrants, 'token')}; its owner {odds_text(ordeal.owner_odds)}"
        )
    if resolved.seed:
        lines.append(f"  seed {resolved.seed}, link {declared.preimage_index} of the lottery")
        lines.append("  check the draw: quorate lottery verify")
    lines.append(f"  details: quorate describe resolveroutcome {declared.conflict}")
    return lines


def ordeal_trees(ordeals: Iterable[Ordeal]) -> list[Tree]:
    """Return the conflicts that a run has entered, for programs."""
    return [
        {
            "conflict": each.declared.conflict,
            "at": time_text(each.resolved.at_ms),
            "reservation": each.declared.reservation or None,
            "cuts": [{"step": step.value, "gpus": count} for step, count in each.steps],
            "odds": None if each.odds is None else str(each.odds),
            "ownerOdds": None if each.owner_odds is None else str(each.owner_odds),
            "tokens": each.entrants,
            "seed": each.resolved.seed or None,
            "spared": each.was_spared,
        }
        for each in ordeals
    ]
