"""``quorate ledger``: log, verification, export, and past states."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
import subprocess
import sys

import msgspec
import pytest

from quorate.adapters.stores.store_sqlite import SqliteStore
from quorate.documents.times import time_text
from quorate.ledger.chain import open_blocks, seal
from quorate.ledger.fold import replay
from quorate.ledger.snapshot import take
from quorate.model.amounts import HOUR_MS
from quorate.model.events import LeaseStarted
from tests.cli.shell import EXAMPLES, NOW_MS, ROOT, Shell


@pytest.fixture
def busy(shell: Shell) -> Shell:
    """Return a shell beside a ledger with a history of two hours."""
    shell.ok("submit", "-f", EXAMPLES / "train.yaml")
    shell.clock.at_ms += HOUR_MS
    shell.ok("submit", "-f", EXAMPLES / "share.yaml")
    shell.clock.at_ms += HOUR_MS
    shell.ok("complete", "share")
    return shell


def test_the_log_can_be_cut_to_a_run_a_start_and_a_length(busy: Shell) -> None:
    rows = busy.ok("ledger", "log").splitlines()[1:]
    assert [int(row.split()[0]) for row in rows] == list(range(1, 34))
    assert len(busy.ok("ledger", "log", "--run", "share").splitlines()) == 1 + 4
    last = busy.ok("ledger", "log", "--limit", "2").splitlines()[1:]
    assert [row.split()[0] for row in last] == ["32", "33"]
    some = busy("ledger", "log", "--from", "27", "--limit", "2", "-o", "json").json
    assert [(each["seq"], each["tag"]) for each in some["items"]] == [
        (27, "run-submitted/1"),
        (28, "lease-started/2"),
    ]
    assert some["next"] == 29
    assert set(some["items"][0]["block"]) == {"height", "hash"}


def test_a_sound_ledger_verifies_and_agrees_with_its_checkpoints(busy: Shell) -> None:
    busy.ok("ledger", "checkpoint", "--out", "early.json")
    busy.ok("submit", "-f", EXAMPLES / "malleable.yaml")
    assert "the ledger verifies: 36 events" in busy.ok("ledger", "verify")
    out = busy.ok("ledger", "verify", "--deep", "--against", "early.json")
    assert "every invariant held" in out
    assert "early.json agrees: signed at sequence 33" in out
    tree = busy("ledger", "verify", "--against", "early.json", "-o", "json").json
    assert (tree["verifies"], tree["events"], tree["checkpoints"][0]["sequence"]) == (True, 36, 33)


def test_a_checkpoint_is_never_overwritten(busy: Shell) -> None:
    busy.ok("ledger", "checkpoint", "--out", "c.json")
    before = (busy.folder / "c.json").read_text()
    assert busy("ledger", "checkpoint", "--out", "c.json").code == 1
    assert (busy.folder / "c.json").read_text() == before


def test_one_flipped_bit_is_found(busy: Shell) -> None:
    data = bytearray(busy.ledger_bytes())
    data[data.find(b"train")] ^= 1
    busy.file("copy.db", bytes(data))
    said = busy("--ledger", "copy.db", "ledger", "verify")
    assert (said.code, said.out) == (5, "")
    assert re.search(r"block 3, sequence 27: the block's contents do not match its hash", said.err)
    assert busy("--ledger", "copy.db", "get", "runs").code == 5
    assert busy("--ledger", "copy.db", "ledger", "export", "--out", "x.jsonl").code == 5
    assert not (busy.folder / "x.jsonl").exists()


@pytest.mark.heavy
def test_a_ledger_cut_short_and_another_ledger_disagree_with_a_checkpoint(busy: Shell) -> None:
    shutil.copyfile(busy.folder / "quorate.db", busy.folder / "short.db")
    busy.ok("submit", "-f", EXAMPLES / "malleable.yaml")
    busy.ok("ledger", "checkpoint", "--out", "c.json")
    said = busy("--ledger", "short.db", "ledger", "verify", "--against", "c.json")
    assert said.code == 5
    assert "(truncated)" in said.err
    busy.ok("--ledger", "other.db", "init")
    assert (
        "(other-ledger)"
        in busy("--ledger", "other.db", "ledger", "verify", "--against", "c.json").err
    )


def test_a_rewritten_tail_disagrees_with_a_checkpoint(busy: Shell) -> None:
    shutil.copyfile(busy.folder / "quorate.db", busy.folder / "fork.db")
    busy.ok("submit", "-f", EXAMPLES / "malleable.yaml")
    busy.ok("ledger", "checkpoint", "--out", "c.json")
    busy.ok("--ledger", "fork.db", "submit", "-f", EXAMPLES / "borrow.yaml")
    said = busy("--ledger", "fork.db", "ledger", "verify", "--against", "c.json")
    assert (said.code, "(rewritten)" in said.err) == (5, True)


def test_a_changed_checkpoint_is_told_from_a_changed_ledger(busy: Shell) -> None:
    busy.ok("ledger", "checkpoint", "--out", "c.json")
    text = (busy.folder / "c.json").read_text()
    busy.file("d.json", text.replace('"seq": 33', '"seq": 32'))
    said = busy("ledger", "verify", "--against", "c.json", "--against", "d.json")
    assert said.code == 5
    assert "checkpoint in d.json (bad-signature)" in said.err
    assert "in c.json" not in said.err


@pytest.mark.heavy
def test_the_export_can_be_checked_with_no_part_of_quorate(busy: Shell) -> None:
    busy.ok("ledger", "export", "--out", "ledger.jsonl")
    page = (ROOT / "docs/reference/export.md").read_text()
    (script,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    exported = (busy.folder / "ledger.jsonl").read_bytes()
    checked = subprocess.run(
        [sys.executable, "-I", "-c", script], input=exported, capture_output=True, check=True
    )
    head = busy("ledger", "verify", "-o", "json").json["head"]
    assert checked.stdout.decode() == f"33 events, hash {head['hash']}\n"
    spoiled = exported.replace(b'"count":2', b'"count":3', 1)
    again = subprocess.run(
        [sys.executable, "-I", "-c", script], input=spoiled, capture_output=True, check=False
    )
    assert again.returncode != 0


def test_an_exports_events_are_those_of_its_bodies(busy: Shell) -> None:
    for line in busy.ok("ledger", "export").splitlines():
        block = json.loads(line)
        body = msgspec.msgpack.decode(base64.b64decode(block["body"]))
        assert body[:3] == [1, block["height"], block["first_seq"]]
        assert [(each[0], each[1], each[2]) for each in body[3]] == [
            (event["tag"], event["at_ms"], event["actor"]) for event in block["events"]
        ]
        covered = (
            b"quorate-block/1\0"
            + bytes.fromhex(block["prev_hash"])
            + base64.b64decode(block["body"])
        )
        assert hashlib.sha256(covered).hexdigest() == block["hash"]


def test_replay_shows_the_state_of_any_instant(busy: Shell) -> None:
    def phases(at_ms: int) -> dict[str, str]:
        tree = busy("ledger", "replay", "--at", time_text(at_ms), "get", "runs", "-o", "json").json
        return {item["metadata"]["name"]: item["status"]["phase"] for item in tree["items"]}

    assert phases(NOW_MS) == {"train": "Running"}
    assert phases(NOW_MS + HOUR_MS) == {"train": "Running", "share": "Running"}
    assert phases(NOW_MS + 2 * HOUR_MS) == {"train": "Running", "share": "Completed"}
    at = time_text(NOW_MS + HOUR_MS + HOUR_MS // 2)
    (charge,) = [
        item
        for item in busy("ledger", "replay", "--at", at, "charges", "-o", "json").json["items"]
        if item["status"]["run"] == "share"
    ]
    assert charge["status"]["spentGPUMs"] == 8 * HOUR_MS // 2


def test_replay_says_where_in_the_ledger_it_stands(busy: Shell) -> None:
    said = busy("ledger", "replay", "--at", time_text(NOW_MS + HOUR_MS), "get", "runs")
    head = busy("ledger", "log", "--from", "29", "--limit", "2", "-o", "json").json["items"][-1]
    block = head["block"]
    assert head["seq"] == 30
    at = time_text(NOW_MS + HOUR_MS)
    assert said.err == f"as of {at}: sequence 31, block 4, hash {block['hash']}\n"


def test_the_future_is_not_replayed(busy: Shell) -> None:
    at_ms = busy.clock.at_ms
    assert busy("ledger", "replay", "--at", time_text(at_ms)).code == 0
    said = busy("ledger", "replay", "--at", time_text(at_ms + 1))
    assert (said.code, said.out) == (1, "")
    assert f"it is {time_text(at_ms)} now, and the ledger ends at {time_text(at_ms)}" in said.err


@pytest.mark.heavy
def test_an_export_becomes_the_same_ledger_again(busy: Shell) -> None:
    busy.ok("ledger", "export", "--out", "ledger.jsonl")
    head = busy("ledger", "verify", "-o", "json").json["head"]
    out = busy.ok("ledger", "import", "ledger.jsonl", "--out", "again.db").splitlines()
    assert out[0] == f"imported 33 events in 5 blocks to again.db, hash {head['hash']}"
    assert out[2].startswith("there is no signing key at again.db.key: no checkpoint can be signed")
    assert out[3].startswith(
        "there is no lottery's secret at again.db.lottery: conflicts that need"
    )
    for words in (["get", "runs"], ["get", "charges"], ["ledger", "log"], ["ledger", "export"]):
        assert busy.ok("--ledger", "again.db", *words) == busy.ok(*words)
    assert busy("--ledger", "again.db", "ledger", "checkpoint").code == 4
    shutil.copyfile(busy.folder / "quorate.db.key", busy.folder / "again.db.key")
    (busy.folder / "again.db.key").chmod(0o600)
    assert busy.ok("--ledger", "again.db", "ledger", "checkpoint")
    assert "run/train completed" in busy.ok("--ledger", "again.db", "complete", "train")


def test_an_import_overwrites_nothing(busy: Shell) -> None:
    busy.ok("ledger", "export", "--out", "ledger.jsonl")
    before = busy.ledger_bytes()
    said = busy("ledger", "import", "ledger.jsonl")
    assert (said.code, "exists already and was left alone" in said.err) == (1, True)
    assert busy.ledger_bytes() == before


@pytest.mark.parametrize(
    ("line", "old", "new", "said"),
    [
        (2, b'"hash":"', b'"hash":"0', "a hash is not in hexadecimal digits"),
        (2, b'"count":24', b'"count":23', "the block is filed as"),
        (3, b'"height":3', b'"height":4', "block 3 is missing"),
        (3, b"run/train", b"run/train", None),
        (4, b'"actor":"ada"', b'"actor":"eve"', "the events shown differ from those in its body"),
        (5, b'"format"', b'"fromat"', "it is cut off or changed"),
    ],
)
def test_a_changed_export_is_refused_and_leaves_no_ledger(
    busy: Shell, line: int, old: bytes, new: bytes, said: str | None
) -> None:
    busy.ok("ledger", "export", "--out", "ledger.jsonl")
    lines = (busy.folder / "ledger.jsonl").read_bytes().splitlines(keepends=True)
    if said is None:
        body = re.search(rb'"body":"([^"]{40})', lines[line - 1])
        assert body is not None
        old, new = body[1], body[1][:-4] + b"AAAA"
        said = "the block's contents do not match its hash"
    lines[line - 1] = lines[line - 1].replace(old, new, 1)
    busy.file("changed.jsonl", b"".join(lines))
    for words in (["import", "changed.jsonl", "--out", "x.db"],
                  ["verify", "--export", "changed.jsonl"]):  # fmt: skip
        answer = busy("ledger", *words)
        assert (answer.code, answer.out) == (5, "")
        assert f"changed.jsonl: line {line}: {said}" in answer.err
        assert f" up to sequence {[0, 2, 26, 29, 31][line - 1]}; " in answer.err
    assert not (busy.folder / "x.db").exists()


def _as_written_before(lines: list[bytes]) -> tuple[list[bytes], int]:
    """Return an export in the format of an older Quorate, and its number of changed leases.

    In that format, the start of a lease does not say whether it is backfill.
    """
    found, leases, previous = [], 0, bytes(32)
    for line in map(json.loads, lines):
        body = msgspec.msgpack.decode(base64.b64decode(line["body"]))
        for row, shown in zip(body[3], line["events"], strict=True):
            if row[0] == "lease-started/2":
                leases += 1
                row[0] = shown["tag"] = "lease-started/1"
                del row[15:]
                for name in list(shown)[16:]:
                    del shown[name]
        data = msgspec.msgpack.encode(body)
        line["prev_hash"] = previous.hex()
        previous = hashlib.sha256(b"quorate-block/1\0" + previous + data).digest()
        line |= {"hash": previous.hex(), "body": base64.b64encode(data).decode()}
        found.append(json.dumps(line).encode() + b"\n")
    return found, leases


def test_the_export_of_an_older_version_is_verified_and_imported(busy: Shell) -> None:
    busy.ok("ledger", "export", "--out", "ledger.jsonl")
    lines, leases = _as_written_before((busy.folder / "ledger.jsonl").read_bytes().splitlines())
    assert leases, "a lease began"
    busy.file("older.jsonl", b"".join(lines))
    assert "verifies" in busy.ok("ledger", "verify", "--deep", "--export", "older.jsonl")
    busy.ok("ledger", "import", "older.jsonl", "--out", "older.db")
    busy.ok("--ledger", "older.db", "ledger", "export", "--out", "again.jsonl")
    assert b"lease-started/2" in (busy.folder / "again.jsonl").read_bytes(), "shown as of today"
    busy.ok("ledger", "verify", "--export", "again.jsonl")
    busy.file("changed.jsonl", b"".join(lines).replace(b'"bundle": 0', b'"bundle": 1', 1))
    changed = busy("ledger", "verify", "--export", "changed.jsonl")
    assert changed.code == 5
    assert "the events shown differ from those in its body" in changed.err


def test_an_export_cut_inside_a_line_is_refused(busy: Shell) -> None:
    busy.ok("ledger", "export", "--out", "ledger.jsonl")
    data = (busy.folder / "ledger.jsonl").read_bytes()
    busy.file("cut.jsonl", data[:-100])
    said = busy("ledger", "verify", "--export", "cut.jsonl")
    assert (said.code, "blocks 1 to 4 are valid" in said.err) == (5, True)
    busy.file("none.jsonl", b"")
    assert busy("ledger", "verify", "--export", "none.jsonl").code == 3


def test_an_export_is_checked_like_a_ledger(busy: Shell) -> None:
    busy.ok("ledger", "checkpoint", "--out", "c.json")
    busy.ok("ledger", "export", "--out", "ledger.jsonl")
    checks = ("--deep", "--against", "c.json")
    out = busy.ok("ledger", "verify", "--export", "ledger.jsonl", *checks)
    assert out.startswith("the export ledger.jsonl verifies: 33 events in 5 blocks, hash ")
    assert "every invariant held" in out
    assert "c.json agrees" in out
    lines = (busy.folder / "ledger.jsonl").read_bytes().splitlines(keepends=True)
    busy.file("short.jsonl", b"".join(lines[:-1]))
    said = busy("ledger", "verify", "--export", "short.jsonl", "--against", "c.json")
    assert (said.code, "(truncated)" in said.err) == (5, True)


@pytest.mark.heavy
def test_a_receipt_is_true_until_its_block_is_gone_or_another(busy: Shell) -> None:
    shutil.copyfile(busy.folder / "quorate.db", busy.folder / "short.db")
    shutil.copyfile(busy.folder / "quorate.db", busy.folder / "fork.db")
    out = busy.ok("submit", "-f", EXAMPLES / "malleable.yaml").splitlines()
    receipt = out[-1].removeprefix("receipt ")
    busy.ok("tick")
    busy.ok("cancel", "malleable")
    told = busy.ok("ledger", "verify", "--receipt", receipt).splitlines()[-1]
    assert told == f"receipt {receipt} matches: block 6, 1 block ago"
    listed = busy("ledger", "verify", "--receipt", receipt, "-o", "json").json
    assert listed["receipts"] == [receipt]
    said = busy("--ledger", "short.db", "ledger", "verify", "--receipt", receipt)
    assert (said.code, said.out) == (5, "")
    assert "which ends at block 5: the ledger was cut short" in said.err
    busy.ok("--ledger", "fork.db", "submit", "-f", EXAMPLES / "borrow.yaml")
    said = busy("--ledger", "fork.db", "ledger", "verify", "--receipt", receipt)
    assert (said.code, "block 6 has hash " in said.err) == (5, True)


def test_replay_before_the_beginning_says_when_it_began(busy: Shell) -> None:
    said = busy("ledger", "replay", "--at", "2001-01-01T00:00:00Z")
    assert said.code == 1
    assert said.err.splitlines()[0].endswith(f"it begins at {time_text(NOW_MS)}")
    assert busy("ledger", "replay", "--at", "yesterday").code == 2


@pytest.mark.heavy
def test_a_key_of_another_ledger_signs_nothing(busy: Shell) -> None:
    busy.ok("--ledger", "other.db", "init")
    shutil.copyfile(busy.folder / "other.db.key", busy.folder / "quorate.db.key")
    said = busy("ledger", "checkpoint")
    assert (said.code, said.out) == (4, "")
    assert "is not the key of this ledger" in said.err


def test_commands_that_read_leave_every_byte(busy: Shell) -> None:
    before = busy.ledger_bytes()
    for words in (["ledger", "log"], ["ledger", "verify", "--deep"], ["ledger", "export"]):
        busy.ok(*words)
    assert busy.ledger_bytes() == before


def test_a_history_that_breaks_an_invariant_is_found_though_its_hashes_fit(busy: Shell) -> None:
    """A forged ledger: every hash is right, but one slot is leased twice."""
    path = busy.folder / "quorate.db"
    with SqliteStore.open(path) as store:
        events = [event for _, found in open_blocks(store.blocks()) for event in found]
        lease = next(event for event in events if isinstance(event, LeaseStarted))
        forged = msgspec.structs.replace(lease, lease="train/9", at_ms=events[-1].at_ms)
        head = store.head()
        store.append(seal(head, [forged]), expected=head)
    assert busy("ledger", "verify").code == 0
    said = busy("ledger", "verify", "--deep")
    assert (said.code, said.out) == (5, "")
    assert "invariant I1: train/9" in said.err


def test_a_changed_snapshot_is_found_though_the_events_verify(busy: Shell) -> None:
    """Commands start from the snapshot, so a changed snapshot would change what they show."""
    path = busy.folder / "quorate.db"
    with SqliteStore.open(path) as store:
        state, head = replay(store.blocks())
        store.save_snapshot(head, take(state))
    busy.ok("ledger", "verify", "--deep")
    with SqliteStore.open(path) as store:
        next(iter(state.envelopes.values())).ended_gpu_ms += 1
        store.save_snapshot(head, take(state))
    assert busy("ledger", "verify").code == 0
    said = busy("ledger", "verify", "--deep")
    assert (said.code, said.out) == (5, "")
    assert "the snapshot kept at sequence" in said.err


@pytest.mark.heavy
def test_init_finishes_a_ledger_whose_making_was_interrupted(bare: Shell) -> None:
    SqliteStore.create(bare.folder / "quorate.db").close()
    said = bare("get", "runs")
    assert "quorate init" in said.err
    assert "created ledger" in bare.ok("init")
    bare.ok("get", "runs")
    assert bare("init").code == 1


def test_backup_where_only_a_service_is_known_says_where_to_run_it(bare: Shell) -> None:
    bare.environ["QUORATE_SERVER"] = "http://127.0.0.1:9"
    said = bare("ledger", "backup", "--out", "copy.db")
    assert said.code == 4
    assert "a service cannot copy its own; run the command on the machine of" in said.err
    assert "--server" not in bare("ledger", "backup", "--help").out
    assert bare("--server", "http://127.0.0.1:9", "ledger", "backup", "--out", "b").code == 2
