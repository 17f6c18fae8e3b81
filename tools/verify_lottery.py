"""Checks every lottery of an exported ledger: python tools/verify_lottery.py export.jsonl.

It follows docs/reference/export.md and lottery.md, and needs only the standard library. The exit
status is 0 after printing the conflicts, 1 after printing the first wrong event, and 2 if there is
no export to read.
"""

from __future__ import annotations

import json
import struct
import sys
from base64 import b64decode, b64encode
from collections.abc import Iterator
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any

LINE = "format height first_seq count prev_hash hash body events"
DECLARED = "conflict cause scope reservation deficit short size_max due_ms attempt preimage_index"
SHOWN = {"conflict-declared/1": DECLARED + " commitment tokens"}
SHOWN["conflict-resolved/1"] = "conflict outcome preimage beacon seed cuts draws lost_gpu_ms"
SHOWN["lease-ending/1"] = "lease reason deadline_ms detail"
SHOWN["lease-ended/1"] = "lease reason end_ms detail"
PLAIN: dict[int, Any] = {192: None, 194: False, 195: True, **{n & 255: n for n in range(-32, 128)}}
KINDS = "m" * 16 + "a" * 16 + "s" * 32 + "?" * 10 + "fdBHIQbhiq" + "?" * 5 + "sssaamm"
WIDTHS = "0" * 64 + "?" * 10 + "4812481248" + "?" * 5 + "1242424"  # MessagePack from 128 to 223
text_of = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode
WRONG = (OSError, LookupError, ValueError, TypeError, AttributeError, RecursionError, struct.error)


def value_of(data: BytesIO) -> Any:
    """Return the next MessagePack value of ``data``."""
    code = data.read(1)[0]
    if code in PLAIN:
        return PLAIN[code]
    kind, number = KINDS[code - 128], data.read(int(WIDTHS[code - 128]))
    size = int.from_bytes(number, "big") if number else code & (31 if kind == "s" else 15)
    if kind == "s":
        return data.read(size).decode()
    if kind not in "am":
        return struct.unpack(">" + kind, number)[0]
    items = [value_of(data) for _ in range(size if kind == "a" else 2 * size)]
    return items if kind == "a" else dict(zip(items[::2], items[1::2], strict=True))


def _must(condition: object, otherwise: str) -> None:
    if not condition:
        raise ValueError(otherwise)


def events(lines: list[bytes]) -> Iterator[tuple[str, list[Any]]]:
    """Yield the place and the fields of each event; before each block, yield the block's place."""
    previous, seq = "0" * 64, 1
    for height, line in enumerate(lines, 1):
        yield f"line {height}, sequence {seq}", []
        body, shown = b64decode(json.loads(line)["body"]), json.loads(line)["events"]
        *place, rows = value_of(data := BytesIO(body))
        digest = sha256(b"quorate-block/1\0" + bytes.fromhex(previous) + body).hexdigest()
        whole = ["quorate-export/1", height, seq, len(rows), previous, digest]
        whole += [b64encode(body).decode(), shown]
        same = line == text_of(dict(zip(LINE.split(), whole, strict=True))).encode() + b"\n"
        _must(same and [*place, data.read()] == [1, height, seq, b""], "the hash does not match")
        for number, (row, beside) in enumerate(zip(rows, shown, strict=True), seq):
            yield f"sequence {number} ({row[0]})", row
            if row[0] in SHOWN or beside["tag"] in SHOWN:
                names = ["seq", "tag", "at_ms", "actor", *SHOWN[row[0]].split()]
                event = dict(zip(names, [number, *row], strict=True))
                _must(text_of(event) == text_of(beside), "the shown event is not the hashed one")
        previous, seq = digest, seq + len(rows)


def redraw(prefix: bytes, tokens: list[list[Any]]) -> Iterator[list[str]]:
    """Yield owner and run in the order of the draws; ``prefix`` is the tag and the seed."""
    blocks = (sha256(prefix + number.to_bytes(8, "big")) for number in range(1 << 64))
    words = (int.from_bytes(block.digest()[:8], "big") for block in blocks)
    owners, runs, owner = sorted({token[0] for token in tokens}), list[str](), ""
    while left := runs or owners:
        limit = (1 << 64) - (1 << 64) % len(left)
        name = left.pop(next(word for word in words if word < limit) % len(left))
        if left is runs:
            yield [owner, name]
        else:
            owner, runs = name, sorted(token[1] for token in tokens if token[0] == name)


def check_draws(declared: list[Any], resolved: list[Any]) -> None:
    """Check the preimage, the seed and the draws of a conflict."""
    scope, reservation, *_, due_ms, attempt, _, commitment, tokens = declared[5:]
    preimage, beacon, seed, _, draws, _ = resolved[5:]
    link = bytes.fromhex(preimage)
    _must(sha256(b"quorate-lottery-chain/1\0" + link).hexdigest() == commitment, "a wrong preimage")
    nonces = [token[3].encode() for token in sorted(tokens, key=lambda token: token[1])]
    parts = [b"quorate-lottery-seed/1", text_of(scope).encode(), reservation.encode()]
    parts += [b"%d" % due_ms, b"%d" % attempt, link, b"%d" % len(nonces), *nonces, beacon.encode()]
    found = sha256(b"".join(len(part).to_bytes(8, "big") + part for part in parts))
    _must(found.hexdigest() == seed, f"the seed is not {found.hexdigest()}, the hash of its parts")
    drawn = [*redraw(b"quorate-lottery-draw/1\0" + found.digest(), tokens)][: len(draws)]
    _must(drawn == [each[:2] for each in draws], "the draws are not those that the seed gives")


def check(row: list[Any], chain: list[Any], known: dict[str, Any]) -> None:
    """Check one event; ``chain``: the last link, its number, the length, link 0, the next chain."""
    match row:
        case ["lottery-committed/1", _, _, link, length]:
            _must(chain[1] == chain[2], "the chain before has unused links")
            chain[:] = link, 0, length, link, []
        case ["lottery-sealed/1", _, _, link, length, _]:
            _must(link == chain[3] or chain[1] < chain[2] > 0 == len(chain[4]), "sealed too late")
            chain[4] = chain[4] if link == chain[3] else [link, 0, length, link, []]
        case ["run-submitted/1", _, _, run]:
            known["run " + run["name"]] = [run["owner"], run.get("nonce", "")]
        case ["lease-started/1" | "lease-started/2", _, _, lease, run, *_]:
            known["lease " + lease] = run
        case ["conflict-declared/1", _, _, name, *_, size, _, _, number, link, tokens]:
            _must(link == chain[0] and number == chain[1] + 1 <= chain[2], "a link is skipped")
            for owner, run, gpus, nonce in tokens:
                fits = known.get("run " + run) == [owner, nonce] and gpus <= size
                _must(fits, f"{run} is not as submitted, or too large to enter")
            _must(len({token[1] for token in tokens}) == len(tokens), "a run enters twice")
            _must(known.setdefault("conflict " + name, row) is row, "it is declared twice")
        case ["conflict-resolved/1", _, _, name, outcome, *shown, cuts, draws, _]:
            declared, known["conflict " + name] = known["conflict " + name], []
            lost = {lease: cut[1] for cut in cuts if cut[0] == "Lottery" for lease in cut[4]}
            victims = {run for _, run, is_spared in draws if not is_spared}
            held = {lease: known.get("lease " + lease) for lease in lost}
            _must(held == lost and {*lost.values()} == victims, "the cut runs are not the victims")
            _must(outcome == "Cleared" or not cuts + draws, "cuts or draws, but not Cleared")
            _must(not shown[1] and (draws or not any(shown)), "a seed without draws, or a beacon")
            if draws:
                _must(declared[13] == chain[0], "another lottery used the link")
                check_draws(declared, row)
                chain[:2] = shown[0], chain[1] + 1
                chain[:] = chain[4] if chain[4] and chain[1] == chain[2] else chain
            known.update(("seed " + lease, shown[2]) for lease in lost)
            print(name, outcome, declared[12], len(draws), *sorted(victims), sep="\t")
        case ["lease-ending/1" | "lease-ended/1", _, _, lease, "RandomPreempt", _, detail]:
            _must((seed := known.get("seed " + lease)) and seed in detail, "the seed is not shown")
        case _:
            pass


if __name__ == "__main__":
    where, chain, known = "", ["", 0, 0, "", []], dict[str, Any]()
    try:
        lines = [*BytesIO(Path(sys.argv[1]).read_bytes())]
        _must(json.loads(lines[0])["format"] == "quorate-export/1", "not an exported ledger")
        print("conflict", "outcome", "link", "draws", "victims", sep="\t")
        for where, row in events(lines):  # noqa: B007 - it is what an error names
            check(row, chain, known)
        sys.stderr.write("no conflicts\n" * all(not name.startswith("conflict ") for name in known))
    except WRONG as error:
        print(where or __doc__, error, sep=": ", file=sys.stderr)
        sys.exit(1 if where else 2)
