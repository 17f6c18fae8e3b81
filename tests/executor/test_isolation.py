"""Jobs of two tenants with separate system users, under a real service that runs as root."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from quorate import runtime
from quorate.adapters.executors.keepers import job_folder, run_folder
from quorate.adapters.executors.logs_local import last_step
from quorate.adapters.key_file import key_path, lottery_path
from quorate.keeper import cgroups
from quorate.runtime import FOLDER
from tests.bounds import WAIT_S, until
from tests.executor import intruder
from tests.executor.room import environ, is_alive, marked, sweep
from tests.executor.test_serving import Asking
from tests.executor.test_training import documents
from tests.service.program import Program, client, program
from tests.service.worlds import run_tree

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0,
    reason="only root on Linux can start work as other system users",
)

OURS, THEIRS, ADA = 3_000_001, 3_000_002, 3_000_003
"""Numbers of users without an entry on this machine."""
HONEST = """
import os, socket, sys, time
sys.path.insert(0, sys.argv[1])
import runtime
world = runtime.world()
with open("mine", "w") as file:
    file.write("work of theirs")
if world.rank == 0:
    with socket.create_server((world.master_addr, world.master_port)) as server:
        server.settimeout(60)
        said = server.accept()[0].recv(100).decode()
    print(f"met {said} at {world.master_addr}", flush=True)
else:
    for _ in range(6000):
        try:
            with socket.create_connection((world.master_addr, world.master_port)) as peer:
                peer.sendall(f"rank {world.rank} of {world.size}".encode())
            break
        except OSError:
            time.sleep(0.01)
print("started again" if os.environ["QUORATE_GENERATION"] != "1" else "first start", flush=True)
with open("/dev/stdout", "w") as out:
    out.write("written by name\\n")
step = 0
while not runtime.stop_requested():
    step += 1
    runtime.report(step, loss=1.0 / step)
    time.sleep(0.02)
notice = runtime.notice()
if world.rank == 0:
    path = runtime.checkpoints() / "last"
    path.write_text(str(step))
    runtime.saved(path, step)
    print(f"{notice.kind}, saved {path.parent.name}, {notice.seconds_left > 0}", flush=True)
"""
ESCAPING = """
import ctypes, os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        ctypes.CDLL(None).prctl(1, 0, 0, 0, 0)
        with open("escaped", "a") as file:
            file.write(f"{os.getpid()}\\n")
        os.execve("/bin/sleep", ["sleep", "1000"], {})
    os._exit(0)
while not (os.path.exists("escaped") and os.path.getsize("escaped")):
    time.sleep(0.01)
print("up", os.environ["QUORATE_GENERATION"], flush=True)
time.sleep(1000)
"""


DROPPING = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
for right in (19, 21):  # CAP_SYS_PTRACE and CAP_SYS_ADMIN, which containers seldom have.
    assert libc.prctl(24, right, 0, 0, 0) == 0
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


KEYED = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
assert libc.syscall(250, 1, None) > 0
assert libc.syscall(248, b"user", b"quorate-test", b"secret", 6, -3) > 0
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""
FINDING = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
print("found" if libc.syscall(250, 10, -3, b"user", b"quorate-test", 0) > 0 else "nothing")
"""


def reachable_python(folder: Path) -> str:
    """Return a Python that another system user can start; skip the test if there is none."""
    for path in (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3"):
        try:
            done = subprocess.run([path, "-c", ""], user=OURS, cwd=folder, check=False)
        except OSError:
            continue
        if done.returncode == 0:
            return path
    pytest.skip("no Python here can be started by another system user")


@dataclass
class Site(Asking):
    """A service whose tenants have system users; all of them can enter ``folder``."""

    folder: Path
    served: Program
    python: str

    @property
    def work(self) -> Path:
        """The folder of the executor."""
        return Path(f"{self.ledger}.work")

    def submit(self, name: str, gpus: int, command: list[str], **more: Any) -> None:
        """Submit a run of ``ours``, unless another owner is named."""
        more = {"runtime": {"checkpoint": "10m", "expectedDuration": "1h"}} | more
        owner = more.pop("owner", "ours")
        self.post("runs", {"document": run_tree(name, owner, gpus, command=command, **more)})

    def processes(self, name: str) -> dict[int, dict[str, str]]:
        """Return the processes of a run, except its keeper."""
        found = marked(self.work / "jobs" / name / "folder")
        return {pid: env for pid, env in found.items() if "RANK" in env}

    def keeper(self, name: str) -> int:
        """Return the keeper of a run."""
        return next(iter(marked(run_folder(self.work, name))))

    def completes(self, name: str) -> None:
        """Return when a run has completed."""
        self.until(lambda: self.phase(name) in ("Completed", "Failed"), f"{name} goes on")
        assert self.phase(name) == "Completed", self.lines(name)

    def why_failed(self, name: str) -> str:
        """Return the description and the status of a failed run."""
        self.until(lambda: self.phase(name) == "Failed", f"{name} fails: {self.lines(name)}")
        return self.client.get(f"/api/v1/runs/{name}/describe").text + str(self.status(name))

    def said(self, name: str, text: str) -> str:
        """Return the first output line of a run that contains ``text``, as soon as it exists."""

        def look() -> str:
            return next((line for line in self.lines(name) if text in line), "")

        return self.until(look, f"{name} does not say {text!r}: {self.lines(name)}")


def config(folder: Path, run_as: str) -> None:
    """Write the configuration of the service."""
    text = f'ledger = "l.db"\n[executor]\nkind = "local"\n{run_as}\n'
    (folder / "q.toml").write_text(text, encoding="utf-8")


MAP = f'[executor.run_as.map]\nours = {OURS}\ntheirs = "{THEIRS}"\n"ours/ada" = {ADA}'


@contextmanager
def open_folder() -> Iterator[Path]:
    """Return a new folder that every system user can enter, and in which no test runs."""
    folder = Path(tempfile.mkdtemp(prefix="quorate-isolation-", dir="/tmp"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        # Isolated work is marked with its own folder, which is below this one.
        sweep(folder / "l.db.work")
        for each in (folder / "l.db.work" / "runs").glob("*"):
            cgroup = each / cgroups.CGROUP_FILE
            if cgroup.exists():
                cgroups.remove(Path(cgroup.read_text()))
        shutil.rmtree(folder)


@contextmanager
def asking(folder: Path, python: Sequence[str] = ()) -> Iterator[Site]:
    """Serve the ledger in ``folder``, and yield a client of an admin."""
    reachable = reachable_python(folder)
    shutil.copy(runtime.__file__, folder / "runtime.py")
    shutil.copy(intruder.__file__, folder / "intruder.py")
    words = ("--listen", "127.0.0.1:0", "--config", "q.toml", "--init", "--token-file", "token")
    served = Program(folder, *words, python=python)
    try:
        url = served.wait_ready()
        # The first service saves its token there before it prints more.
        kept = folder / "token"
        until(
            lambda: kept.exists() and kept.read_text().endswith("\n"),
            "the token is kept",
            server=served.process,
            tell=lambda: served.err,
        )
        with client(url, kept.read_text().strip()) as found:
            yield Site(found, folder / "l.db", folder, served, reachable)
        assert served.end() == 0
        assert "Traceback" not in served.err, served.err
    finally:
        if served.process.poll() is None:
            served.process.kill()
            served.process.wait(WAIT_S)


@contextmanager
def two_tenants() -> Iterator[Site]:
    """Serve two tenants, and a user with a separate system user."""
    with open_folder() as folder:
        config(folder, MAP)
        with asking(folder) as found:
            found.post("apply", {"documents": documents()})
            yield found


@pytest.fixture
def site() -> Iterator[Site]:
    """Return a service with two tenants, for one test."""
    with two_tenants() as found:
        yield found


@pytest.fixture(scope="module")
def common_site() -> Iterator[Site]:
    """Return a service with two tenants, for tests that end what they start."""
    with two_tenants() as found:
        yield found


def test_a_job_reaches_nothing_of_the_service_or_of_another_tenant(site: Site) -> None:
    tried, seen = intruded(site)
    assert {name: how for name, how in tried.items() if how == "done"} == {}
    check_seen(site, seen)


@pytest.mark.soak
def test_in_a_container_without_all_rights_a_job_sees_command_lines_and_no_more() -> None:
    with open_folder() as folder:
        config(folder, MAP)
        dropping = folder / "dropping.py"
        dropping.write_text(DROPPING)
        with asking(folder, (str(dropping),)) as site:
            site.post("apply", {"documents": documents()})
            tried, seen = intruded(site)
            done = {name for name, how in tried.items() if how == "done"}
            assert done == {name for name in tried if name.startswith("cmdline of ")}
            assert 0 in seen["owners_seen"]
            told = "a private /proc cannot be mounted (operation not permitted)"
            assert f"work can see the processes of other users: {told}" in site.served.err
            assert f"other users' processes are not hidden: {told}" in site.said("bad", "runs as")
            check_seen(site, seen)
            # Its environment cannot be read here, and its remaining processes are still killed.
            site.submit("hidden", 1, ["sh", "-c", "echo up; sleep 1000 & sleep 1000"])
            site.until(lambda: site.is_up("hidden", 1), "it starts")
            before = list(site.processes("hidden"))
            os.kill(site.keeper("hidden"), signal.SIGKILL)
            site.until(lambda: site.is_up("hidden", 2), "it starts again")
            assert not any(is_alive(pid) for pid in before)


@pytest.mark.skipif(
    os.uname().machine != "x86_64" or not Path("/proc/keys").exists(),
    reason="numbers of system calls are those of x86-64, and kernels may have no keys",
)
def test_a_job_finds_no_key_of_the_session_that_the_service_is_in() -> None:
    with open_folder() as folder:
        config(folder, MAP)
        keyed = folder / "keyed.py"
        keyed.write_text(KEYED)
        alone = [sys.executable, str(keyed), "-c", FINDING]
        assert subprocess.run(alone, stdout=subprocess.PIPE, check=True).stdout == b"found\n"
        with asking(folder, (str(keyed),)) as site:
            site.post("apply", {"documents": documents()})
            site.submit("r", 1, [site.python, "-c", FINDING])
            site.completes("r")
            assert site.lines("r")[-1] == "nothing"


def intruded(site: Site) -> tuple[dict[str, str], dict[str, Any]]:
    """Return what a job of one tenant could do to the other and to the service, and what it sees.

    The job of the other tenant is not affected.
    """
    file = site.folder / "targets.json"
    honest = [site.python, "-c", HONEST, str(site.folder)]
    site.submit("good", 2, honest, owner="theirs")
    site.until(lambda: site.lines("good").count("first start") == 2, str(site.lines("good")))
    site.submit("bad", 1, [site.python, str(site.folder / "intruder.py"), str(file)])
    site.until(lambda: site.processes("bad"), "it waits for its targets")
    site.until(lambda: last_step(job_folder(site.work, "good")), "there are steps to be read")
    targets = targets_of(site)
    # To show that the test can fail: none of this is denied to root.
    alone = {name: intruder.tried(each) for name, each in intruder.attempts(targets)}
    assert {name: how for name, how in alone.items() if how != "done"} == {}
    draft = file.with_suffix(".draft")
    draft.write_text(json.dumps(targets))
    draft.rename(file)  # The intruder sees either the whole file or no file.
    site.completes("bad")
    found = json.loads(next(line for line in site.lines("bad") if line.startswith("{")))
    assert found["tried"].keys() == alone.keys()
    assert site.phase("good") == "Running"
    assert site.served.process.poll() is None
    return found["tried"], found["seen"]


def targets_of(site: Site) -> dict[str, Any]:
    """Return all existing objects that the job of one tenant must not reach."""
    work, ledger = site.work, site.ledger
    theirs = job_folder(work, "good")
    assert theirs == work / "jobs" / "good" / "folder"
    runs = [run_folder(work, name) for name in ("good", "bad")]
    kept = [run / name for run in runs for name in ("wanted.json", "status.json", "session.json")]
    outputs = [next((run / "output").glob("*.log")) for run in runs]
    files = [
        key_path(ledger),
        lottery_path(ledger),
        site.folder / "token",
        ledger,
        ledger.with_name("l.db-wal"),
        theirs / "home" / "mine",
        theirs / "steps" / "rank-0.jsonl",
        *kept,
        *outputs,
        *(run / "keeper.log" for run in runs),
    ]
    folders = [work / "runs", *runs, *(each.parent for each in outputs), theirs, theirs / "home"]
    return {
        "files": [str(path) for path in files],
        "folders": [str(path) for path in [*folders, work / "live", work / "jobs"]],
        "pipes": [str(path) for path in (work / "room", *(run / "poke" for run in runs))],
        "processes": {
            "the service": site.served.process.pid,
            "its keeper": site.keeper("bad"),
            "another keeper": site.keeper("good"),
            "another job": next(iter(site.processes("good"))),
        },
    }


def check_seen(site: Site, seen: dict[str, Any]) -> None:
    """Check the identity of the job, and its output."""
    assert seen["descriptors"] == [0, 1, 2]
    assert seen["uids"] == seen["gids"] == [OURS] * 3
    assert seen["groups"] == [OURS]
    assert seen["no_new_privs"] == "1"
    assert {int(each, 16) for each in seen["capabilities"]} == {0}
    assert seen["session"] == seen["pid"]
    env = seen["environ"]
    assert env["HOME"] == str(site.work / "jobs" / "bad" / "folder" / "home")
    assert env["USER"] == str(OURS)
    own = {"PATH", "LANG", "LANGUAGE", "TZ", "LD_LIBRARY_PATH", "SSL_CERT_FILE", "SSL_CERT_DIR"}
    own |= {"HOME", "USER", "LOGNAME", "SHELL", "PYTHONUNBUFFERED", "CUDA_VISIBLE_DEVICES"}
    own |= {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK", "NNODES"}
    own |= {"MASTER_ADDR", "MASTER_PORT"}
    assert {name for name in env if not name.startswith(("LC_", "QUORATE_"))} <= own
    assert env[FOLDER] == str(job_folder(site.work, "bad"))
    mode = job_folder(site.work, "bad").stat()
    assert (mode.st_uid, mode.st_mode & 0o7777) == (OURS, 0o700)
    said = site.said("bad", "work runs as")
    if "are not hidden" not in said:
        assert seen["owners_seen"] == [OURS]
    if "its own cgroup" in said:
        assert any(
            line.endswith(cgroups.name_of(run_folder(site.work, "bad"))) for line in seen["cgroup"]
        )
    # The run and the log of the service both name the missing limits.
    assert ("not bounded" in said) == ("are not limited" in site.served.err)


@pytest.mark.soak
def test_an_honest_job_works_as_ever_also_through_a_new_service() -> None:
    with open_folder() as folder:
        config(folder, MAP)
        with asking(folder) as site:
            site.post("apply", {"documents": documents()})
            site.submit("good", 2, [site.python, "-c", HONEST, str(folder)], owner="theirs")
            assert site.said("good", "met ") == "met rank 1 of 2 at 127.0.0.1"
            site.said("good", "written by name")
            pids = sorted(site.processes("good"))
            assert {Path(f"/proc/{pid}").stat().st_uid for pid in pids} == {THEIRS}
            assert {env["WORLD_SIZE"] for env in site.processes("good").values()} == {"2"}
        assert all(is_alive(pid) for pid in pids)
        with asking(folder) as site:
            assert sorted(site.processes("good")) == pids
            site.until(lambda: (last_step(job_folder(site.work, "good")) or 0) > 2, "it reports")
            shown = site.client.get("/api/v1/runs/good/logs").text
            assert "met rank 1 of 2" in shown
            # A drained node makes it save and restart elsewhere.
            site.post(f"nodes/{environ(pids[0])['QUORATE_NODE']}/drain")
            assert site.said("good", "saved") == "stop, saved checkpoints, True"
            site.until(lambda: site.lines("good").count("started again") == 2, "it goes on")
            assert (job_folder(site.work, "good") / "checkpoints" / "last").stat().st_uid == THEIRS
            site.post("runs/good/cancel")
            site.until(lambda: site.phase("good") == "Cancelled", "it is gone")
            assert site.lines("good").count("stop, saved checkpoints, True") == 2
            site.submit("wrong", 1, ["sh", "-c", "echo no such layer >&2; exit 3"])
            assert "exited with code 3: no such layer" in site.why_failed("wrong")


def test_each_run_has_the_system_user_of_its_submitter_or_owner(common_site: Site) -> None:
    site = common_site
    body = {"role": "user", "tenant": "ours", "user": "ada"}
    answer = site.client.post("/api/v1/tokens", json=body)
    assert answer.status_code in (200, 201), answer.text
    secret = answer.json()["token"]["secret"]
    who = ["sh", "-c", "id -u; id -g; id -G; pwd"]
    with client(str(site.client.base_url), secret) as ada:
        document = run_tree("hers", "ours", 1, command=who)
        assert ada.post("/api/v1/runs", json={"document": document}).status_code == 200
    site.submit("common", 1, who)
    for name, uid in (("hers", ADA), ("common", OURS)):
        site.completes(name)
        lines = [line for line in site.lines(name) if not line.startswith("quorate:")]
        assert lines == [str(uid)] * 3 + [str(job_folder(site.work, name) / "home")]


def test_work_that_cannot_have_its_user_or_folder_fails_and_says_why(common_site: Site) -> None:
    site = common_site
    shut = site.folder / "shut"
    (shut / "below").mkdir(parents=True)
    shut.chmod(0o700)
    site.submit("dir", 1, ["true"], workingDir=str(shut / "below"))
    told = site.why_failed("dir")
    assert f"cannot be entered by the run's system user, uid {OURS}: permission denied" in told
    site.submit("nodir", 1, ["true"], workingDir=str(site.folder / "absent"))
    assert "does not exist; create it" in site.why_failed("nodir")
    program = shut / "program"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    site.submit("command", 1, [str(program)])
    assert f"may not be run by the run's system user, uid {OURS}" in site.why_failed("command")
    # A folder in which another user has written is not given to the run's user.
    other = site.work / "jobs" / "moved" / "folder"
    other.mkdir(parents=True)
    os.chown(other, THEIRS, THEIRS)
    site.submit("moved", 1, ["true"])
    told = site.why_failed("moved")
    assert f"belongs to uid {THEIRS}" in told
    assert f"chown -hR {OURS}:{OURS} {other}" in told


def test_owners_without_a_system_user_start_nothing() -> None:
    with open_folder() as folder:
        named = next(each for each in pwd.getpwall() if each.pw_uid and each.pw_gid)
        config(
            folder,
            '[executor.run_as]\ntemplate = "quorate-{owner}"\n'
            f'map = {{ours = "{named.pw_name}"}}',
        )
        with asking(folder) as site:
            site.post("apply", {"documents": documents()})
            site.submit("mapped", 1, ["sh", "-c", "id -u; id -g; echo $HOME $USER $LOGNAME"])
            site.completes("mapped")
            assert site.lines("mapped")[-3:] == [
                str(named.pw_uid),
                str(named.pw_gid),
                f"{named.pw_dir} {named.pw_name} {named.pw_name}",
            ]
            site.submit("made", 1, ["true"], owner="theirs")
            told = site.why_failed("made")
            assert "owner theirs: there is no system user 'quorate-theirs'" in told
            assert "useradd --system quorate-theirs" in told
    with open_folder() as folder:
        config(folder, f"[executor.run_as.map]\nours = {OURS}")
        with asking(folder) as site:
            site.post("apply", {"documents": documents()})
            site.submit("left", 1, ["true"], owner="theirs")
            assert "owner theirs has no system user on this machine" in site.why_failed("left")


@pytest.mark.soak
def test_nothing_is_left_of_a_job_that_hides_when_its_keeper_is_killed(common_site: Site) -> None:
    site = common_site
    site.submit("hidden", 1, [site.python, "-c", ESCAPING])
    site.said("hidden", "up 1")
    home = job_folder(site.work, "hidden") / "home"
    escaped = int((home / "escaped").read_text())
    first = next(iter(site.processes("hidden")))
    has_cgroup = "work has its own cgroup" in site.said("hidden", "work runs as")
    keeper = site.keeper("hidden")
    assert is_alive(escaped)
    os.kill(keeper, signal.SIGKILL)
    site.said("hidden", "up 2")
    assert not is_alive(first)
    if has_cgroup:
        assert not is_alive(escaped)
    site.post("runs/hidden/cancel")
    site.until(lambda: site.phase("hidden") == "Cancelled", "it is gone")
    left = [int(line) for line in (home / "escaped").read_text().split()]
    if has_cgroup:
        assert not any(is_alive(pid) for pid in left)
    for pid in filter(is_alive, left):
        os.kill(pid, signal.SIGKILL)  # The fixture cannot find it either.


@pytest.mark.soak
def test_a_service_says_what_keeps_it_from_running_work() -> None:
    with open_folder() as folder:
        for words, code, told in (
            (["--executor", "local"], 1, "confirm it with: --executor-allow-root"),
            (
                ["--executor", "local", "--executor-run-as", "{owner}"],
                3,
                "--executor-run-as: a template must begin or end with fixed text",
            ),
            (["--executor-run-as", "q-{owner}"], 3, "only `local` work has a system user"),
        ):
            with program(folder, "--init", "--ledger", "l.db", *words) as refused:
                assert refused.process.wait(WAIT_S) == code, refused.err
                assert told in refused.err
                assert not (folder / "l.db").exists()
        for line, told in (
            ('ours = "no-such-user-here"', "there is no system user 'no-such-user-here'"),
            ('ours = "root"', "system user 'root' is root"),
        ):
            config(folder, f"[executor.run_as.map]\n{line}")
            with program(folder, "--init", "--config", "q.toml") as refused:
                assert refused.process.wait(WAIT_S) == 3
                assert f"executor.run_as: map.ours: {told}" in refused.err
        config(folder, MAP)
        (folder / "l.db").touch(0o640)
        (folder / "l.db").chmod(0o640)
        with program(folder, "--config", "q.toml") as refused:
            assert refused.process.wait(WAIT_S) == 1
            assert (
                "l.db: other users, and so jobs, may read or change them; run: chmod 600 l.db"
                in refused.err
            )
        (folder / "l.db").unlink()
        folder.chmod(0o700)
        with program(folder, "--init", "--config", "q.toml") as refused:
            assert refused.process.wait(WAIT_S) != 0
            assert f"only its owner may enter {folder}" in refused.err
