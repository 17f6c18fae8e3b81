"""The contract of ``ports/outbox_port.py`` as tests. A new outbox subclasses ``OutboxContract``.

    class TestMyOutbox(OutboxContract):
        def make_outbox(self) -> Outbox: ...
        def reopen(self, outbox: Outbox) -> Outbox: ...

Run with pytest. The adapter's own tests cover crashes, because a crash needs a process of the
adapter.
"""

# ruff: noqa: D102, PLR2004 - a test's name states what it checks; its numbers are test data

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable

from quorate.ports.outbox_port import (
    BACK_OFF_MS_MAX,
    BACK_OFF_MS_MIN,
    KEYS_KEPT_EVENTS,
    Outbox,
    Parcel,
    Waiting,
    back_off_ms,
)

MANY = 100
IDLE = Waiting(parcels=0, since_ms=None, lines_failing=0, trouble="")


def parcel(key: str, line: str = "ml", seq: int = 1) -> Parcel:
    """Return a parcel that was made from the event with the sequence ``seq``."""
    return Parcel(key=key, line=line, body=f"body of {key}".encode(), seq=seq, at_ms=seq)


def keys(parcels: Iterable[Parcel]) -> list[str]:
    """Return the keys of ``parcels``."""
    return [one.key for one in parcels]


def is_bug(outbox: Outbox, parcels: list[Parcel], cursor: int) -> bool:
    """Return whether ``take_in`` with these arguments raises an assertion."""
    try:
        outbox.take_in("s", parcels, cursor)
    except AssertionError:
        return True
    return False


class OutboxContract(ABC):
    """The contract of every outbox."""

    @abstractmethod
    def make_outbox(self) -> Outbox:
        """Return a new, empty outbox."""

    @abstractmethod
    def reopen(self, outbox: Outbox) -> Outbox:
        """Return another outbox with the same content, after closing ``outbox``."""

    def test_new_sink_has_read_and_waits_for_nothing(self) -> None:
        outbox = self.make_outbox()
        assert outbox.cursor("s") == 0
        assert outbox.head("s") == b""
        assert list(outbox.due("s", 0, MANY)) == []
        assert outbox.next_due_ms("s") is None
        assert outbox.waiting("s") == IDLE
        outbox.close()

    def test_taking_in_keeps_parcels_and_cursor(self) -> None:
        outbox = self.make_outbox()
        outbox.take_in("s", [parcel("a", seq=3), parcel("b", "bio", seq=4)], 7)
        outbox = self.reopen(outbox)
        assert outbox.cursor("s") == 7
        assert list(outbox.due("s", 0, MANY)) == [parcel("a", seq=3), parcel("b", "bio", seq=4)]
        assert outbox.waiting("s") == Waiting(parcels=2, since_ms=3, lines_failing=0, trouble="")
        outbox.close()

    def test_cursor_moves_without_parcels_and_never_back(self) -> None:
        outbox = self.make_outbox()
        outbox.take_in("s", [], 5)
        assert is_bug(outbox, [], 4)
        assert is_bug(outbox, [parcel("a", seq=6)], 5)
        outbox.take_in("s", [], 5)
        assert outbox.cursor("s") == 5
        assert outbox.waiting("s") == IDLE
        outbox.close()

    def test_the_hash_of_the_ledger_is_kept_with_the_cursor(self) -> None:
        outbox = self.make_outbox()
        outbox.take_in("s", [], 5, b"\x00five")
        outbox = self.reopen(outbox)
        assert (outbox.head("s"), outbox.head("t")) == (b"\x00five", b"")
        outbox.take_in("s", [], 6, b"six")
        assert outbox.head("s") == b"six"
        outbox.close()

    def test_what_is_due_later_than_any_back_off_is_due_because_the_clock_was_set_back(
        self,
    ) -> None:
        outbox = self.make_outbox()
        outbox.take_in("s", [parcel("a")], 1)
        due_ms = outbox.failed("s", "a", 10 * BACK_OFF_MS_MAX, "down")
        assert keys(outbox.due("s", due_ms - BACK_OFF_MS_MAX, MANY)) == []
        assert keys(outbox.due("s", due_ms - BACK_OFF_MS_MAX - 1, MANY)) == ["a"]
        outbox.close()

    def test_a_known_key_is_left_as_it_is(self) -> None:
        outbox = self.make_outbox()
        outbox.take_in("s", [parcel("a"), parcel("b", "bio")], 1)
        outbox.failed("s", "a", 10, "down")
        outbox.delivered("s", "b")
        outbox.take_in("s", [parcel("a", seq=2), parcel("b", "bio", seq=2)], 2)
        (only,) = outbox.due("s", 10 + BACK_OFF_MS_MIN, MANY)
        assert (only.key, only.seq, only.attempts) == ("a", 1, 1)
        outbox.close()

    def test_lines_are_delivered_in_order_and_do_not_wait_for_each_other(self) -> None:
        outbox = self.make_outbox()
        outbox.take_in("s", [parcel("a1"), parcel("b1", "bio"), parcel("a2"), parcel("a3")], 1)
        assert keys(outbox.due("s", 0, MANY)) == ["a1", "b1"]
        assert keys(outbox.due("s", 0, 1)) == ["a1"]
        due_ms = outbox.failed("s", "a1", 0, "down")
        assert keys(outbox.due("s", 0, MANY)) == ["b1"]
        outbox.delivered("s", "b1")
        assert list(outbox.due("s", due_ms - 1, MANY)) == []
        assert keys(outbox.due("s", due_ms, MANY)) == ["a1"]
        outbox.delivered("s", "a1")
        outbox = self.reopen(outbox)
        assert keys(outbox.due("s", 0, MANY)) == ["a2"]
        outbox.take_in("s", [parcel("a4")], 1)
        outbox.delivered("s", "a2")
        assert keys(outbox.due("s", 0, MANY)) == ["a3"]
        outbox.close()

    def test_sinks_know_nothing_of_each_other(self) -> None:
        outbox = self.make_outbox()
        outbox.take_in("s", [parcel("a")], 1)
        outbox.take_in("t", [parcel("a"), parcel("b")], 2)
        outbox.delivered("s", "a")
        outbox.failed("t", "a", 0, "down")
        assert (outbox.cursor("s"), outbox.cursor("t")) == (1, 2)
        assert outbox.waiting("s") == IDLE
        assert outbox.waiting("t").parcels == 2
        outbox.close()

    def test_delivering_twice_is_delivering_once(self) -> None:
        outbox = self.make_outbox()
        outbox.take_in("s", [parcel("a"), parcel("b")], 1)
        outbox.delivered("s", "a")
        outbox.delivered("s", "a")
        assert keys(outbox.due("s", 0, MANY)) == ["b"]
        outbox.close()

    def test_failing_backs_off_and_says_why(self) -> None:
        outbox = self.make_outbox()
        outbox.take_in("s", [parcel("a"), parcel("b")], 1)
        now_ms = 1_000
        for attempts in range(1, 12):
            due_ms = outbox.failed("s", "a", now_ms, f"down {attempts}")
            assert due_ms == now_ms + back_off_ms("a", attempts) == outbox.next_due_ms("s")
            now_ms = due_ms
        outbox = self.reopen(outbox)
        (first,) = outbox.due("s", now_ms, MANY)
        assert (first.key, first.attempts, first.failing_since_ms) == ("a", 11, 1_000)
        told = outbox.waiting("s")
        assert (told.parcels, told.lines_failing, told.trouble) == (2, 1, "down 11")
        outbox.delivered("s", "a")
        assert outbox.waiting("s").trouble == ""
        assert outbox.due("s", 0, MANY)[0].failing_since_ms is None
        outbox.close()

    def test_giving_up_lets_the_next_try_and_the_line_fail_on(self) -> None:
        outbox = self.make_outbox()
        outbox.take_in("s", [parcel("a"), parcel("b")], 1)
        outbox.failed("s", "a", 10, "refused")
        outbox.given_up("s", "a")
        (second,) = outbox.due("s", 10, MANY)
        assert (second.key, second.attempts, second.failing_since_ms) == ("b", 0, 10)
        outbox.take_in("s", [parcel("a")], 1)
        assert outbox.waiting("s").parcels == 1
        outbox.given_up("s", "b")
        assert outbox.waiting("s") == IDLE
        outbox.close()

    def test_keys_are_forgotten_only_far_behind_the_cursor(self) -> None:
        outbox = self.make_outbox()
        outbox.take_in("s", [parcel("a", seq=1), parcel("b", seq=2)], 2)
        outbox.delivered("s", "a")
        outbox.delivered("s", "b")
        outbox.take_in("s", [], 2 + KEYS_KEPT_EVENTS)
        outbox.take_in("s", [parcel("b", seq=2)], 2 + KEYS_KEPT_EVENTS)
        assert outbox.waiting("s") == IDLE
        outbox.take_in("s", [parcel("a", seq=1)], 2 + KEYS_KEPT_EVENTS)
        assert keys(outbox.due("s", 0, MANY)) == ["a"]
        outbox.close()

    def test_closing_twice_is_allowed(self) -> None:
        outbox = self.make_outbox()
        outbox.close()
        outbox.close()


def check_back_off(key: str, attempts: int) -> None:
    """Assert the contract of ``back_off_ms``."""
    longest_ms = min(BACK_OFF_MS_MIN * 2 ** (attempts - 1), BACK_OFF_MS_MAX)
    assert longest_ms * 3 // 4 <= back_off_ms(key, attempts) <= longest_ms
