"""The codec: refused input and its errors, old event formats, and the exported format."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from quorate.ledger.codec import (
    EventDecoder,
    decode_events,
    encode_events,
    event_from_json,
    event_to_json,
)
from quorate.ledger.errors import CorruptLedgerError, UnknownEventError
from quorate.model.amounts import PPM
from quorate.model.events import (
    EndReason,
    Event,
    Fact,
    LeaseEnded,
    LeaseStarted,
    NodeApplied,
    Outcome,
    Role,
    RoundCause,
    RoundCode,
    RoundShare,
    RoundShared,
    RunEnded,
    StartReason,
    Tier,
)
from quorate.model.specs import EnvelopeId, Node

LEASE = LeaseStarted(
    1_700_000_000_000,
    "user:ann",
    lease="train/0",
    run="train",
    partner=None,
    comp_path="group/0",
    bundle=0,
    role=Role.ACTIVE,
    slots=(("n2", 0b1011), ("n1", 2**63 | 1)),
    payer=EnvelopeId("lab/west"),
    tier=Tier.OWNED,
    hold_gpu_ms=900_000,
    start_ms=1_700_000_000_000,
    reason=StartReason.START,
)
ENDED = RunEnded(1_700_000_000_001, "user:ann", "train", Outcome.COMPLETED)
NODE = Node(name="n1", flavor="h100", gpus=8, region="eu", cluster="c", domain="d")


def packed(*rows: object) -> bytes:
    """Return ``rows`` encoded like events of the ledger."""
    return msgspec.msgpack.encode(rows)


def test_events_are_stored_by_position_under_their_tag() -> None:
    stored = msgspec.msgpack.decode(encode_events([ENDED]))
    assert stored == [["run-ended/1", 1_700_000_000_001, "user:ann", "train", "Completed", ""]]


def test_no_events_are_an_empty_array() -> None:
    assert decode_events(encode_events([])) == []


@pytest.mark.parametrize("tag", ["run-ended/2", "lottery-drawn/1"])
def test_unknown_tag_is_named_with_its_sequence_and_the_remedy(tag: str) -> None:
    with pytest.raises(UnknownEventError) as caught:
        decode_events(
            packed(["run-ended/1", 1, "a", "r", "Completed", ""], [tag, 2, "a", "r"]), first_seq=41
        )
    assert caught.value.tag == tag
    assert caught.value.seq == 42
    assert tag in str(caught.value)
    assert "newer Quorate" in str(caught.value)


@pytest.mark.parametrize(
    "row",
    [
        ["run-ended/1", "soon", "a", "r", "Completed", ""],  # time of the wrong type
        ["run-ended/1", 1.5, "a", "r", "Completed", ""],  # not an integer
        ["run-ended/1", 1, "a", "r"],  # too few fields
        ["run-ended/1", 1, "a", "r", "Vanished", ""],  # an outcome that does not exist
        ["run-ended/1", 1, "a", None, "Completed", ""],
        ["node-applied/1", 1, "a", {"name": "n", "colour": "red"}],  # an unknown field
        [7, 1, "a"],  # a tag that is not a text
        [],
        "run-ended/1",
        None,
    ],
)
def test_malformed_event_is_an_error_with_its_sequence(row: object) -> None:
    with pytest.raises(CorruptLedgerError) as caught:
        decode_events(packed(["run-ended/1", 1, "a", "r", "Completed", ""], row), first_seq=7)
    assert caught.value.seq == 8


def test_text_that_is_not_utf_8_is_an_error() -> None:
    stored = encode_events([ENDED]).replace(b"train", b"\xff\xfe\xfd\xfc\xfb")
    with pytest.raises(CorruptLedgerError) as caught:
        decode_events(stored, first_seq=3)
    assert caught.value.seq == 3


@pytest.mark.parametrize(
    "data",
    [b"", b"\xc1", packed(["run-ended/1"])[:-3], encode_events([ENDED]) + b"\0", b"\x91" * 100_000],
    ids=["nothing", "no such byte", "cut off", "something after the end", "nested without end"],
)
def test_bytes_that_are_no_array_of_events_are_an_error(data: bytes) -> None:
    with pytest.raises(CorruptLedgerError):
        decode_events(data)


# An invented past: a run once ended without an outcome, then with a flag, now with an outcome.


class RunStopped(Fact, frozen=True, tag="run-stopped/1"):
    run: str


class RunStopped2(Fact, frozen=True, tag="run-stopped/2"):
    run: str
    failed: bool


def _with_flag(old: RunStopped) -> RunStopped2:
    return RunStopped2(old.at_ms, old.actor, old.run, failed=False)


def _with_outcome(old: RunStopped2) -> RunEnded:
    outcome = Outcome.FAILED if old.failed else Outcome.COMPLETED
    return RunEnded(old.at_ms, old.actor, old.run, outcome)


UPCASTING = EventDecoder(Event, {RunStopped: _with_flag, RunStopped2: _with_outcome})


def test_old_shapes_come_out_as_current_events_in_their_places() -> None:
    stored = msgspec.msgpack.encode(
        [
            RunStopped(1, "a", "first"),
            ENDED,
            RunStopped2(2, "a", "second", failed=True),
            LEASE,
        ]
    )
    assert UPCASTING.decode(stored, first_seq=1) == [
        RunEnded(1, "a", "first", Outcome.COMPLETED),
        ENDED,
        RunEnded(2, "a", "second", Outcome.FAILED),
        LEASE,
    ]


@pytest.mark.parametrize(
    ("note", "causes"),
    [([], ()), ([""], ()), (["why"], (RoundCause(RoundCode.AS_RECORDED, note="why"),))],
)
def test_the_note_of_an_older_round_is_its_cause(
    note: list[str], causes: tuple[RoundCause, ...]
) -> None:
    row = ["round-shared/1", 1, "a", "pool", 2, "by_weight", 9, ["H100"], [8], [], [], [], *note]
    (found,) = decode_events(packed(row))
    assert found == RoundShared(
        at_ms=1,
        actor="a",
        pool="pool",
        number=2,
        policy="by_weight",
        until_ms=9,
        flavors=("H100",),
        gpus=(8,),
        shares=(),
        prices=(),
        grants=(),
        owed_rounds_max=10,
        causes=causes,
    )


def test_a_round_of_an_older_ledger_lets_runs_be_owed_ten_rounds() -> None:
    cause = [RoundCode.AS_RECORDED.value, "", 0, 0, 0, "why"]
    row = ["round-shared/2", 1, "a", "pool", 2, "by_weight", 9, ["H100"], [8], [], [], [], [cause]]
    (found,) = decode_events(packed(row))
    assert isinstance(found, RoundShared)
    assert found.owed_rounds_max == 10
    assert found.causes == (RoundCause(RoundCode.AS_RECORDED, note="why"),)


def test_shares_of_an_older_round_have_no_part_in_pairs() -> None:
    shares = [["r", [PPM // 2], [10 * PPM], 1], ["s", [0], [0], 0]]
    row = ["round-shared/3", 1, "a", "pool", 2, "fifo", 9, ["H100"], [8], shares, [], [], 20]
    (found,) = decode_events(packed(row))
    assert isinstance(found, RoundShared)
    assert found.shares == (
        RoundShare("r", (PPM // 2,), (10 * PPM,), 1, paired_ppm=()),
        RoundShare("s", (0,), (0,), 0, paired_ppm=()),
    )
    assert (found.owed_rounds_max, found.causes) == (20, ())


def test_old_shapes_are_validated_like_current_ones() -> None:
    with pytest.raises(CorruptLedgerError) as caught:
        UPCASTING.decode(packed(["run-stopped/2", 1, "a", "r", "no"]), first_seq=5)
    assert caught.value.seq == 5


def test_shape_without_upcaster_is_unknown() -> None:
    with pytest.raises(UnknownEventError, match="run-stopped/1"):
        decode_events(packed(["run-stopped/1", 1, "a", "r"]))


def test_two_shapes_with_one_tag_are_a_bug() -> None:
    class Again(Fact, frozen=True, tag="run-ended/1"):
        run: str

    with pytest.raises(AssertionError, match="share a tag"):
        EventDecoder(Event, {Again: _with_flag})


def test_export_names_fields_and_shows_slots_as_ordinals() -> None:
    assert event_to_json(12, LEASE) == {
        "seq": 12,
        "tag": "lease-started/2",
        "at_ms": 1_700_000_000_000,
        "actor": "user:ann",
        "lease": "train/0",
        "run": "train",
        "partner": None,
        "comp_path": "group/0",
        "bundle": 0,
        "role": "Active",
        "slots": [{"node": "n2", "slots": [0, 1, 3]}, {"node": "n1", "slots": [0, 63]}],
        "payer": "lab/west",
        "tier": "owned",
        "hold_gpu_ms": 900_000,
        "start_ms": 1_700_000_000_000,
        "reason": "Start",
        "backfill": False,
    }


def test_export_is_json() -> None:
    event: Event = NodeApplied(1, "a", NODE)
    shown = msgspec.json.decode(msgspec.json.encode(event_to_json(1, event)))
    assert shown["node"]["flavor"] == "h100"
    assert event_from_json(shown) == (1, event)


def _shown(**changes: Any) -> dict[str, Any]:
    event = LeaseEnded(5, "a", "train/0", EndReason.END, 5)
    return event_to_json(9, event) | changes


@pytest.mark.parametrize(
    ("shown", "said"),
    [
        (_shown(seq="9"), "`seq`"),
        (_shown(tag=None), "`tag`"),
        (_shown(colour="red"), "colour"),
        ({k: v for k, v in _shown().items() if k != "end_ms"}, "end_ms"),
        (_shown(reason="Bored"), "Bored"),
        (event_to_json(1, LEASE) | {"slots": [{"node": "n", "slots": [64]}]}, "'n'"),
        (event_to_json(1, LEASE) | {"slots": [{"node": "n", "slots": [1, 1]}]}, "'n'"),
        (event_to_json(1, LEASE) | {"slots": [{"node": "n"}]}, "slots"),
    ],
)
def test_export_that_was_changed_is_refused_by_field(shown: dict[str, Any], said: str) -> None:
    with pytest.raises(CorruptLedgerError, match=said):
        event_from_json(shown)


def test_export_of_a_newer_quorate_is_refused_by_tag() -> None:
    with pytest.raises(UnknownEventError, match="lease-ended/9"):
        event_from_json(_shown(tag="lease-ended/9"))


def test_an_exported_event_is_read_back_as_it_was() -> None:
    assert event_from_json(event_to_json(7, LEASE)) == (7, LEASE)


def test_damage_says_where_it_is_as_far_as_that_is_known() -> None:
    assert str(CorruptLedgerError("gone")) == "gone"
    assert str(CorruptLedgerError("gone", seq=7)) == "gone (at sequence 7)"
    assert str(CorruptLedgerError("gone", height=3, seq=7)) == "gone (at block 3, sequence 7)"
