"""Where the state of one deploy file is kept, and who may write there: one running appliance at a time.

The directory is keyed by the file's real path as it was when the file was first served: a symbolic link that is
switched later, as configuration mounts do, still leads to the same state.
"""

import errno
import fcntl
import hashlib
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from appliance.errors import StartRefused

LONGEST_SOCKET_PATH = 103
"""Bytes every supported system can bind."""

NAMES, LOCK, FILE = "names", "lock", "file"
"""Entries of the root and of each state directory."""

_IN_USE, _NOT_PERMITTED, _CANNOT_CREATE = 75, 77, 73


@dataclass(frozen=True, slots=True)
class StateDir:
    """`file` is the deploy file by its absolute path, `alias` where its key is written down if links lead to it."""

    file: Path
    path: Path
    alias: Path

    @property
    def generations(self) -> Path:
        """The journal's directory."""
        return self.path / "generations"

    @property
    def usage(self) -> Path:
        """What keys have used today."""
        return self.path / "usage.sqlite"

    @property
    def sizes(self) -> Path:
        """What engines took when they were loaded last."""
        return self.path / "sizes.json"

    @property
    def scales(self) -> Path:
        """How many tokens families make of bytes."""
        return self.path / "scales.json"

    @property
    def files(self) -> Path:
        """What clients sent to be kept, and what batches wrote."""
        return self.path / "files"

    @property
    def batches(self) -> Path:
        """The batches there are."""
        return self.path / "batches"

    @property
    def lock(self) -> Path:
        """Held while the appliance runs; its text is the number of the process."""
        return self.path / LOCK

    @property
    def socket(self) -> Path:
        """The admin socket: here, or where the path would be too long to bind, in a directory of this user's own."""
        here = self.path / "admin.sock"
        if len(os.fsencode(here)) <= LONGEST_SOCKET_PATH:
            return here
        return Path(f"/tmp/appliance-{os.getuid()}") / f"{_key(self.path)}.sock"


def default_root(environ: Mapping[str, str] = os.environ) -> Path:
    """`$APPLIANCE_HOME/state`, else `~/.appliance/state`."""
    home = environ.get("APPLIANCE_HOME")
    return (Path(home).absolute() if home else Path.home() / ".appliance") / "state"


def state_of(file: Path, environ: Mapping[str, str] = os.environ) -> StateDir:
    """The state directory of a deploy file; neither has to exist."""
    root, named = default_root(environ), Path(os.path.abspath(file))
    alias = root / NAMES / _key(named)
    try:
        key = alias.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        key = _key(Path(os.path.realpath(named)))
    return StateDir(named, root / key, alias)


def names_of(path: Path) -> list[Path]:
    """The deploy file a state directory is of: as it was served last, and where its links led then."""
    with suppress(OSError):
        text = (path / FILE).read_text(encoding="utf-8", errors="surrogateescape")
        return [Path(line) for line in text.splitlines()]
    return []


@contextmanager
def held(state: StateDir) -> Iterator[None]:
    """Within the block this process alone serves the file. Raises StartRefused naming the process that does already,
    or the directory that cannot be used.
    """
    try:
        _prepare(state)
        lock = os.open(state.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise _refused(error, state) from error
    try:
        try:
            _lock(lock, state)
        except OSError as error:
            raise _refused(error, state) from error
        yield
    finally:
        # The file stays: removing it would let a third process lock another file of the same name.
        os.close(lock)


def _refused(error: OSError, state: StateDir) -> StartRefused:
    code = _NOT_PERMITTED if error.errno in (errno.EACCES, errno.EPERM) else _CANNOT_CREATE
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    return StartRefused(
        f"the state directory {error.filename or state.path} cannot be used: {error.strerror};"
        f" {'make room there' if full else 'set APPLIANCE_HOME to a directory of yours'}",
        exit_code=code,
    )


def owner(state: StateDir) -> int | None:
    """The process that serves the file now, or None."""
    try:
        lock = os.open(state.lock, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return _pid(lock)
    finally:
        os.close(lock)
    return None


def _lock(lock: int, state: StateDir) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        pid = _pid(lock)
        who = f"process {pid}" if pid else "another process"
        raise StartRefused(
            f"{state.file} is served by {who} already; `appliance down -f {state.file}` ends it", exit_code=_IN_USE
        ) from None
    os.truncate(lock, 0)
    os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)


def _put(path: Path, text: str) -> None:
    """Left alone where it says so already: writing it anew to a full disk would lose it."""
    data = text.encode("utf-8", "surrogateescape")
    with suppress(FileNotFoundError):
        if path.read_bytes() == data:
            return
    path.write_bytes(data)


def _prepare(state: StateDir) -> None:
    for directory in (state.path, state.generations, state.socket.parent):
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        _check_ours(directory)
        directory.chmod(0o700)
    if state.file != Path(os.path.realpath(state.file)):
        state.alias.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _put(state.alias, f"{state.path.name}\n")
    names = "".join(f"{name}\n" for name in dict.fromkeys((str(state.file), os.path.realpath(state.file))))
    _put(state.path / FILE, names)


def _check_ours(directory: Path) -> None:
    """Raises PermissionError: in a shared directory somebody else may have made it first."""
    found = os.lstat(directory)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise PermissionError(errno.EPERM, "it belongs to somebody else", str(directory))


def _pid(lock: int) -> int | None:
    with suppress(ValueError):
        return int(os.pread(lock, 32, 0))
    return None


def _key(path: Path) -> str:
    return hashlib.sha256(os.fsencode(path)).hexdigest()[:16]
