"""The arithmetic of the lottery, compared with numbers computed by hand and with its page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from hashlib import sha256
from typing import Any, Final

import pytest
from msgspec import structs

from quorate.core.preemption.lottery import (
    DRAW_TAG,
    Draws,
    SeedParts,
    chain_back,
    chain_before,
    chain_link,
    check_draws,
    cut_frequency,
    draw,
    dummy_seed,
    first_draw_odds,
    link_of,
    run_odds,
    scope_text,
    seed_of,
    seed_parts,
    tokens_by_owner,
)
from quorate.model.events import (
    ConflictDeclared,
    ConflictOutcome,
    ConflictResolved,
    Cut,
    CutStep,
    DrawnToken,
    Scope,
    Token,
)
from tests.oracles.lotteries import declaration, link, nothing_needed, outcome, token
from tests.tidy.tree import ROOT, fenced_blocks

PAGE: Final = ROOT / "docs" / "reference" / "lottery.md"
PARTS: Final = SeedParts(
    scope="flavor=H100",
    reservation="r1",
    start_ms=1_700_000_000_000,
    attempt=1,
    preimage=bytes(range(32)),
    nonces=("a", "b"),
)


def test_each_link_of_a_chain_is_the_hash_of_the_next() -> None:
    secret = b"s" * 32
    links = [chain_link(secret, number, length=5) for number in range(6)]
    assert links[5] == secret
    assert all(chain_before(links[n]) == links[n - 1] for n in range(1, 6))
    assert all(chain_back(links[n], n) == links[0] for n in range(6))
    assert links[4] == sha256(b"quorate-lottery-chain/1\0" + secret).digest()


@pytest.mark.parametrize("number", [-1, 6])
def test_a_chain_has_no_link_outside_its_length(number: int) -> None:
    with pytest.raises(AssertionError):
        chain_link(b"s" * 32, number, length=5)


@pytest.mark.parametrize(
    "text", ["", "00" * 31, "00" * 33, "AB" * 32, "zz" * 32, "00 " * 32, "0" * 63]
)
def test_only_64_lower_case_digits_are_a_link(text: str) -> None:
    assert link_of(text) is None
    assert link_of("ab" * 32) == b"\xab" * 32


def test_the_seed_is_the_hash_of_its_parts_behind_their_lengths() -> None:
    plain = b""
    for part in (
        b"quorate-lottery-seed/1",
        b"flavor=H100",
        b"r1",
        b"1700000000000",
        b"1",
        bytes(range(32)),
        b"2",
        b"a",
        b"b",
        b"",
    ):
        plain += len(part).to_bytes(8, "big") + part
    assert seed_of(PARTS) == sha256(plain).digest()


@pytest.mark.parametrize(
    "changed",
    [
        {"scope": "flavor=H10"},
        {"reservation": "r2"},
        {"start_ms": 1},
        {"attempt": 2},
        {"preimage": bytes(32)},
        {"nonces": ("ab",)},
        {"nonces": ("b", "a")},
        {"nonces": ("a", "b", "")},
        {"beacon": "x"},
    ],
)
def test_every_part_changes_the_seed(changed: dict[str, Any]) -> None:
    assert seed_of(replace(PARTS, **changed)) != seed_of(PARTS)


def test_a_scope_is_a_json_array_of_its_fields() -> None:
    scope = Scope("p", 'H"1\\', ("eu/a", "é\n\x01"), "cap B/C")
    assert scope_text(scope) == '["p","H\\"1\\\\",["eu/a","é\\n\\u0001"],"cap B/C"]'


def test_the_parts_of_a_seed_are_those_of_the_declaration() -> None:
    declared = structs.replace(
        declaration(), tokens=(Token("ada", "z", 8, "last"), Token("zoe", "a", 8, "first"))
    )
    assert seed_parts(declared, b"p" * 32, "beacon") == SeedParts(
        scope='["default","H100",["eu/a/f1","eu/a/f2"],""]',
        reservation="r-1",
        start_ms=declared.due_ms,
        attempt=1,
        preimage=b"p" * 32,
        nonces=("first", "last"),
        beacon="beacon",
    )


def test_tokens_are_grouped_by_owner_in_the_order_of_names() -> None:
    tokens = (token("zoe", "m"), token("ada", "z"), token("zoe", "a"))
    grouped = tokens_by_owner(structs.replace(declaration(), tokens=tokens))
    assert list(grouped.items()) == [("ada", ("z",)), ("zoe", ("a", "m"))]


def test_a_draw_is_repeated_exactly_and_names_every_token_once() -> None:
    tokens = {"x": ("x1", "x2"), "y": ("y1",), "z": ()}
    first = list(draw(b"seed", tokens))
    assert first == list(draw(b"seed", tokens))
    assert sorted(first) == [("x", "x1"), ("x", "x2"), ("y", "y1")]


def test_the_order_in_which_tokens_are_listed_makes_no_difference() -> None:
    listed = {"y": ("y1", "y2", "y3"), "x": ("x1", "x2")}
    turned = {"x": ("x2", "x1"), "y": ("y3", "y1", "y2")}
    for number in range(20):
        assert list(draw(bytes([number]), listed)) == list(draw(bytes([number]), turned))


def test_a_drawn_owner_yields_all_it_has_before_the_next_is_drawn() -> None:
    tokens = {owner: tuple(f"{owner}{n}" for n in range(3)) for owner in "abc"}
    for number in range(50):
        owners = [owner for owner, _ in draw(bytes([number]), tokens)]
        assert [owners[0:3], owners[3:6], owners[6:9]] == [[o] * 3 for o in owners[::3]]


def test_candidates_above_the_largest_multiple_are_passed_over() -> None:
    bound = (1 << 63) + 1
    candidates = [
        int.from_bytes(sha256(DRAW_TAG + b"seed" + n.to_bytes(8, "big")).digest()[:8], "big")
        for n in range(400)
    ]
    kept = [candidate for candidate in candidates if candidate < bound]
    assert 150 < len(kept) < 250, "about half of them are too large to be fair"
    draws = Draws(b"seed")
    assert [draws.below(bound) for _ in kept] == kept


def test_every_owner_has_the_same_odds_and_shares_them_among_its_runs() -> None:
    tokens = {"big": ("b1", "b2", "b3"), "one": ("o",), "none": ()}
    assert first_draw_odds(tokens) == {"big": Fraction(1, 2), "one": Fraction(1, 2)}
    assert run_odds(tokens) == {
        "b1": Fraction(1, 6),
        "b2": Fraction(1, 6),
        "b3": Fraction(1, 6),
        "o": Fraction(1, 2),
    }
    assert first_draw_odds({}) == run_odds({}) == {}


def test_a_cut_frequency_counts_the_draws_in_which_a_run_is_a_victim() -> None:
    tokens = {"x": ("x1", "x2"), "y": ("y1",)}

    def settle(seed: bytes) -> list[str]:
        _, run = next(draw(seed, tokens))
        return [run, run, "always"]

    counts = cut_frequency(settle, ["x1", "x2", "y1", "always", "never"])
    assert counts == cut_frequency(settle, ["x1", "x2", "y1", "always", "never"])
    assert counts["always"] == 1_000
    assert counts["never"] == 0
    assert counts["x1"] + counts["x2"] + counts["y1"] == 1_000
    assert 440 < counts["y1"] < 560
    assert 200 < counts["x1"] < 300
    assert cut_frequency(settle, ["x1", "x2", "y1", "always"], draws=1)["always"] == 1


def test_a_cut_frequency_knows_every_victim() -> None:
    with pytest.raises(AssertionError):
        cut_frequency(lambda _: ["stranger"], ["known"], draws=1)


def test_dummy_seeds_differ_and_have_a_tag_of_their_own() -> None:
    seeds = [dummy_seed(number) for number in range(100)]
    assert len(set(seeds)) == 100
    assert seeds[1] == sha256(b"quorate-lottery-dummy/1\0" + (1).to_bytes(8, "big")).digest()


# --- A published outcome ----------------------------------------------------------------------


@pytest.mark.parametrize(("draws", "spared"), [(0, ()), (1, ()), (3, (1,)), (5, (0, 2))])
def test_an_honest_outcome_has_no_fault(draws: int, spared: tuple[int, ...]) -> None:
    declared = declaration()
    assert check_draws(declared, outcome(declared, draws=draws, spared=spared)) == []
    assert check_draws(declared, nothing_needed(declared)) == []


def _other_run(resolved: ConflictResolved) -> str:
    return next(run for run in ("a1", "b1", "c1") if run not in {d.run for d in resolved.draws})


_FORGED: Final[dict[str, tuple[Callable[[ConflictResolved], ConflictResolved], str]]] = {
    "preimage of another link": (
        lambda shown: structs.replace(shown, preimage=link(2).hex()),
        "does not hash to the commitment",
    ),
    "preimage in capitals": (
        lambda shown: structs.replace(shown, preimage=shown.preimage.upper()),
        "does not hash to the commitment",
    ),
    "no preimage": (
        lambda shown: structs.replace(shown, preimage=""),
        "does not hash to the commitment",
    ),
    "another seed": (
        lambda shown: structs.replace(shown, seed="00" * 32),
        "the seed does not follow from its parts",
    ),
    "a beacon": (
        lambda shown: structs.replace(shown, beacon="round 8"),
        "a beacon is shown, but beacons are not in use",
    ),
    "draws in another order": (
        lambda shown: structs.replace(shown, draws=shown.draws[::-1]),
        "not the beginning of the sequence",
    ),
    "a draw left out": (
        lambda shown: structs.replace(
            shown, draws=shown.draws[1:], cuts=tuple(c for c in shown.cuts if c.run != "b1")
        ),
        "not the beginning of the sequence",
    ),
    "a run that did not enter": (
        lambda shown: structs.replace(
            shown, draws=(*shown.draws, DrawnToken("ada", "stranger", spared=True))
        ),
        "did not enter: stranger",
    ),
    "a spared run is cut": (
        lambda shown: structs.replace(
            shown, draws=tuple(structs.replace(each, spared=True) for each in shown.draws)
        ),
        "not exactly the runs that were drawn",
    ),
    "a run is cut that was not drawn": (
        lambda shown: structs.replace(
            shown,
            cuts=(*shown.cuts, Cut(CutStep.LOTTERY, _other_run(shown), 0, 8, ("lease",))),
        ),
        "not exactly the runs that were drawn",
    ),
    "a victim goes on": (
        lambda shown: structs.replace(shown, cuts=shown.cuts[:-1]),
        "not exactly the runs that were drawn",
    ),
    "cut although not cleared": (
        lambda shown: structs.replace(shown, outcome=ConflictOutcome.INSUFFICIENT),
        "although the outcome is Insufficient",
    ),
    "a seed although nothing was drawn": (
        lambda shown: structs.replace(shown, draws=(), cuts=()),
        "no token was drawn, but",
    ),
}


@pytest.mark.parametrize("name", _FORGED)
def test_a_forged_outcome_is_found(name: str) -> None:
    forge, expected = _FORGED[name]
    declared = declaration()
    shown = outcome(declared)
    assert expected in "; ".join(check_draws(declared, forge(shown)))


@pytest.mark.parametrize(
    "changed",
    [
        {"scope": Scope("default", "H100", ("eu/a/f2", "eu/a/f1"))},
        {"scope": Scope("default", "H100", ("eu/a/f1", "eu/a/f2"), "cap B/C")},
        {"reservation": "r-2"},
        {"due_ms": 1},
        {"attempt": 2},
        {"commitment": link(1).hex()},
        {"size_max": 7},
        {"tokens": ()},
        {"tokens": (token("ada", "a1"), token("ben", "a1"))},
        {"tokens": tuple(token("ada", run) for run in ("a1", "a2", "b1", "c1", "c2"))},
    ],
    ids=str,
)
def test_an_outcome_does_not_fit_another_declaration(changed: dict[str, Any]) -> None:
    declared = declaration()
    shown = outcome(declared)
    assert check_draws(structs.replace(declared, **changed), shown) != []


def test_a_run_that_entered_twice_is_found() -> None:
    declared = declaration()
    twice = structs.replace(declared, tokens=(*declared.tokens, token("ada", "a1")))
    assert "a run entered with more than one token" in check_draws(twice, outcome(twice))


# --- The page ---------------------------------------------------------------------------------


def _example() -> tuple[ConflictDeclared, list[bytes]]:
    links = [chain_link(bytes(range(32)), number, length=4) for number in range(5)]
    tokens = (
        Token("ada", "train-1", 8, "6f2a"),
        Token("ada", "train-2", 8, "91c0"),
        Token("ben", "sweep", 8, "07"),
        Token("cy", "eval", 8, ""),
    )
    declared = structs.replace(
        declaration(),
        scope=Scope("default", "H100", ("eu/a/f1",)),
        reservation="r-7",
        due_ms=1_700_000_900_000,
        commitment=links[0].hex(),
        tokens=tokens,
    )
    return declared, links


def _block(seed: bytes, number: int) -> str:
    return sha256(DRAW_TAG + seed + number.to_bytes(8, "big")).digest()[:8].hex()


def test_the_example_of_the_page_is_what_the_code_gives() -> None:
    declared, links = _example()
    parts = seed_parts(declared, links[1])
    seed = seed_of(parts)
    lines = [f"link {number}   {links[number].hex()}" for number in (4, 3, 2, 1, 0)]
    lines += [f"scope    {parts.scope}", "nonces   " + " ".join(f'"{n}"' for n in parts.nonces)]
    lines.append(f"seed     {seed.hex()}")
    drawn = list(draw(seed, tokens_by_owner(declared)))
    assert drawn == [("ada", "train-2"), ("ada", "train-1"), ("cy", "eval"), ("ben", "sweep")]
    numbers = Draws(seed)
    choices = [
        ["ada", "ben", "cy"],
        ["train-1", "train-2"],
        ["train-1"],
        ["ben", "cy"],
        ["eval"],
        ["ben"],
        ["sweep"],
    ]
    for number, names in enumerate(choices):
        index = numbers.below(len(names))
        text = f"below {len(names)} is {index}: {names[index]}"
        lines.append(f"block {number}  {_block(seed, number)} {text}")
    (shown,) = fenced_blocks(PAGE.read_text(encoding="utf-8"), "text")
    assert shown.splitlines() == lines
