"""Events as Ollama's lines of JSON, and the same events folded into one object."""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import msgspec

from appliance.errors import ApplianceError
from appliance.protocols.adapter import Answer
from appliance.protocols.errors import ollama
from appliance.protocols.openai_stream import one_line, token_logprob
from appliance.vocab.event import (
    Event,
    Failed,
    Finished,
    ReasoningDelta,
    Started,
    TextDelta,
    TokenLogprob,
    ToolCallDelta,
)

_encode = msgspec.json.Encoder().encode


@dataclass(slots=True)
class _Said:
    """The answer as far as it is known; a call is told whole, so its pieces wait in `call`."""

    text: list[str] = field(default_factory=list)
    thoughts: list[str] = field(default_factory=list)
    calls: list[dict[str, Any]] = field(default_factory=list)
    logprobs: list[dict[str, Any]] = field(default_factory=list)
    call: list[ToolCallDelta] = field(default_factory=list)


class Lines:
    """Feed events, send what comes back; `body` is all of it as one object. `loads` is the word for its end where
    only the model was wanted, in memory or out of it.
    """

    def __init__(self, answer: Answer, *, chat: bool, loads: str, logprobs: bool) -> None:
        self._answer, self._chat, self._loads, self._logprobs = answer, chat, loads, logprobs
        self._said = _Said()
        self._started = self._spoke = 0.0
        self._end: dict[str, Any] = {}

    def feed(self, index: int, event: Event) -> bytes:
        """The lines of one event; empty where it has none."""
        if not isinstance(event, Started) and not self._spoke:
            self._spoke = self._answer.clock()
        match event:
            case Started():
                self._started = self._answer.clock()
                return b""
            case TextDelta(text, logprobs):
                return self._called() + self._more(text, "", logprobs)
            case ReasoningDelta(text, logprobs):
                return self._called() + self._more("", text, logprobs)
            case ToolCallDelta():
                said = self._called() if self._said.call and self._said.call[0].index != event.index else b""
                self._said.call.append(event)
                return said
            case Finished(reason):
                said = self._called()
                word = self._loads or ("length" if reason == "length" else "stop")
                self._end = {"done": True, "done_reason": word, **self._counts(event)}
                return said
            case Failed():
                return b""

    def heartbeat(self) -> bytes:
        """A line that adds nothing: clients parse every line, so an empty one would not do."""
        return self._line(self._part("", "", []), {"done": False})

    def close(self) -> bytes:
        return self._line(self._part("", "", []), self._end)

    def error(self, error: ApplianceError) -> bytes:
        return ollama(error, "") + b"\n"

    def body(self) -> bytes:
        """The whole answer, once it has finished."""
        said = self._said
        part = self._part("".join(said.text), "".join(said.thoughts), said.calls)
        return self._line(part, {**({"logprobs": said.logprobs} if self._logprobs else {}), **self._end})

    def _more(self, text: str, thought: str, logprobs: tuple[TokenLogprob, ...]) -> bytes:
        tokens = [token_logprob(token) for token in logprobs] if self._logprobs else []
        if not text and not thought and not tokens:
            return b""
        self._said.text.append(text)
        self._said.thoughts.append(thought)
        self._said.logprobs += tokens
        more = {"logprobs": tokens} if tokens else {}
        return self._line(self._part(text, thought, []), {**more, "done": False})

    def _called(self) -> bytes:
        """The call that is whole now, if there is one."""
        pieces = self._said.call
        if not pieces:
            return b""
        arguments = "".join(piece.arguments for piece in pieces)
        function = {"index": pieces[0].index, "name": pieces[0].name, "arguments": _object(arguments)}
        call = {"id": pieces[0].id, "function": function}
        self._said.calls.append(call)
        pieces.clear()
        return self._line(self._part("", "", [call]), {"done": False})

    def _part(self, text: str, thought: str, calls: list[dict[str, Any]]) -> dict[str, Any]:
        thinking = {"thinking": thought} if thought else {}
        if not self._chat:
            return {"response": text, **thinking}
        tool_calls = {"tool_calls": calls} if calls else {}
        return {"message": {"role": "assistant", "content": text, **thinking, **tool_calls}}

    def _line(self, part: dict[str, Any], end: dict[str, Any]) -> bytes:
        at = datetime.fromtimestamp(self._answer.created + self._answer.clock(), UTC)
        head = {"model": self._answer.model, "created_at": at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")}
        return one_line(_encode({**head, **part, **end})) + b"\n"

    def _counts(self, finished: Finished) -> dict[str, int]:
        """Durations in nanoseconds; what comes before the engine starts on the prompt counts as loading."""
        total = self._answer.clock()
        return {
            "total_duration": _nanoseconds(total),
            "load_duration": _nanoseconds(self._started),
            "prompt_eval_count": finished.usage.prompt_tokens,
            "prompt_eval_duration": _nanoseconds(self._spoke - self._started),
            "eval_count": finished.usage.completion_tokens,
            "eval_duration": _nanoseconds(total - self._spoke),
        }


def _nanoseconds(seconds: float) -> int:
    return max(0, round(seconds * 1_000_000_000))


def _object(arguments: str) -> Any:
    """A call that was cut off has no arguments that could be used."""
    try:
        return msgspec.json.decode(arguments) if arguments else {}
    except msgspec.DecodeError:
        return {}
