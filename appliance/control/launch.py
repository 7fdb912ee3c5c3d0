"""What an engine process is started with, and its start."""

import asyncio
import os
import socket
import sys
from asyncio.subprocess import DEVNULL, Process
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import appliance
from appliance.errors import LoadFailed
from appliance.vocab.spec import EngineSettings, EngineSpec

SOCKET_BYTES = 1 << 20

Backend = Literal["mlx", "fake"]


@dataclass(frozen=True, slots=True)
class Blank:
    """What a process is started with before it has a model: `environ` is its whole environment, `log` the format and
    the level of what it logs.
    """

    backend: Backend
    environ: Mapping[str, str]
    log: tuple[str, str] = ("console", "info")


@dataclass(frozen=True, slots=True)
class Launch:
    """All an engine is started with; `model` is a name for logs and messages, the rest as in Blank."""

    model: str
    spec: EngineSpec
    settings: EngineSettings
    environ: Mapping[str, str]
    log: tuple[str, str] = ("console", "info")

    @property
    def blank(self) -> Blank:
        """The kind of blank process it could be given to."""
        return Blank(self.spec.backend, self.environ, self.log)


async def start(blank: Blank, *, ahead: bool) -> tuple[Process, socket.socket]:
    """A process that has no model yet, and our end of its socket; `ahead` it imports what its backend needs before it
    is given one. Raises LoadFailed.
    """
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    for end in (ours, theirs):
        for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            end.setsockopt(socket.SOL_SOCKET, option, SOCKET_BYTES)
    try:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-P", "-m", "appliance.engine", str(theirs.fileno()), *blank.log,
            *([blank.backend] if ahead else []), stdin=DEVNULL, pass_fds=(theirs.fileno(),),
            env=package_environ(blank.environ),
        )  # fmt: skip
    except OSError as error:
        ours.close()
        raise LoadFailed(f"the engine process cannot be started: {error.strerror}") from error
    finally:
        theirs.close()
    return process, ours


def package_environ(environ: Mapping[str, str]) -> dict[str, str]:
    """The child starts with -P, so that a file in the working directory cannot shadow a module; in a checkout
    the package itself must then be named."""
    root = Path(appliance.__file__).resolve().parent.parent
    if root.name == "site-packages":
        return dict(environ)
    already = environ.get("PYTHONPATH")
    return {**environ, "PYTHONPATH": f"{root}{os.pathsep}{already}" if already else str(root)}
