"""The screen of ``quorate top``, as text: keys sort, filter and scroll, and every line fits."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from quorate.cli.live.top_live import is_colored, keys_in, painted
from quorate.cli.live.top_screen import SORTS, FlavorUse, Fleet, Screen, TopRun, drawn, pressed

NOW_MS = 1_800_000_000_000


def run(
    name: str, gpus: int, owner: str = "rai", phase: str = "Running", ago_s: int = 60
) -> TopRun:
    return TopRun(
        name=name,
        owner=owner,
        user="ada",
        phase=phase,
        gpus=gpus,
        flavor="H100",
        where="eu/a/A" if phase == "Running" else "",
        since_ms=NOW_MS - ago_s * 1_000,
    )


FLEET = Fleet(
    now_ms=NOW_MS,
    flavors=[
        FlavorUse(flavor="A100", used=8, free=0, out=0, queued=0),
        FlavorUse(flavor="H100", used=12, free=3, out=1, queued=64),
    ],
    runs=[
        run("train-2", 4, ago_s=7_200),
        run("train-1", 8),
        run("sweep", 64, "vision", "Pending", 5),
    ],
)


def texts(screen: Screen, fleet: Fleet = FLEET, columns: int = 80, rows: int = 12) -> list[str]:
    return [line.text for line in drawn(screen, fleet, columns, rows)]


def after(*keys: str) -> Screen:
    screen = Screen()
    for key in keys:
        found = pressed(screen, key)
        assert found is not None, key
        screen = found
    return screen


def test_the_screen_has_flavors_runs_and_keys() -> None:
    assert texts(Screen()) == [
        "quorate top: 3 of 3 runs, by gpus",
        "FLAVOR   USED                               GPUS   TOTAL      BUSY   QUEUED",
        "A100     [##############################]      8       8   100.0 %        0",
        "H100     [######################.......x]     12      16    75.0 %       64",
        "",
        "RUN       OWNER    USER   PHASE     GPUS   FLAVOR   TIME   WHERE",
        "sweep     vision   ada    Pending     64   H100       5s   -",
        "train-1   rai      ada    Running      8   H100       1m   eu/a/A",
        "train-2   rai      ada    Running      4   H100       2h   eu/a/A",
        "",
        "",
        "q quit   s sort   r reverse   / filter   up/down scroll   w waiting, running, bo",
    ]


def test_keys_change_the_order() -> None:
    orders = {
        "gpus": ["sweep", "train-1", "train-2"],
        "time": ["train-2", "train-1", "sweep"],
        "owner": ["train-1", "train-2", "sweep"],
        "name": ["sweep", "train-1", "train-2"],
    }
    assert orders.keys() == SORTS.keys()
    for count, (name, order) in enumerate(orders.items()):
        screen = after(*"s" * count)
        assert screen.sort == name
        assert [each.name for each in screen.shown(FLEET.runs)] == order
        assert [each.name for each in after(*"s" * count, "r").shown(FLEET.runs)] == order[::-1]
    assert after(*"ssss") == Screen()


def test_a_filter_is_typed_kept_and_dropped() -> None:
    typing = after("/", *"VIS", "x", "\x7f")
    assert texts(typing)[-2] == "filter: VIS_"
    assert [each.name for each in typing.shown(FLEET.runs)] == ["sweep"]
    kept = after("/", *"VIS", "\r")
    assert texts(kept)[0] == "quorate top: 1 of 3 runs, by gpus, with 'VIS'"
    # While a text is typed, q and s are letters.
    assert after("/", *"qs").text == "qs"
    assert after("/", *"VIS", "\r", "\x1b") == Screen()
    assert after("/", *"VIS", "\x1b") == Screen()


def test_phases_are_left_out() -> None:
    assert [each.name for each in after("w").shown(FLEET.runs)] == ["train-1", "train-2"]
    assert [each.name for each in after("w", "w").shown(FLEET.runs)] == ["sweep"]
    assert after("w", "w", "w") == Screen()


def test_keys_that_end_it() -> None:
    for key in ("q", "\x03", "\x04"):
        assert pressed(Screen(), key) is None
    assert pressed(after("/"), "\x03") is None
    assert keys_in(b"") == ["q"]


def test_a_service_that_is_away_is_said_and_what_was_known_stays() -> None:
    fleet = Fleet(now_ms=NOW_MS, flavors=[], runs=FLEET.runs, has_more=True, trouble="no answer")
    lines = texts(Screen(), fleet)
    assert lines[-2] == "no answer"
    assert lines[0] == "quorate top: 3 of 3 runs of the newest, by gpus"
    assert lines[1] == "there are no nodes"


@given(
    st.lists(st.text("qsrwkj/ab\x1b\r\x7f", max_size=3), max_size=8),
    st.integers(1, 200),
    st.integers(1, 60),
    st.integers(0, 40),
)
def test_whatever_is_pressed_the_screen_fits_the_terminal(
    keys: list[str], columns: int, rows: int, count: int
) -> None:
    screen: Screen | None = Screen()
    for key in "".join(keys):
        screen = None if screen is None else pressed(screen, key)
    if screen is None:
        return
    runs = [run(f"run-{number}", number) for number in range(count)]
    fleet = Fleet(now_ms=NOW_MS, flavors=FLEET.flavors, runs=runs)
    lines = texts(screen, fleet, columns, rows)
    assert len(lines) <= rows
    assert all(len(line) <= columns for line in lines)


def test_scrolling_ends_at_the_last_run() -> None:
    runs = [run(f"run-{number:02d}", 100 - number) for number in range(30)]
    fleet = Fleet(now_ms=NOW_MS, flavors=FLEET.flavors, runs=runs)
    assert texts(after(*["down"] * 3), fleet)[6].startswith("run-03")
    assert texts(after(*["down"] * 99), fleet)[-2].startswith("run-29")
    assert after("down", "down", "up", "k", "k").first == 0


def test_keys_are_read_from_what_a_terminal_sends() -> None:
    assert keys_in(b"\x1b[A") == ["up"]
    assert keys_in(b"\x1bOB") == ["down"]
    assert keys_in(b"\x1b") == ["\x1b"]
    assert keys_in(b"\x1b[5~") == []
    assert keys_in("é/s".encode()) == ["é", "/", "s"]
    assert keys_in(b"\x1b[Bs\x1b\x1bOAq") == ["down", "s", "\x1b", "up", "q"]


def test_colours_are_left_out_where_they_are_not_wanted() -> None:
    lines = drawn(Screen(), FLEET, 80, 12)
    assert "\x1b[32mtrain-1" in painted(lines, has_colors=True)
    plain = painted(lines, has_colors=False)
    for moving in ("\x1b[H", "\x1b[K", "\x1b[J"):
        plain = plain.replace(moving, "")
    assert "\x1b" not in plain
    assert is_colored({"TERM": "xterm"})
    assert not is_colored({"TERM": "xterm", "NO_COLOR": "1"})
    assert not is_colored({"TERM": "dumb"})
    assert not is_colored({})
