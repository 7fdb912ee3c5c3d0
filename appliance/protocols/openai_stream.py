"""Events as OpenAI chat answers: server-sent chunks, or the same events folded into one body.

`StreamEncoder.feed` runs once per token of every stream: what never changes is encoded once, and only the
text is encoded per token.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from appliance.errors import ApplianceError
from appliance.protocols.adapter import Answer
from appliance.protocols.errors import error_object
from appliance.protocols.openai_calls import CallForm, CallPieces
from appliance.vocab.event import (
    Event,
    Failed,
    Finished,
    ReasoningDelta,
    Started,
    TextDelta,
    TokenLogprob,
    ToolCallDelta,
    TopToken,
    Usage,
)

HEARTBEAT = b": heartbeat\n\n"
"""A comment: every SSE client skips it."""

DONE = b"data: [DONE]\n\n"
_SMALLEST_LOGPROB = -9999.0
"""What OpenAI sends where JSON has no minus infinity."""

_encode = msgspec.json.Encoder().encode


class StreamEncoder:
    """Feed events, send what comes back. Chunk order and the once-only fields are OpenAI's; calls are in `form`."""

    def __init__(self, answer: Answer, form: CallForm = CallForm()) -> None:
        self._answer = answer
        self._form = form
        self._opened = False
        self._usage: dict[int, Usage] = {}
        self._calls = [CallPieces(form) for _ in range(answer.choices)]
        common = _encode(
            {
                "id": answer.id,
                "object": "chat.completion.chunk",
                "created": answer.created,
                "model": answer.model,
            }
        )
        self._head = b"data: " + common[:-1] + b',"choices":['
        self._tail = (b'],"usage":null}' if answer.include_usage else b"]}") + b"\n\n"
        self._text_heads = [
            self._head + b'{"index":%d,"delta":{"content":' % index for index in range(answer.choices)
        ]
        self._text_tail = b'},"logprobs":null,"finish_reason":null}' + self._tail

    def feed(self, index: int, event: Event) -> bytes:
        """The chunks of one event of choice `index`; empty where it has none of its own."""
        if not self._opened:
            self._opened = True
            return self._open() + self.feed(index, event)
        match event:
            case TextDelta(text, ()):
                return self._text_heads[index] + json_text(text) + self._text_tail
            case TextDelta(text, logprobs):
                return self._chunk(index, b'{"content":%b}' % json_text(text), _encode(_logprobs(logprobs)))
            case ReasoningDelta(text):
                # Clients look for it under either name.
                thought = json_text(text)
                return self._chunk(index, b'{"reasoning_content":%b,"reasoning":%b}' % (thought, thought))
            case ToolCallDelta():
                return self._pieces(index, self._calls[index].feed(event))
            case Finished(reason, usage):
                self._usage[index] = usage
                rest = self._pieces(index, self._calls[index].end())
                return rest + self._chunk(index, b"{}", reason=_encode(self._form.reason(reason)))
            case Started() | Failed():
                return b""

    def heartbeat(self) -> bytes:
        return HEARTBEAT

    def close(self) -> bytes:
        """The end of a stream whose choices have all finished."""
        if not self._answer.include_usage:
            return DONE
        usage = _encode(usage_object(self._usage.values()))
        return self._head + b'],"usage":' + usage + b"}\n\n" + DONE

    def error(self, error: ApplianceError) -> bytes:
        """The end of a stream that failed after its first byte; nothing may follow."""
        return json_data({"error": error_object(error)})

    def _open(self) -> bytes:
        delta = b'{"role":"assistant","content":""}'
        return b"".join(self._chunk(index, delta) for index in range(self._answer.choices))

    def _chunk(self, index: int, delta: bytes, logprobs: bytes = b"null", reason: bytes = b"null") -> bytes:
        choice = b'{"index":%d,"delta":%b,"logprobs":%b,"finish_reason":%b}' % (index, delta, logprobs, reason)
        return self._head + choice + self._tail

    def _pieces(self, index: int, pieces: list[dict[str, Any]]) -> bytes:
        return b"".join(self._chunk(index, _encode(self._form.delta(piece))) for piece in pieces)


@dataclass(slots=True)
class _Choice:
    text: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    logprobs: list[TokenLogprob] = field(default_factory=list)
    calls: dict[int, list[ToolCallDelta]] = field(default_factory=dict)
    reason: str = "stop"

    def message(self, form: CallForm) -> dict[str, Any]:
        content = "".join(self.text)
        message: dict[str, Any] = {"role": "assistant", "content": content or (None if self.calls else "")}
        if self.reasoning:
            message["reasoning_content"] = message["reasoning"] = "".join(self.reasoning)
        message["refusal"] = None
        return message | form.message([self.calls[at] for at in sorted(self.calls)])


class Fold:
    """The answer that does not stream: the same events, kept until the end. `scores` says what is told of the tokens
    of a prompt that was scored.
    """

    def __init__(
        self,
        answer: Answer,
        form: CallForm = CallForm(),
        *,
        logprobs: bool = False,
        scores: Callable[[Sequence[TokenLogprob]], Any] | None = None,
    ) -> None:
        self._answer = answer
        self._form = form
        self._logprobs = logprobs
        self._choices = [_Choice() for _ in range(answer.choices)]
        self._usage: dict[int, Usage] = {}
        self._scores = scores
        self._scored: Sequence[TokenLogprob] = ()

    def feed(self, index: int, event: Event) -> None:
        """Take one event of choice `index`."""
        choice = self._choices[index]
        match event:
            case TextDelta(text, logprobs, prompt):
                self._scored = prompt or self._scored
                choice.text.append(text)
                choice.logprobs.extend(logprobs)
            case ReasoningDelta(text):
                choice.reasoning.append(text)
            case ToolCallDelta(call):
                choice.calls.setdefault(call, []).append(event)
            case Finished(reason, usage):
                choice.reason = reason
                self._usage[index] = usage
            case Started() | Failed():
                pass

    def body(self) -> bytes:
        """The JSON body, once every choice has finished."""
        scored = {} if self._scores is None else {"prompt_logprobs": self._scores(self._scored)}
        return _encode(
            {
                "id": self._answer.id,
                "object": "chat.completion",
                "created": self._answer.created,
                "model": self._answer.model,
                "choices": [self._choice(index, choice) for index, choice in enumerate(self._choices)],
                "usage": usage_object(self._usage.values()),
                "system_fingerprint": None,
                **scored,
            }
        )

    def _choice(self, index: int, choice: _Choice) -> dict[str, Any]:
        return {
            "index": index,
            "message": choice.message(self._form),
            "logprobs": _logprobs(choice.logprobs) if self._logprobs else None,
            "finish_reason": self._form.reason(choice.reason),
        }


def usage_object(usages: Iterable[Usage], samples: int | None = None) -> dict[str, Any]:
    """OpenAI's `usage` of all choices. A prompt counts once, however many answers it got: `samples` each, or all."""
    every = list(usages)
    prompt = sum(usage.prompt_tokens for usage in every[:: samples or max(len(every), 1)])
    completion = sum(usage.completion_tokens for usage in every)
    details = {"reasoning_tokens": sum(usage.reasoning_tokens for usage in every)}
    if drafted := sum(usage.drafted for usage in every):
        accepted = sum(usage.accepted for usage in every)
        details |= {"accepted_prediction_tokens": accepted, "rejected_prediction_tokens": drafted - accepted}
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": min((usage.cached_tokens for usage in every), default=0)},
        "completion_tokens_details": details,
    }


def json_data(value: Any) -> bytes:
    """A server-sent event of this JSON, on one line for every reader."""
    return b"data: " + one_line(_encode(value)) + b"\n\n"


def one_line(encoded: bytes) -> bytes:
    """JSON without the characters some line readers take for the end of a line."""
    if not encoded.isascii():
        for raw, escaped in _LINE_ENDS:
            if raw in encoded:
                encoded = encoded.replace(raw, escaped)
    return encoded


def smallest(logprob: float) -> float:
    """A log-probability that JSON has."""
    return max(logprob, _SMALLEST_LOGPROB)


def json_text(text: str) -> bytes:
    """A JSON string without the characters some line readers take for the end of a line."""
    return one_line(_encode(text))


_LINE_ENDS = tuple((end.encode(), b"\\u%04x" % ord(end)) for end in "\x85\u2028\u2029")


def _logprobs(logprobs: Iterable[TokenLogprob]) -> dict[str, Any]:
    return {"content": [token_logprob(item) for item in logprobs], "refusal": None}


def token_logprob(item: TokenLogprob) -> dict[str, Any]:
    """A token as OpenAI lists it: with its bytes and the likeliest others."""
    return {**_candidate(item), "top_logprobs": [_candidate(top) for top in item.top]}


def _candidate(item: TokenLogprob | TopToken) -> dict[str, Any]:
    return {"token": item.token, "logprob": smallest(item.logprob), "bytes": list(item.raw)}
