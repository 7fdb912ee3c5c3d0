"""Events as an Anthropic message: its stream of blocks, and the same blocks as one body."""

from dataclasses import dataclass, field
from typing import Any

import msgspec

from appliance.errors import ApplianceError
from appliance.protocols.adapter import Answer
from appliance.protocols.errors import anthropic_error
from appliance.protocols.openai_stream import json_text, one_line
from appliance.vocab.event import (
    Event,
    Failed,
    Finished,
    FinishReason,
    ReasoningDelta,
    Started,
    TextDelta,
    ToolCallDelta,
    Usage,
)

PING = b'event: ping\ndata: {"type":"ping"}\n\n'

_encode = msgspec.json.Encoder().encode
_STOP: dict[FinishReason, str] = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use"}


@dataclass(slots=True)
class _Block:
    """A content block as far as it is known. `opening` is its first form, `key` where its text belongs, `delta` and
    `piece` the names under which more of it is sent.
    """

    opening: dict[str, Any]
    key: str
    delta: str
    piece: str
    call: int | None = None
    parts: list[str] = field(default_factory=list)

    def whole(self) -> dict[str, Any]:
        text = "".join(self.parts)
        return {**self.opening, self.key: text if self.call is None else _arguments(text)}


def _text_block() -> _Block:
    return _Block({"type": "text", "text": ""}, "text", "text_delta", "text")


def _thinking_block() -> _Block:
    opening: dict[str, Any] = {"type": "thinking", "thinking": "", "signature": ""}
    return _Block(opening, "thinking", "thinking_delta", "thinking")


def _call_block(call: ToolCallDelta) -> _Block:
    id = f"toolu_{(call.id or '').removeprefix('call_')}"
    opening: dict[str, Any] = {"type": "tool_use", "id": id, "name": call.name, "input": {}}
    return _Block(opening, "input", "input_json_delta", "partial_json", call.index)


class MessageStream:
    """Feed events, send what comes back; `body` is all of it as one message. Blocks never interleave."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._blocks: list[_Block] = []
        self._open: _Block | None = None
        self._usage = Usage(0, 0)
        self._reason: str | None = None
        self._stop: str | None = None

    def feed(self, index: int, event: Event) -> bytes:
        """The stream's events of one event; empty where it has none."""
        match event:
            case Started(prompt_tokens, cached_tokens):
                self._usage = Usage(prompt_tokens, 0, cached_tokens)
                return _event("message_start", message=self._message())
            case TextDelta(text):
                return self._more(_text_block, text) if text else b""
            case ReasoningDelta(text):
                return self._more(_thinking_block, text) if text else b""
            case ToolCallDelta():
                return self._call(event)
            case Finished(reason, usage, stop):
                self._usage, self._stop = usage, stop
                self._reason = "stop_sequence" if stop is not None and reason == "stop" else _STOP.get(reason)
                delta = {"stop_reason": self._reason, "stop_sequence": stop}
                return self._end() + _event("message_delta", delta=delta, usage=self._counts())
            case Failed():
                return b""

    def heartbeat(self) -> bytes:
        return PING

    def close(self) -> bytes:
        return _event("message_stop")

    def error(self, error: ApplianceError) -> bytes:
        return _event("error", error=anthropic_error(error))

    def body(self) -> bytes:
        """The message, once it has finished."""
        return bytes(_encode(self._message()))

    def _more(self, begin: Any, text: str) -> bytes:
        """More of a text: of the open block where it is of this kind, else of a new one."""
        block, said = self._open, b""
        fresh = begin()
        if block is None or block.delta != fresh.delta:
            block, said = fresh, self._begin(fresh)
        return said + self._delta(block, text)

    def _call(self, call: ToolCallDelta) -> bytes:
        block, said = self._open, b""
        if block is None or block.call != call.index:
            block = _call_block(call)
            said = self._begin(block)
        return said + (self._delta(block, call.arguments) if call.arguments else b"")

    def _begin(self, block: _Block) -> bytes:
        said = self._end()
        self._open = block
        self._blocks.append(block)
        return said + _event("content_block_start", index=len(self._blocks) - 1, content_block=block.opening)

    def _delta(self, block: _Block, text: str) -> bytes:
        block.parts.append(text)
        return b'event: content_block_delta\ndata: {"type":"content_block_delta","index":%d,"delta":%b}\n\n' % (
            len(self._blocks) - 1,
            b'{"type":"%b","%b":%b}' % (block.delta.encode(), block.piece.encode(), json_text(text)),
        )

    def _end(self) -> bytes:
        if self._open is None:
            return b""
        self._open = None
        return _event("content_block_stop", index=len(self._blocks) - 1)

    def _message(self) -> dict[str, Any]:
        return {
            "id": self._answer.id,
            "type": "message",
            "role": "assistant",
            "model": self._answer.model,
            "content": [block.whole() for block in self._blocks],
            "stop_reason": self._reason,
            "stop_sequence": self._stop,
            "usage": self._counts(),
        }

    def _counts(self) -> dict[str, int]:
        """Anthropic counts what came from a cache apart."""
        usage = self._usage
        return {
            "input_tokens": usage.prompt_tokens - usage.cached_tokens,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": usage.cached_tokens,
            "output_tokens": usage.completion_tokens,
        }


def _event(kind: str, **data: Any) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), one_line(_encode({"type": kind, **data})))


def _arguments(text: str) -> Any:
    """A call that was cut off has no arguments that could be used."""
    try:
        return msgspec.json.decode(text) if text else {}
    except msgspec.DecodeError:
        return {}
