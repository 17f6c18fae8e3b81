"""Server-sent events in pieces of any size."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, strategies

from quorate.client.errors import NotQuorateError
from quorate.client.sse import MESSAGE_BYTES_MAX, Message, Messages

TEXT = (
    b': hello\n\nid: 1\nevent: event\ndata: {"seq":1}\n\n'
    b'id: 2\ndata: {"seq":\r\ndata:2}\r\n\r\nretry: 5\n\nid: 3\n\n'
    b"event: problem\ndata: {}\n\nid: 4\ndata: cut"
)
WHOLE = [
    Message(kind="event", id="1", data='{"seq":1}'),
    Message(kind="message", id="2", data='{"seq":\n2}'),
    Message(kind="message", id="3", data=""),
    Message(kind="problem", id="3", data="{}"),
]


@given(strategies.lists(strategies.integers(0, len(TEXT)), max_size=20))
def test_messages_are_the_same_however_they_are_cut(cuts: list[int]) -> None:
    places = [0, *sorted(cuts), len(TEXT)]
    parts = [TEXT[a:b] for a, b in pairwise(places)]
    messages = Messages()
    assert [found for part in parts for found in messages.feed(part)] == WHOLE


def test_data_is_json() -> None:
    assert WHOLE[1].tree() == {"seq": 2}
    assert WHOLE[2].tree() is None
    with pytest.raises(NotQuorateError, match="is not JSON: 'cut'"):
        Message(kind="message", id="", data="cut").tree()


@pytest.mark.heavy
def test_a_message_without_end_is_given_up() -> None:
    messages, half = Messages(), b"x" * (MESSAGE_BYTES_MAX // 2 + 1)
    assert list(messages.feed(half)) == []
    with pytest.raises(NotQuorateError, match="a message of the stream has over"):
        list(messages.feed(half))
