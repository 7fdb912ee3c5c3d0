"""OpenAI's streams as our events: chat chunks and completion chunks."""

from typing import Any

import msgspec

from appliance.protocols.peers.failure import told
from appliance.protocols.peers.question import broken
from appliance.protocols.peers.sse import Lines
from appliance.vocab.event import (
    Event,
    Finished,
    FinishReason,
    ReasoningDelta,
    TextDelta,
    TokenLogprob,
    ToolCallDelta,
    TopToken,
    Usage,
)

_REASONS: dict[str, FinishReason] = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "stop",
}


class _Candidate(msgspec.Struct):
    token: str
    logprob: float = 0.0
    bytes: list[int] | None = None
    top_logprobs: list["_Candidate"] | None = None


class _Logprobs(msgspec.Struct):
    content: list[_Candidate] | None = None
    tokens: list[str] | None = None
    token_logprobs: list[float | None] | None = None
    top_logprobs: list[dict[str, float] | None] | None = None


class _Function(msgspec.Struct):
    name: str | None = None
    arguments: str | None = None


class _Call(msgspec.Struct):
    index: int = 0
    id: str | None = None
    function: _Function | None = None


class _Delta(msgspec.Struct):
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    refusal: str | None = None
    tool_calls: list[_Call] | None = None


class _Choice(msgspec.Struct):
    delta: _Delta | None = None
    text: str | None = None
    logprobs: _Logprobs | None = None
    finish_reason: str | None = None


class _Details(msgspec.Struct):
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _Details | None = None
    completion_tokens_details: _Details | None = None


class _Chunk(msgspec.Struct):
    choices: list[_Choice] | None = None
    usage: _Usage | None = None
    error: Any = None


_decode = msgspec.json.Decoder(_Chunk).decode


class OpenAIAnswer:
    """Reads one streamed choice. `estimate` stands for the prompt's tokens where the peer does not count them."""

    def __init__(self, estimate: int) -> None:
        self._estimate = estimate
        self._lines = Lines()
        self._reason: FinishReason | None = None
        self._usage: _Usage | None = None
        self._pieces = 0
        self._called: set[int] = set()

    def feed(self, data: bytes) -> list[Event]:
        """Raises PeerFailed."""
        return [event for line in self._lines.feed(data) if line != b"[DONE]" for event in self._chunk(line)]

    def close(self) -> list[Event]:
        """Raises PeerFailed where the peer never said why it stopped."""
        if self._reason is None:
            raise broken("it was cut off before its end")
        return [Finished(self._reason, self._counted())]

    def _chunk(self, line: bytes) -> list[Event]:
        try:
            chunk = _decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise broken("a chunk of its stream is not what was expected") from error
        if chunk.error is not None:
            raise told(chunk.error)
        self._usage = chunk.usage or self._usage
        return [event for choice in chunk.choices or () for event in self._said(choice)]

    def _said(self, choice: _Choice) -> list[Event]:
        delta, events = choice.delta or _Delta(), list[Event]()
        if thought := delta.reasoning_content or delta.reasoning:
            events.append(ReasoningDelta(thought))
        logprobs = _logprobs(choice.logprobs) if choice.logprobs is not None else ()
        if (text := (delta.content or "") + (delta.refusal or "") + (choice.text or "")) or logprobs:
            events.append(TextDelta(text, logprobs))
        events += [self._call(call) for call in delta.tool_calls or ()]
        self._pieces += len(events)
        if choice.finish_reason is not None:
            self._reason = _REASONS.get(choice.finish_reason, "stop")
        return events

    def _call(self, call: _Call) -> ToolCallDelta:
        function = call.function or _Function()
        first = call.index not in self._called
        self._called.add(call.index)
        id, name = (call.id or f"call_{call.index}", function.name or "") if first else (None, None)
        return ToolCallDelta(call.index, id, name, function.arguments or "")

    def _counted(self) -> Usage:
        usage = self._usage or _Usage()
        prompt, completion = usage.prompt_tokens, usage.completion_tokens
        details = usage.prompt_tokens_details or _Details()
        thought = usage.completion_tokens_details or _Details()
        return Usage(
            self._estimate if prompt is None else prompt,
            self._pieces if completion is None else completion,
            details.cached_tokens or 0,
            thought.reasoning_tokens or 0,
        )


def _logprobs(said: _Logprobs) -> tuple[TokenLogprob, ...]:
    if said.content is not None:
        return tuple(
            TokenLogprob(each.token, each.logprob, _raw(each), tuple(map(_top, each.top_logprobs or ())))
            for each in said.content
        )
    tops = said.top_logprobs or [None] * len(said.tokens or ())
    columns = zip(said.tokens or (), said.token_logprobs or (), tops, strict=False)
    return tuple(
        TokenLogprob(
            token,
            logprob or 0.0,
            token.encode(),
            tuple(TopToken(other, value, other.encode()) for other, value in (top or {}).items()),
        )
        for token, logprob, top in columns
    )


def _top(each: _Candidate) -> TopToken:
    return TopToken(each.token, each.logprob, _raw(each))


def _raw(each: _Candidate) -> bytes:
    raw = each.bytes
    return bytes(raw) if raw and all(0 <= byte < 256 for byte in raw) else each.token.encode("utf-8", "replace")
