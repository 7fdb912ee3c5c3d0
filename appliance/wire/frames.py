"""The frames on an engine socket and how bytes become frames; no behaviour, no IO.

A frame is a 4-byte big-endian length and a msgpack value. The server's first frame is `Hello` with the spec,
the engine's first is `HelloBack`. Versions must be equal: both ends come from one installation.
"""

from typing import Any, Generic, TypeVar

import msgspec

from appliance.errors import WireError
from appliance.vocab.event import Event, Failed
from appliance.vocab.gauges import Gauges
from appliance.vocab.spec import EngineSettings, EngineSpec, ModelInfo, Prompt, Submission

VERSION = 1
MAX_FRAME = 64 * 1024 * 1024
_HEADER = 4


# ---- server to engine
class Hello(msgspec.Struct, frozen=True, tag="hello", array_like=True):
    version: int
    model: str
    spec: EngineSpec
    settings: EngineSettings


class Configure(msgspec.Struct, frozen=True, tag="configure", array_like=True):
    settings: EngineSettings


class Submit(msgspec.Struct, frozen=True, tag="submit", array_like=True):
    submission: Submission


class Cancel(msgspec.Struct, frozen=True, tag="cancel", array_like=True):
    id: int


class Count(msgspec.Struct, frozen=True, tag="count", array_like=True):
    """Ask how many tokens a prompt has; with `detail` also for its ids and its text."""

    nonce: int
    prompt: Prompt
    detail: bool = False


class Probe(msgspec.Struct, frozen=True, tag="probe", array_like=True):
    """Ask whether a chat template (None: the checkpoint's own) and these dialects agree under these variables."""

    nonce: int
    template: str | None
    kwargs: dict[str, Any]
    tools: str
    reasoning: str


class Ping(msgspec.Struct, frozen=True, tag="ping", array_like=True):
    nonce: int


# ---- engine to server
class HelloBack(msgspec.Struct, frozen=True, tag="hello_back", array_like=True):
    version: int
    pid: int


class Warm(msgspec.Struct, frozen=True, tag="warm", array_like=True):
    """A blank engine has imported what its backend needs, and waits for its Hello."""


class Progress(msgspec.Struct, frozen=True, tag="progress", array_like=True):
    """Where a load is: a phase's name and 0..1 of it."""

    phase: str
    fraction: float


class Ready(msgspec.Struct, frozen=True, tag="ready", array_like=True):
    info: ModelInfo


class LoadError(msgspec.Struct, frozen=True, tag="load_error", array_like=True):
    message: str
    permanent: bool


class SequenceEvents(msgspec.Struct, frozen=True, array_like=True):
    """One sequence's part of a step: the ids it sampled (also those whose text is held back), then its events."""

    id: int
    tokens: tuple[int, ...]
    events: tuple[Event, ...]


class Events(msgspec.Struct, frozen=True, tag="events", array_like=True):
    """Everything one engine step produced."""

    step: int
    sequences: tuple[SequenceEvents, ...]


class Pong(msgspec.Struct, frozen=True, tag="pong", array_like=True):
    """Answer to a ping: the steps that have landed, and what the engine holds now."""

    nonce: int
    steps: int = 0
    gauges: Gauges = Gauges()


class Counted(msgspec.Struct, frozen=True, tag="counted", array_like=True):
    """Answer to a count; `text` writes special tokens out. `failed` says why there is none."""

    nonce: int
    count: int
    tokens: tuple[int, ...] = ()
    text: str = ""
    failed: Failed | None = None


class Probed(msgspec.Struct, frozen=True, tag="probed", array_like=True):
    """Answer to a probe: what does not agree (tools, reasoning, template), and why not, for people."""

    nonce: int
    mismatches: dict[str, str]


ToEngine = Hello | Configure | Submit | Cancel | Count | Probe | Ping
ToServer = HelloBack | Warm | Progress | Ready | LoadError | Events | Counted | Probed | Pong

Frame = TypeVar("Frame")

_encoder = msgspec.msgpack.Encoder()


def encode(frame: ToEngine | ToServer) -> bytes:
    """One frame as bytes. Raises WireError above MAX_FRAME."""
    try:
        body = _encoder.encode(frame)
    except (OverflowError, TypeError) as error:
        raise WireError(f"a {type(frame).__name__} frame cannot be encoded: {error}") from error
    if len(body) > MAX_FRAME:
        raise WireError(f"a {type(frame).__name__} frame of {len(body)} bytes is over the limit of {MAX_FRAME}")
    return len(body).to_bytes(_HEADER, "big") + body


class FrameReader(Generic[Frame]):
    """Bytes in, frames out; keeps what is not yet a whole frame. Raises WireError on what is not a frame."""

    def __init__(self, frames: type[Frame]) -> None:
        self._decoder = msgspec.msgpack.Decoder(frames)
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[Frame]:
        """Take bytes as they came from the socket; return the frames they complete."""
        self._buffer += data
        frames, start = [], 0
        while (end := self._frame_end(start)) is not None:
            frames.append(self._decode(self._buffer[start + _HEADER : end]))
            start = end
        del self._buffer[:start]
        return frames

    def _frame_end(self, start: int) -> int | None:
        if len(self._buffer) - start < _HEADER:
            return None
        size = int.from_bytes(self._buffer[start : start + _HEADER], "big")
        if size > MAX_FRAME:
            raise WireError(f"a frame of {size} bytes is over the limit of {MAX_FRAME}")
        end = start + _HEADER + size
        return end if len(self._buffer) >= end else None

    def _decode(self, body: bytearray) -> Frame:
        try:
            return self._decoder.decode(body)
        except msgspec.MsgspecError as error:
            raise WireError(f"an unreadable frame: {error}") from error


def engine_reader() -> FrameReader[ToEngine]:
    """Reads what a server sends."""
    return FrameReader(ToEngine)  # type: ignore[arg-type]


def server_reader() -> FrameReader[ToServer]:
    """Reads what an engine sends."""
    return FrameReader(ToServer)  # type: ignore[arg-type]
