"""Output is kept line by line with numbers, and no more than fits."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.adapters.executors.keepers import run_folder
from quorate.adapters.executors.logs_local import LocalLogs
from quorate.keeper import output
from quorate.keeper.output import OutputWriter, chunks
from quorate.keeper.wanted import OUTPUT

A, B = (0, "n1", "out"), (1, "n2", "err")


def lines(folder: Path, first: int = 0) -> list[bytes]:
    found: list[bytes] = []
    for chunk in chunks(folder, first):
        found += chunk.lines[max(0, first - chunk.first) :]
    return found


def test_a_line_is_kept_when_it_is_whole(tmp_path: Path) -> None:
    writer = OutputWriter(tmp_path)
    writer.take(A, b"one\ntw", 1)
    writer.take(B, b"other\n", 2)
    writer.take(A, b"o\n", 3)
    writer.take(A, b"rest", 4)
    assert lines(tmp_path) == [b"one", b"other", b"two"]
    writer.finish(A, 5)
    writer.close()
    assert lines(tmp_path, 2) == [b"two", b"rest"]


def test_one_goes_on_where_the_last_ended_also_in_the_midst_of_a_record(tmp_path: Path) -> None:
    writer = OutputWriter(tmp_path)
    writer.take(A, b"one\ntwo\n", 1)
    writer.take(A, b"three\n", 1)
    writer.close()
    (path,) = output.segments(tmp_path)
    path.write_bytes(path.read_bytes()[:-3])
    assert lines(tmp_path) == [b"one", b"two"]
    assert output.lines_end(tmp_path) == 2
    writer = OutputWriter(tmp_path)
    writer.take(A, b"four\n", 1)
    writer.close()
    assert lines(tmp_path) == [b"one", b"two", b"four"]


def test_no_run_fills_a_disk(tmp_path: Path) -> None:
    folder = run_folder(tmp_path, "r") / OUTPUT
    writer = OutputWriter(folder, segment_bytes=100, segments_max=3)
    for number in range(100):
        writer.take(A, f"line {number}\n".encode(), number)
    writer.close()
    assert len(output.segments(folder)) == 3
    found = LocalLogs(tmp_path).read("r", first=0, limit=1_000)
    assert found is not None
    assert [line.text for line in found.lines] == [f"line {n}" for n in range(found.first, 100)]
    assert 0 < found.first < 100
    assert found.is_last
    assert LocalLogs(tmp_path).end("r") == 100


@given(st.lists(st.tuples(st.sampled_from([A, B]), st.binary(max_size=40)), max_size=30))
def test_nothing_is_lost_and_nothing_is_mixed(
    tmp_path_factory: pytest.TempPathFactory, written: list[tuple[tuple[int, str, str], bytes]]
) -> None:
    folder = tmp_path_factory.mktemp("output")
    writer = OutputWriter(folder)
    for source, data in written:
        writer.take(source, data, 1)
    for source in (A, B):
        writer.finish(source, 2)
    writer.close()
    for source in (A, B):
        whole = b"".join(data for each, data in written if each == source)
        expected = whole.split(b"\n")
        if expected[-1] == b"":
            expected.pop()
        found = [line for c in chunks(folder, 0) if c.rank == source[0] for line in c.lines]
        assert found == expected


def test_pages_follow_one_another(tmp_path: Path) -> None:
    folder = run_folder(tmp_path, "r") / OUTPUT
    writer = OutputWriter(folder)
    writer.take(A, b"a\nb\nc\n", 1)
    writer.say("mine", 2)
    writer.take(B, b"d\n", 3)
    writer.close()
    logs = LocalLogs(tmp_path)
    found, first, is_last = list[str](), 0, False
    while not is_last:
        page = logs.read("r", first=first, limit=2)
        assert page is not None
        found += [line.text for line in page.lines]
        first, is_last = page.first + len(page.lines), page.is_last
    assert found == ["a", "b", "c", "quorate: mine", "d"]
    assert logs.read("other", first=0, limit=2) is None
    assert (logs.end("r"), logs.end("other")) == (5, 0)
    page = logs.read("r", first=3, limit=9)
    assert page is not None
    assert [(line.rank, line.node, line.stream) for line in page.lines] == [
        (None, "-", "err"),
        (1, "n2", "err"),
    ]


def test_long_lines_are_read_in_pages_of_bounded_bytes(tmp_path: Path) -> None:
    writer = OutputWriter(run_folder(tmp_path, "r") / OUTPUT)
    for number in range(12):
        writer.take(A, b"%d" % number + b"x" * 60_000 + b"\n", number)
    writer.close()
    logs = LocalLogs(tmp_path)
    counts, first, is_last = list[int](), 0, False
    while not is_last:
        page = logs.read("r", first=first, limit=1_000)
        assert page is not None
        counts.append(len(page.lines))
        first, is_last = page.first + len(page.lines), page.is_last
    assert counts == [5, 5, 2]


def test_what_is_damaged_hides_nothing_that_is_written_later(tmp_path: Path) -> None:
    writer = OutputWriter(tmp_path)
    writer.take(A, b"one\n", 1)
    writer.close()
    (path,) = output.segments(tmp_path)
    path.write_bytes(path.read_bytes() + b"\x00garbage 7\n")
    assert lines(tmp_path) == [b"one"]
    writer = OutputWriter(tmp_path)
    writer.take(A, b"two\n", 1)
    writer.close()
    assert lines(tmp_path) == [b"one", b"two"]


def test_lines_that_the_disk_does_not_take_are_counted_and_leave_no_half(tmp_path: Path) -> None:
    writer = OutputWriter(tmp_path)
    writer.take(A, b"one\n", 1)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    (path,) = output.segments(tmp_path)
    # Space for half of what is written next.
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 20, limits[1]))
    try:
        writer.take(A, b"lost, as it does not fit\nlost too\n", 2)
        writer.take(B, b"as well, and rather long\n", 3)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert lines(tmp_path) == [b"one"]
    writer.take(A, b"four\n", 4)
    writer.close()
    note = b"quorate: 3 lines were lost: the disk did not accept them"
    assert lines(tmp_path) == [b"one", note, b"four"]


def test_other_files_beside_the_segments_are_not_read_nor_left_behind(tmp_path: Path) -> None:
    for name in ("train.log", "7.log", "\u00b2.log", "000000000000009.log.log"):
        (tmp_path / name).write_text("its own\n")
    (tmp_path / "000000000000009.log").mkdir()
    writer = OutputWriter(tmp_path)
    writer.take(A, b"one\n", 1)
    writer.close()
    writer = OutputWriter(tmp_path)
    writer.take(A, b"two\n", 1)
    writer.close()
    assert writer.trouble == ""
    assert lines(tmp_path) == [b"one", b"two"]
    assert (tmp_path / "train.log").exists()


def test_what_is_in_the_way_of_output_is_told_and_waited_for(tmp_path: Path) -> None:
    folder = tmp_path / "output"
    folder.write_text("in the way")
    writer = OutputWriter(folder)
    assert "is not continued" in writer.trouble
    writer.take(A, b"lost\n", 1)
    folder.unlink()
    writer.take(A, b"two\n", 2)
    writer.close()
    note = b"quorate: 1 lines were lost: the disk did not accept them"
    assert lines(folder) == [note, b"two"]
