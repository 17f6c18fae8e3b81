"""Commands whose answer is lost say so, and can be repeated once with the printed key."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Iterator
from threading import main_thread

import httpx
import pytest

from quorate.views.exits import Exit
from tests.cli.shell import EXAMPLES, Said, Shell
from tests.client.running import Running, running
from tests.client.scripted import Stand, refuses, serving

pytestmark = pytest.mark.slow  # A service is started.

DEPOSED = refuses(503, "unavailable", "s0 no longer leads; nothing was recorded: ask again")
SUBMIT = ("submit", "--gpus", "1", "--team", "rai", "--flavor", "H100", "--", "sleep", "30")
SBATCH = ("sbatch", "--gpus=1", "--account=rai", "--flavor=H100", "--wrap=true")


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("service") / "quorate.db") as found:
        yield found


@pytest.fixture
def typed(bare: Shell, service: Running) -> Callable[..., Said]:
    """Return a function that runs a command with a service, by default the real one."""
    bare.environ |= {"QUORATE_TOKEN": service.token}

    def say(*words: str, at: str = service.url) -> Said:
        bare.environ["QUORATE_SERVER"] = at
        return bare(*words)

    files = (str(EXAMPLES / "fleet.yaml"), str(EXAMPLES / "teams.yaml"))
    assert say("apply", "-f", files[0], "-f", files[1]).code == 0
    return say


class Dropping:
    """A proxy that drops the first answers to writes; afterwards it calls ``later``."""

    def __init__(self, service: Running, later: Callable[[Stand], None], *, drops: int = 1) -> None:
        self._service, self._later, self._drops = service, later, drops

    def __call__(self, stand: Stand) -> None:
        if stand.got.method == "GET":
            self._forward(stand)
        elif not self._drops:
            self._later(stand)
        else:
            self._drops -= 1
            self._ask(stand)
            if self._later is ends:
                ends(stand)
            stand.hang_up()

    def _forward(self, stand: Stand) -> None:
        found = self._ask(stand)
        stand.send(found.status_code, found.content, found.headers["content-type"])

    def _ask(self, stand: Stand) -> httpx.Response:
        got = stand.got
        kept = ("authorization", "accept", "content-type", "idempotency-key")
        headers = {name: got.headers[name] for name in kept if name in got.headers}
        url = self._service.url + got.path
        return httpx.request(
            got.method, url, params=dict(got.query), headers=headers, content=got.body, timeout=60
        )


def ends(stand: Stand) -> None:
    """Stop the proxy, so that no program listens at its address."""
    stand.handler.server.shutdown()
    stand.handler.server.server_close()


def _runs(typed: Callable[..., Said]) -> list[str]:
    return typed("get", "runs", "-o", "name").out.split()


@pytest.mark.parametrize("later", [DEPOSED, ends])
@pytest.mark.parametrize("words", [SUBMIT, SBATCH])
def test_command_whose_answer_is_lost_is_uncertain_and_its_repetition_is_the_same_run(
    typed: Callable[..., Said],
    service: Running,
    later: Callable[[Stand], None],
    words: tuple[str, ...],
) -> None:
    before = _runs(typed)
    with serving(Dropping(service, later)) as proxy:
        said = typed(*words, at=proxy.url)
    assert said.code == Exit.UNCERTAIN, said
    assert "nothing was recorded" not in said.err
    assert "error: the request may have been recorded: " in said.err
    assert "quorate get runs" in said.err
    (key,) = re.findall(r"--idempotency-key ([0-9a-f]{32})", said.err)
    (new,) = set(_runs(typed)) - set(before)
    verb, *rest = words
    again = typed(verb, "--idempotency-key", key, *rest)
    assert again.code == 0, again
    assert "this request was carried out before" in again.out + again.err
    assert new.removeprefix("run/") in again.out
    assert set(_runs(typed)) == {*before, new}


def test_several_requests_of_one_command_are_repeated_under_one_key(
    typed: Callable[..., Said], service: Running
) -> None:
    nodes = typed("get", "nodes", "-o", "name").out.split()[-2:]
    with serving(Dropping(service, DEPOSED)) as proxy:
        said = typed("delete", *nodes, at=proxy.url)
    assert said.code == Exit.UNCERTAIN, said
    (key,) = re.findall(r"--idempotency-key ([0-9a-f]{32})[; ]", said.err)
    again = typed("delete", *nodes, "--idempotency-key", key)
    assert again.code == 0, again
    assert again.err.count("this request was carried out before") == 1


def test_command_interrupted_before_the_answer_prints_its_key(
    typed: Callable[..., Said], service: Running
) -> None:
    def interrupt(stand: Stand) -> None:
        del stand
        signal.pthread_kill(main_thread().ident or 0, signal.SIGINT)

    before = _runs(typed)
    proxy_of = Dropping(service, interrupt, drops=0)
    # Background processes ignore this signal, and the tests may run in the background.
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with serving(proxy_of) as proxy:
            said = typed(*SUBMIT, at=proxy.url)
    finally:
        signal.signal(signal.SIGINT, handler)
    assert said.code == Exit.INTERRUPTED, said
    assert "the request may have been recorded" in said.err
    assert re.findall(r"--idempotency-key ([0-9a-f]{32});", said.err)
    assert _runs(typed) == before


def test_command_that_sets_a_state_may_be_repeated_without_a_key(
    typed: Callable[..., Said], service: Running
) -> None:
    assert typed("submit", "--name", "ended", *SUBMIT[1:]).code == 0
    with serving(Dropping(service, DEPOSED)) as proxy:
        said = typed("cancel", "ended", at=proxy.url)
    assert said.code == Exit.UNCERTAIN, said
    assert "repeat the same command: a repetition changes nothing more" in said.err
    assert typed("cancel", "ended").code == 0


def test_key_makes_a_command_on_a_file_one(shell: Shell) -> None:
    first, again = (shell(*SUBMIT[:-3], "--idempotency-key", "mine", *SUBMIT[-3:]) for _ in "ab")
    assert (first.code, again.code) == (0, 0)
    assert "this request was carried out before" in again.out + again.err
    assert len(shell.ok("get", "runs", "-o", "name").split()) == 1


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (("token", "issue", "--role", "auditor", "--user", "ada"), "cannot be repeated"),
        (("tick",), "must be ASCII"),
    ],
)
def test_key_that_cannot_be_used_is_refused(
    shell: Shell, words: tuple[str, ...], fault: str
) -> None:
    key = "mine" if len(words) > 1 else "clé"
    said = shell(*words, "--idempotency-key", key)
    assert (said.code, fault in said.err) == (Exit.USAGE, True), said
