"""The confinement of a run's processes.

Confinement separates the processes from the service, and from runs of other system users. The
keeper itself stays root. Each process that the keeper starts first joins the run's cgroup, hides
the processes of other users from itself, and becomes the run's system user for good. Only then does
the process enter the working folder and start its program. Protections that the kernel or the
container does not allow are named in the run's output.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from quorate.keeper import cgroups
from quorate.keeper.start_errors import CODE_NOT_STARTED, StartError, error_words
from quorate.keeper.system_users import Account, AccountError, account
from quorate.keeper.wanted import HOME, JOB_FOLDER, Isolation
from quorate.runtime import NOTICE, NOTICE_FILE

PASSED_ON: Final = frozenset(
    {"PATH", "LANG", "LANGUAGE", "TZ", "LD_LIBRARY_PATH", "SSL_CERT_FILE", "SSL_CERT_DIR"}
)
"""The variables that a confined process gets from the service's environment.

The process also gets all variables ``LC_*``.
"""
_CLONE_NEWNS: Final = 0x20000
_MS_NOSUID_NODEV_NOEXEC: Final = 2 | 4 | 8
_MS_REC_SLAVE: Final = 0x4000 | 1 << 19
_PR_SET_NO_NEW_PRIVS: Final = 38
_KEYCTL: Final = {"x86_64": 250, "aarch64": 219, "riscv64": 219, "ppc64le": 271, "s390x": 280}
"""Type of processor -> number of the system call ``keyctl``.

The number is needed because the C library has no function for this call.
"""
_KEYCTL_JOIN_SESSION_KEYRING: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Confinement:
    """The protections of one start of a run; ``gaps`` names those that could not be set."""

    account: Account
    folder: Path
    notice: Path
    cgroup: Path | None
    hides_others: bool
    gaps: tuple[str, ...]

    @property
    def home(self) -> str:
        """The folder in which work starts if its run names no working folder."""
        return str(self.folder / HOME)

    def summary(self) -> str:
        """Return, in one line, which protections are set and which could not be set."""
        had = [f"work runs as {self.account}"]
        if self.hides_others:
            had.append("other users' processes are hidden")
        if self.cgroup is not None:
            had.append("work has its own cgroup")
        return "; ".join([*had, *self.gaps])

    def environment(self, inherited: Mapping[str, str]) -> dict[str, str]:
        """Return the environment of each process.

        The environment has the variables of the process's user, and those variables of
        ``inherited`` that are in ``PASSED_ON`` or begin with ``LC_``.
        """
        own = self.account
        kept = {k: v for k, v in inherited.items() if k in PASSED_ON or k.startswith("LC_")}
        name = own.name or str(own.uid)
        return {
            **kept,
            "HOME": own.home or self.home,
            "USER": name,
            "LOGNAME": name,
            "SHELL": own.login_shell,
            NOTICE: str(self.notice),
        }

    def show_notice(self, content: bytes) -> None:
        """Write ``content`` as the run's notice, which only its user can read; raises OSError."""
        draft = self.notice.with_name(f".{self.notice.name}")
        draft.unlink(missing_ok=True)
        file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o400)
        with os.fdopen(file, "wb") as opened:
            opened.write(content)
            os.fchown(file, self.account.uid, self.account.gid)
        draft.replace(self.notice)

    def enter(self, working_dir: str, die_with_keeper: Callable[[], None]) -> None:
        """Confine this process, and make it the run's user; raises ``StartError``.

        Only a process that is about to start a program may call this method, because confinement
        cannot be undone.
        """
        try:
            if self.cgroup is not None:
                cgroups.join(self.cgroup)
            if self.hides_others:
                hide_others()
            own = self.account
            os.setgroups(own.groups)
            os.setresgid(own.gid, own.gid, own.gid)
            os.setresuid(own.uid, own.uid, own.uid)
            _leave_keyring()
            _called("prctl", _PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
            if {*os.getresuid(), *os.getresgid()} != {own.uid, own.gid}:
                raise PermissionError(errno.EPERM, "the process still runs as another user")
        except OSError as error:
            raise StartError(
                CODE_NOT_STARTED,
                f"work cannot become {self.account}: {error_words(error)}; the service needs all "
                "rights of root, also in a container",
            ) from None
        # The kernel drops this setting when a process changes its user, so it is set afterwards.
        die_with_keeper()
        self._go_to(working_dir)

    def _go_to(self, working_dir: str) -> None:
        """Enter the working folder as the run's user, who may lack rights that root has."""
        try:
            if working_dir == self.home:
                Path(working_dir).mkdir(mode=0o700, exist_ok=True)
            os.chdir(working_dir)
        except (FileNotFoundError, NotADirectoryError):
            what = "does not exist; create it, or name another folder"
        except (OSError, ValueError) as error:
            what = (
                f"cannot be entered by the run's system user, {self.account}: "
                f"{error_words(error)}; let the user in (each folder above must be executable for "
                "the user), or name another folder"
            )
        else:
            return
        raise StartError(CODE_NOT_STARTED, f"workingDir {working_dir!r} {what}")


def confined(isolation: Isolation, run_folder: Path) -> Confinement:
    """Set up and return all protections of a run that is about to start; raises ``StartError``."""
    own = _account(isolation)
    place = Path(isolation.folder)
    try:
        folder = _own_folder(place, own)
        cgroup, gaps = _cgroup(isolation, run_folder)
    except OSError as error:
        raise StartError(
            CODE_NOT_STARTED,
            f"the run's private folder cannot be created in {place}: {error_words(error)}",
        ) from None
    if os.uname().machine not in _KEYCTL:
        gaps.append("work can read keys in the session keyring of the service")
    why_not = why_others_show()
    if why_not:
        gaps.append(f"other users' processes are not hidden: {why_not}")
    return Confinement(
        account=own,
        folder=folder,
        notice=place / NOTICE_FILE,
        cgroup=cgroup,
        hides_others=not why_not,
        gaps=tuple(gaps),
    )


def _account(isolation: Isolation) -> Account:
    if isolation.why_not:
        raise StartError(CODE_NOT_STARTED, isolation.why_not)
    try:
        return account(isolation.account)
    except AccountError as error:
        raise StartError(CODE_NOT_STARTED, f"{isolation.subject}: {error}") from None


def _own_folder(place: Path, own: Account) -> Path:
    """Return the folder that only the run's user can read; make it if it is missing.

    The parent folder ``place`` belongs to root, so that no job can replace the private folder.
    """
    place.mkdir(exist_ok=True)
    place.chmod(0o711)
    folder = place / JOB_FOLDER
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        found = folder.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid not in (0, own.uid):
            # The keeper does not change the owner of the files itself: as root, it would also
            # change the files to which links in the folder lead.
            raise StartError(
                CODE_NOT_STARTED,
                f"{folder} belongs to uid {found.st_uid}, but the run now runs as {own}; if "
                f"nothing else uses the folder, run: chown -hR {own.uid}:{own.gid} {folder}",
            ) from None
    os.chown(folder, own.uid, own.gid, follow_symlinks=False)
    folder.chmod(0o700)
    return folder


def _cgroup(isolation: Isolation, run_folder: Path) -> tuple[Path | None, list[str]]:
    """Return the run's cgroup, and texts that name the limits that are not set.

    The cgroup is None if the run does not have its own.
    """
    if not isolation.cgroup:
        return None, ["work does not have its own cgroup; not bounded: memory, processes"]
    try:
        path, unbounded = cgroups.make(
            isolation.cgroup,
            run_folder,
            memory_bytes=isolation.memory_bytes,
            processes=isolation.processes,
        )
    except OSError as error:
        return None, [f"work does not have its own cgroup: {error_words(error)}"]
    return path, [f"not bounded: {', '.join(unbounded)}"] if unbounded else []


@cache
def why_others_show() -> str:
    """Return why a process cannot hide other users' processes from itself; empty if it can.

    A child process tries this, because hiding cannot be undone. The calling process must have only
    one thread, because this function forks.
    """
    child = os.fork()
    if child == 0:
        code = 1
        try:
            hide_others()
            code = 0
        except OSError as error:
            code = error.errno or 1
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code == 0:
        return ""
    return f"a private /proc cannot be mounted ({os.strerror(code).lower()})"


def hide_others() -> None:
    """Hide other users' processes from this process and its descendants; raises OSError.

    Hiding needs Linux 5.8. In older kernels, all mounts of /proc share their options, and the
    option ``hidepid=invisible`` is unknown.
    """
    _called("unshare", _CLONE_NEWNS)
    slave, hardened = ctypes.c_ulong(_MS_REC_SLAVE), ctypes.c_ulong(_MS_NOSUID_NODEV_NOEXEC)
    # The process sees later mounts of the machine, but the machine does not see mounts made here.
    _called("mount", b"none", b"/", None, slave, None)
    _called("mount", b"proc", b"/proc", b"proc", hardened, b"hidepid=invisible")


def _leave_keyring() -> None:
    """Hide the keys of the service's session from this process; raises OSError."""
    number = _KEYCTL.get(os.uname().machine)
    if number is None:
        return  # ``confined`` reports this gap in the run's output.
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(number, _KEYCTL_JOIN_SESSION_KEYRING, None) < 0:
        code = ctypes.get_errno()
        # ENOSYS: the kernel has no keys. EPERM: the container forbids their use.
        if code not in (errno.ENOSYS, errno.EPERM):
            raise OSError(code, os.strerror(code))


def _called(name: str, *arguments: int | bytes | ctypes.c_ulong | None) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, name)(*arguments) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
