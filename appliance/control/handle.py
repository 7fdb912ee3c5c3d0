"""EngineHandle: the server's end of one engine process, from spawn to reaped.

Everything the engine says is dispatched where its bytes arrive, without a task in between.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar, cast

from appliance.control import launch
from appliance.control.launch import Blank, Launch
from appliance.control.questions import NOBODYS, Questions
from appliance.control.speech import Mismatches, Speech
from appliance.control.stream import Stream
from appliance.control.suspicion import End
from appliance.errors import BodyTooLarge, DiedLoading, EngineDied, LoadFailed, Overloaded, WireError, revive
from appliance.vocab.gauges import Gauges
from appliance.vocab.spec import EngineSettings, ModelInfo, Prompt, Submission
from appliance.wire import frames

MAX_UNSENT_BYTES = 256 << 20

Counted = frames.Counted
Reply = TypeVar("Reply", bound=frames.ToServer)


class EngineHandle:
    """One engine process. Made by `start`, or by `spawn` and `adopt`; `stop` must be awaited in the end, whatever
    happened before. `warm` is set when a blank one has done its imports. `heard` counts its frames, `gauges` are what
    it told of itself last.
    """

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.model = ""
        self.pid: int = process.pid
        self.warm = asyncio.Event()
        self.progress: tuple[str, float] = ("starting", 0.0)
        self.info: ModelInfo | None = None
        self.gauges: Gauges | None = None
        self.heard = 0
        self._process = process
        self._on_lost: Callable[[], None] = _nobody
        self._transport: asyncio.Transport | None = None
        self._streams: dict[int, Stream] = {}
        self._questions = Questions()
        self._disconnected = asyncio.Event()
        self._killed = self._hung = False
        self._ended: asyncio.Future[End] = asyncio.get_running_loop().create_future()
        self._loaded: asyncio.Future[ModelInfo] = asyncio.get_running_loop().create_future()
        self._loaded.add_done_callback(_retrieve)

    @classmethod
    async def start(cls, given: Launch, on_lost: Callable[[], None]) -> "EngineHandle":
        """Spawn the engine and send it its spec. `on_lost` is called when it is gone, before its streams fail.

        Raises LoadFailed when no process can be started.
        """
        handle = await cls.spawn(given.blank, ahead=False)
        handle.adopt(given, on_lost)
        return handle

    @classmethod
    async def spawn(cls, blank: Blank, *, ahead: bool = True) -> "EngineHandle":
        """Start a process that has no model yet; `ahead` it imports what its backend needs before it is given one.

        Raises LoadFailed when no process can be started.
        """
        process, ours = await launch.start(blank, ahead=ahead)
        handle = cls(process)
        try:
            await asyncio.get_running_loop().create_unix_connection(lambda: _Link(handle), sock=ours)
        except BaseException:
            ours.close()
            await handle._kill()
            raise
        return handle

    def adopt(self, given: Launch, on_lost: Callable[[], None]) -> None:
        """Have it load a model: once, and of its own backend."""
        self.model, self._on_lost = given.model, on_lost
        self._send(frames.Hello(frames.VERSION, given.model, given.spec, given.settings))

    async def ready(self, timeout: float) -> ModelInfo:
        """Wait until the model is loaded.

        Raises LoadFailed when the engine says so, dies, or needs longer than `timeout` seconds.
        """
        try:
            async with asyncio.timeout(timeout if timeout < float("inf") else None):
                return await asyncio.shield(self._loaded)
        except TimeoutError:
            phase, fraction = self.progress
            raise LoadFailed(
                f"loading {self.model} took longer than its load_timeout of {timeout:g} s"
                f" (it was at {phase}, {fraction:.0%})"
            ) from None

    def generate(self, submission: Submission) -> Stream:
        """Submit, and return the stream of what comes back.

        Raises EngineDied if the engine is gone, BodyTooLarge if the request cannot be sent in one frame,
        Overloaded if the engine does not read. The stream raises EngineDied when the engine dies.
        """
        if self._disconnected.is_set() or self._transport is None:
            raise self._death()
        if self._transport.get_write_buffer_size() > MAX_UNSENT_BYTES:
            raise Overloaded(f"the engine of {self.model} is not reading its requests", retry_after=5)
        try:
            self._send(frames.Submit(submission))
        except WireError as error:
            raise BodyTooLarge(f"the request is too large for the engine: {error.message}") from error
        stream = Stream(lambda ended: self._leave(submission.id, ended))
        self._streams[submission.id] = stream
        return stream

    def configure(self, settings: EngineSettings) -> None:
        """Change the live settings; a dead engine ignores it."""
        self._send(frames.Configure(settings))

    async def ping(self) -> frames.Pong:
        """How far it is and what it holds. Raises EngineDied if it is gone."""
        return await self._ask(frames.Pong, frames.Ping)

    def nudge(self) -> None:
        """Have it say something, for whoever sees that `heard` grows."""
        self._send(frames.Ping(NOBODYS))

    async def count(self, prompt: Prompt, *, detail: bool = False) -> Counted:
        """How many tokens a prompt has; with `detail` also which, and their text.

        Raises EngineDied if the engine is gone, BodyTooLarge, and what its tokenizer and template object to.
        """
        try:
            counted = await self._ask(frames.Counted, lambda nonce: frames.Count(nonce, prompt, detail))
        except WireError as error:
            raise BodyTooLarge(f"the request is too large for the engine: {error.message}") from error
        if (failed := counted.failed) is not None:
            raise revive(failed.code, failed.message, failed.param)
        return counted

    async def probe(self, speech: Speech) -> Mismatches:
        """What of a chat template and these dialects does not agree. Raises EngineDied."""
        probed = await self._ask(
            frames.Probed,
            lambda nonce: frames.Probe(nonce, speech.template, speech.variables, speech.tools, speech.reasoning),
        )
        return probed.mismatches

    async def _ask(self, kind: type[Reply], question: Callable[[int], frames.ToEngine]) -> Reply:
        if self._disconnected.is_set():
            raise self._death()
        answer = await self._questions.ask(lambda nonce: self._send(question(nonce)))
        assert isinstance(answer, kind)
        return answer

    def check(self) -> None:
        """Raises LoadFailed if the engine is gone, for whoever has not told anybody yet that it was loaded."""
        if self._disconnected.is_set():
            raise self._lost_in_load()

    @property
    def alive(self) -> bool:
        """It has not closed its end so far."""
        return not self._disconnected.is_set()

    async def disconnected(self) -> None:
        """Wait until the engine has closed its end: it is dead, dying or was stopped."""
        await self._disconnected.wait()

    def close(self) -> None:
        """Close the socket, which tells the engine to exit, and return at once."""
        if self._transport is not None:
            self._transport.close()

    async def stop(self, grace: float) -> int:
        """Close the socket, which tells the engine to exit; kill it after `grace` seconds.

        Returns the exit code (negative: the signal) once the process is reaped, also when cancelled.
        """
        self.close()
        try:
            async with asyncio.timeout(grace):
                return self._reaped(await self._process.wait())
        except TimeoutError:
            return await self._kill()
        except asyncio.CancelledError:
            await asyncio.shield(asyncio.ensure_future(self._kill()))
            raise

    def kill_hung(self) -> None:
        """End a process that makes no progress, whatever state it is in; what follows is an engine's death."""
        self._hung = True
        with suppress(ProcessLookupError):
            self._process.kill()

    async def ended(self) -> End:
        """Wait until the process is reaped; how it ended."""
        return await asyncio.shield(self._ended)

    def kill(self) -> None:
        """End the process, whatever state it is in."""
        self._killed = True
        with suppress(ProcessLookupError):
            self._process.kill()

    async def _kill(self) -> int:
        self.kill()
        return self._reaped(await self._process.wait())

    def _reaped(self, code: int) -> int:
        if not self._ended.done():
            self._ended.set_result(End(code, self._killed, self._hung))
        return code

    def _send(self, frame: frames.ToEngine) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(frames.encode(frame))

    def _leave(self, sequence: int, ended: bool) -> None:
        self._streams.pop(sequence, None)
        if not ended:
            self._send(frames.Cancel(sequence))

    def _lost_in_load(self) -> LoadFailed:
        how = "showed no sign of life any more and was ended" if self._hung else "ended"
        return DiedLoading(f"the engine of {self.model} {how} while it was loading")

    def _death(self) -> EngineDied:
        return EngineDied(f"the engine of {self.model} ended while it was working")

    # ---- called by the link
    def _connected(self, transport: asyncio.Transport) -> None:
        self._transport = transport

    def _dispatch(self, frame: frames.ToServer) -> None:
        self.heard += 1
        match frame:
            case frames.Events(_, sequences):
                for part in sequences:
                    # A stream that was left may still get the events of the step that was running.
                    if (stream := self._streams.get(part.id)) is not None:
                        stream.feed(part.tokens, part.events)
            case frames.Progress(phase, fraction):
                self.progress = (phase, fraction)
            case frames.Ready(info):
                self.info = info
                if not self._loaded.done():
                    self._loaded.set_result(info)
            case frames.LoadError(message, permanent):
                self._load_failed(LoadFailed(message, permanent=permanent))
            case frames.Pong(nonce, _, gauges):
                self.gauges = gauges
                self._questions.answered(nonce, frame)
            case frames.Probed(nonce) | frames.Counted(nonce):
                self._questions.answered(nonce, frame)
            case frames.HelloBack(version) if version != frames.VERSION:
                self._load_failed(
                    LoadFailed(f"the engine speaks version {version}, the server {frames.VERSION}", permanent=True)
                )
            case frames.Warm():
                self.warm.set()
            case frames.HelloBack():
                self.progress = ("loading", 0.0)

    def _lost(self) -> None:
        self._disconnected.set()
        self._on_lost()
        self._load_failed(self._lost_in_load())
        for stream in self._streams.values():
            stream.fail(self._death())
        self._questions.fail(self._death)

    def _load_failed(self, error: LoadFailed) -> None:
        if not self._loaded.done():
            self._loaded.set_exception(error)


class _Link(asyncio.Protocol):
    """Bytes of the socket into frames of the handle."""

    def __init__(self, handle: EngineHandle) -> None:
        self._handle = handle
        self._reader = frames.server_reader()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are none of asyncio's classes.
        self._transport = cast(asyncio.Transport, transport)
        self._handle._connected(self._transport)

    def data_received(self, data: bytes) -> None:
        try:
            for frame in self._reader.feed(data):
                self._handle._dispatch(frame)
        except WireError:
            # Nothing after an unreadable frame can be trusted: treat the engine as dead.
            assert self._transport is not None
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._handle._lost()


def _nobody() -> None: ...


def _retrieve(future: "asyncio.Future[ModelInfo]") -> None:
    """A load nobody waits for any more may fail without a complaint about an unread exception."""
    if not future.cancelled():
        future.exception()
