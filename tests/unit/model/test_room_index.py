"""Bounds on when domains have room: which are cached, and which are computed again."""

from __future__ import annotations

from quorate.model.state.free_slots import IslandKey
from quorate.model.state.room_index import Domain, RoomIndex

KEYS = [IslandKey("default", "H100", name) for name in ("A", "B", "C")]


class Asked:
    """Returns when domains have room, and records the requested domains."""

    def __init__(self, *instants_ms: int | None) -> None:
        self.instants_ms = dict(zip(KEYS, instants_ms, strict=True))
        self.keys: list[IslandKey] = []

    def __call__(self, key: IslandKey, gpus: int) -> int | None:
        """Return when the domain under ``key`` has room."""
        assert gpus == 8
        self.keys.append(key)
        return self.instants_ms[key]


def test_a_bound_in_the_past_is_computed_anew_once_and_what_is_free_now_never() -> None:
    index = RoomIndex()
    site = index.site([Domain(key, {}, 8) for key in KEYS], (8,))
    assert sorted(index.bounds_of(site, 8, 50, Asked(0, 100, 900))) == [(0, 0), (100, 1), (900, 2)]
    kept = Asked(0, 100, 900)
    index.bounds_of(site, 8, 100, kept)
    assert kept.keys == []
    late = Asked(0, 300, 900)
    assert sorted(index.bounds_of(site, 8, 101, late)) == [(0, 0), (300, 1), (900, 2)]
    assert late.keys == [KEYS[1]]
    again = Asked(0, 300, 900)
    index.bounds_of(site, 8, 102, again)
    assert again.keys == []


def test_a_late_bound_of_a_domain_that_changed_in_an_overlay_is_kept_there_only() -> None:
    index = RoomIndex()
    site = index.site([Domain(key, {}, 8) for key in KEYS], (8,))
    index.bounds_of(site, 8, 50, Asked(100, None, 900))
    over = index.layer()
    over.island_changed(KEYS[0])
    assert sorted(over.bounds_of(site, 8, 200, Asked(250, None, 900))) == [(250, 0), (900, 2)]
    below = Asked(300, None, 900)
    assert sorted(index.bounds_of(site, 8, 200, below)) == [(300, 0), (900, 2)]
    assert below.keys == [KEYS[0]]
