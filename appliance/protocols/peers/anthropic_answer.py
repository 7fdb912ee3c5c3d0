"""Anthropic's stream of blocks as our events."""

from typing import Any

import msgspec

from appliance.protocols.peers.failure import told
from appliance.protocols.peers.question import broken
from appliance.protocols.peers.sse import Lines
from appliance.vocab.event import Event, Finished, FinishReason, ReasoningDelta, TextDelta, ToolCallDelta, Usage

_REASONS: dict[str, FinishReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
}


class _Usage(msgspec.Struct):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None


class _Message(msgspec.Struct):
    usage: _Usage | None = None


class _Part(msgspec.Struct):
    """A block as it begins, a piece of one, or the end of a message: with the keys we read."""

    type: str = ""
    id: str | None = None
    name: str | None = None
    text: str | None = None
    thinking: str | None = None
    partial_json: str | None = None
    stop_reason: str | None = None
    stop_sequence: str | None = None


class _Event(msgspec.Struct):
    type: str = ""
    message: _Message | None = None
    content_block: _Part | None = None
    delta: _Part | None = None
    usage: _Usage | None = None
    error: Any = None


_decode = msgspec.json.Decoder(_Event).decode


class AnthropicAnswer:
    """Reads one streamed message. `estimate` stands for the prompt's tokens where the peer does not count them."""

    def __init__(self, estimate: int) -> None:
        self._estimate = estimate
        self._lines = Lines()
        self._usage = _Usage()
        self._calls = -1
        self._pieces = 0
        self._end: _Part | None = None
        self._over = False

    def feed(self, data: bytes) -> list[Event]:
        """Raises PeerFailed."""
        events = [event for line in self._lines.feed(data) for event in self._event(line)]
        self._pieces += len(events)
        return events

    def close(self) -> list[Event]:
        """Raises PeerFailed where the message was not stopped."""
        if not self._over or self._end is None:
            raise broken("it was cut off before its end")
        reason = _REASONS.get(self._end.stop_reason or "", "stop")
        return [Finished(reason, self._counted(), self._end.stop_sequence)]

    def _event(self, line: bytes) -> list[Event]:
        try:
            event = _decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise broken("an event of its stream is not what was expected") from error
        match event:
            case _Event(type="message_start", message=_Message(usage=_Usage() as usage)):
                self._count(usage)
            case _Event(type="content_block_start", content_block=_Part(type="tool_use", id=id, name=name)):
                self._calls += 1
                return [ToolCallDelta(self._calls, id or f"toolu_{self._calls}", name or "")]
            case _Event(type="content_block_start" | "content_block_delta"):
                return self._piece(event.content_block or event.delta or _Part())
            case _Event(type="message_delta", delta=_Part() as end):
                self._end = end
                self._count(event.usage or _Usage())
            case _Event(type="message_stop"):
                self._over = True
            case _Event(type="error"):
                raise told(event.error)
        return []

    def _piece(self, part: _Part) -> list[Event]:
        match part:
            case _Part(text=str(text)) if text:
                return [TextDelta(text)]
            case _Part(thinking=str(text)) if text:
                return [ReasoningDelta(text)]
            case _Part(partial_json=str(text)) if text:
                return [ToolCallDelta(self._calls, arguments=text)]
            case _:
                return []

    def _count(self, usage: _Usage) -> None:
        """Later counts go before earlier ones, where they are given."""
        later = {name: value for name in usage.__struct_fields__ if (value := getattr(usage, name)) is not None}
        self._usage = msgspec.structs.replace(self._usage, **later)

    def _counted(self) -> Usage:
        usage = self._usage
        cached = usage.cache_read_input_tokens or 0
        prompt = self._estimate
        if usage.input_tokens is not None:
            prompt = usage.input_tokens + cached + (usage.cache_creation_input_tokens or 0)
        completion = self._pieces if usage.output_tokens is None else usage.output_tokens
        return Usage(prompt, completion, cached)
