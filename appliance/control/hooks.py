"""Which programs of the deploy file run on an event, and that they can hold up nothing but each other.

A program gets the event as one line of JSON on its standard input, and its name in APPLIANCE_EVENT; no shell sees it.
"""

import asyncio
import os
import signal
import tempfile
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import IO

import msgspec

from appliance import log
from appliance.config.operations import Hook
from appliance.control.events import Event, Events
from appliance.control.tail import Tail, tail

AT_ONCE = 4
MOST_WAITING = 100
"""Runs that are due; of those above, the newest are left out."""
SHOWN_BYTES = 2000
"""Of what a failing program wrote last."""

_log = log.get()


def due(hooks: Iterable[Hook], event: Event) -> list[Hook]:
    """Those for this event, in the order of the file."""
    return [hook for hook in hooks if hook.event == event["event"]]


class Hooks:
    """Runs what `hooks` holds when an event comes, as long as `run` is running."""

    def __init__(self, events: Events, hooks: Callable[[], Iterable[Hook]], environ: Mapping[str, str]) -> None:
        self._events, self._hooks, self._environ = events, hooks, environ
        self._due: asyncio.Queue[tuple[Hook, Event]] = asyncio.Queue(MOST_WAITING)

    async def run(self) -> None:
        """Serve all events until cancelled; programs that run then are killed."""
        with self._events.listening() as listener:
            async with asyncio.TaskGroup() as tasks:
                for number in range(AT_ONCE):
                    tasks.create_task(self._work(), name=f"hooks {number}")
                while True:
                    self._put(await listener.next())

    def _put(self, event: Event) -> None:
        for hook in due(self._hooks(), event):
            try:
                self._due.put_nowait((hook, event))
            except asyncio.QueueFull:
                _log.warning("hook.left_out", on=hook.event, run=hook.run[0], waiting=MOST_WAITING)

    async def _work(self) -> None:
        while True:
            hook, event = await self._due.get()
            environ = {**self._environ, "APPLIANCE_EVENT": hook.event}
            if failed := await call(hook, msgspec.json.encode(event) + b"\n", environ):
                _log.warning("hook.failed", on=hook.event, run=hook.run[0], reason=failed)


async def call(hook: Hook, said: bytes, environ: Mapping[str, str]) -> str:
    """Run one program to its end, at most for its timeout; what went wrong, or nothing.

    A program that does not read, writes a lot, or leaves a child behind blocks nobody and fills no disk: it is given
    a file, and of what it writes the end is kept.
    """
    with await asyncio.to_thread(_holding, said) as given:
        async with tail(SHOWN_BYTES) as wrote:
            return await _run(hook, given, wrote, environ)


async def _run(hook: Hook, given: IO[bytes], wrote: Tail, environ: Mapping[str, str]) -> str:
    try:
        process = await asyncio.create_subprocess_exec(
            *hook.run, env=environ, stdin=given, stdout=asyncio.subprocess.DEVNULL, stderr=wrote.writing,
            start_new_session=True,
        )  # fmt: skip
        wrote.given()
    except (OSError, ValueError) as error:
        return f"it cannot be started: {error}"
    try:
        async with asyncio.timeout(hook.timeout):
            code = await process.wait()
    except TimeoutError:
        return f"it did not end within {hook.timeout:g} s, and was killed"
    finally:
        await _end(process)
    return "" if code == 0 else f"exit {code}: {wrote.rest().decode(errors='replace').strip()}"


def _holding(content: bytes) -> IO[bytes]:
    file = tempfile.TemporaryFile()  # noqa: SIM115 - closed by whoever asked for it
    file.write(content)
    file.seek(0)
    return file


async def _end(process: asyncio.subprocess.Process) -> None:
    """Kill it, with what it has started, if it has not ended by itself."""
    if process.returncode is None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
