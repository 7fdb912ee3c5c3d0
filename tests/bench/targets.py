"""What is compared: two servers over HTTP, and mlx-lm's `BatchGenerator` with no server around it."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import aiohttp
import msgspec

from tests.bench import client
from tests.bench.answer import Load, Outcome
from tests.bench.process import stop
from tests.bench.servers import Server, engine_environ


class Target(Protocol):
    """Something that answers loads; only one of them at a time."""

    @property
    def name(self) -> str: ...

    @property
    def pid(self) -> int: ...

    async def run(self, load: Load) -> Outcome: ...


@dataclass(frozen=True, slots=True)
class Http:
    """A server, over the connections of one session."""

    server: Server
    session: aiohttp.ClientSession

    @property
    def name(self) -> str:
        return self.server.name

    @property
    def pid(self) -> int:
        return self.server.pid

    async def run(self, load: Load) -> Outcome:
        return await client.run(self.session, self.server, load)


@dataclass(frozen=True, slots=True)
class InProcess:
    """The loop of `tests.bench.ceiling`, in a child that waits for lines while it has nothing to do."""

    process: subprocess.Popen[bytes]
    name: str = "BatchGenerator"

    @property
    def pid(self) -> int:
        return self.process.pid

    async def run(self, load: Load) -> Outcome:
        return await asyncio.to_thread(self._run, load)

    def _run(self, load: Load) -> Outcome:
        lines, answers = self.process.stdin, self.process.stdout
        assert lines is not None and answers is not None
        lines.write(msgspec.json.encode(load) + b"\n")
        lines.flush()
        return msgspec.json.decode(answers.readline(), type=Outcome)


@contextmanager
def in_process(path: Path, directory: Path) -> Iterator[InProcess]:
    """The loop on a model directory, in the environment of an engine."""
    with (directory / "BatchGenerator.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.bench.ceiling", str(path)],
            env=engine_environ(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
        )
    try:
        yield InProcess(process)
    finally:
        stop(process)
