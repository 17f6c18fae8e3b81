"""``calc rounds``: plays the rounds of a recorded simulation again, with the recorded allocations.

The rounds follow Gavel's published mechanism, with its defects (``STRICT`` in
``policy/rounds/round_book.py``). So each number can be compared with the recording.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from quorate.calc.recorded_rates import recorded_rates
from quorate.calc.recording import Recording, read_recording, row_text
from quorate.documents.document_problem import CalcInputError
from quorate.policy.rounds.round_book import Shares
from quorate.policy.rounds.row_choice import Candidate
from quorate.sim.published import has_pairs, strict_orders, strict_rules
from quorate.sim.round_simulation import Moment, Play, Round, RoundsStuckError, Setting, Tally


def rounds(world: object) -> dict[str, object]:
    """Return every round, and the results of the jobs, with the field names of the recording."""
    recording = read_recording(world)
    play = play_of(recording)
    try:
        played = [_round_tree(each, play.candidates()) for each in play.rounds()]
    except RoundsStuckError as error:
        raise CalcInputError("resets", str(error)) from None
    return {"rounds": played, **_tally_tree(play.tally, recording)}


def play_of(recording: Recording) -> Play:
    """Return the simulation of ``recording``, before its first round."""
    pairs = has_pairs(recording.policy)
    setting = Setting(
        jobs=recording.jobs,
        servers=recording.servers,
        rules=strict_rules(recording.policy, recording.round_s, recording.reset_gap_s),
        has_pairs=pairs,
    )
    return Play(
        setting,
        recorded_rates(recording, setting.flavors, with_pairs=pairs),
        _allocations(recording),
        strict_orders(recording.policy, setting.flavors, recording.seed),
    )


def _allocations(recording: Recording) -> Callable[[Moment], Shares]:
    """Return a function that returns the next recorded allocation at each call."""
    resets = iter(enumerate(recording.resets))

    def allocate(moment: Moment) -> Shares:
        at, reset = next(resets, (0, None))
        if reset is None:
            raise CalcInputError(
                "resets", f"has no allocation for the reset at {moment.at_s} s; add it"
            )
        if reset.at_s != moment.at_s:
            raise CalcInputError(
                f"resets[{at}].t",
                f"is {reset.at_s}, but the next reset is at {moment.at_s} s; record the allocation"
                " of that time",
            )
        for row in reset.shares:
            if not moment.steps_left.keys() >= set(row):
                raise CalcInputError(
                    f"resets[{at}].allocation",
                    f"has {row_text(row)}, but not all of its jobs wait or run at {moment.at_s} s;"
                    " remove it",
                )
        return reset.shares

    return allocate


def _round_tree(each: Round, candidates: Sequence[Candidate]) -> dict[str, object]:
    book = each.book
    priorities: dict[str, dict[str, float]] = {flavor: {} for flavor in book.flavors}
    deficits: dict[str, dict[str, float]] = {flavor: {} for flavor in book.flavors}
    for one in candidates:
        priorities[one.flavor][row_text(one.row)] = one.priority
        deficits[one.flavor][row_text(one.row)] = one.deficit_s
    return {
        "t": each.at_s,
        "reset": each.is_renewed,
        "assignments": {row_text(row): list(where.gpus) for row, where in each.places.items()},
        "allocation": {row_text(row): dict(by) for row, by in book.shares.items()},
        "priorities": priorities,
        "deficits": deficits,
        "job_time_so_far": {row_text(row): dict(by) for row, by in book.had_s.items()},
        "worker_time_so_far": dict(book.given_s),
        "remaining_steps": dict(each.steps_left),
    }


def _tally_tree(tally: Tally, recording: Recording) -> dict[str, object]:
    return {
        "average_jct": tally.mean_completion_s,
        "utilization": tally.utilisation,
        "makespan": tally.ended_s,
        "jct": {job.name: tally.completion_s[job.name] for job in recording.jobs},
        "lease_extensions": [tally.extensions, tally.extension_chances],
    }
