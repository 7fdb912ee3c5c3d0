"""Events as OpenAI text completions: chunks, and the same events folded into one body."""

import codecs
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from appliance.errors import ApplianceError
from appliance.protocols.adapter import Answer
from appliance.protocols.errors import error_object
from appliance.protocols.openai_stream import DONE, HEARTBEAT, json_data, smallest, usage_object
from appliance.protocols.prompt_logprobs import Position, listed
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

_encode = msgspec.json.Encoder().encode
_decoder = codecs.getincrementaldecoder("utf-8")


@dataclass(slots=True)
class _Choice:
    """One answer as far as it is known; `offset` is the length of its text, the echoed prompt included."""

    text: list[str] = field(default_factory=list)
    items: list[TokenLogprob] = field(default_factory=list)
    offset: int = 0
    utf8: codecs.IncrementalDecoder = field(default_factory=lambda: _decoder("replace"))
    reason: str | None = None
    usage: Usage | None = None
    scores: list[Position | None] | None = None
    logprobs: dict[str, list[Any]] = field(
        default_factory=lambda: {"tokens": [], "token_logprobs": [], "top_logprobs": [], "text_offset": []}
    )

    @property
    def quality(self) -> float:
        """Mean log-probability, by which the best answers are found."""
        return sum(item.logprob for item in self.items) / max(len(self.items), 1)

    def add(self, text: str, items: Iterable[TokenLogprob], *, told: bool = False) -> dict[str, list[Any]]:
        """Take text and its tokens; the columns of these tokens. What was `told` by the client is no answer."""
        self.text.append(text)
        new: dict[str, list[Any]] = {name: [] for name in self.logprobs}
        for item in items:
            if not told:
                self.items.append(item)
            new["tokens"].append(item.token)
            new["token_logprobs"].append(smallest(item.logprob))
            top: tuple[TopToken | TokenLogprob, ...] = (*item.top, item)
            new["top_logprobs"].append({one.token: smallest(one.logprob) for one in top})
            new["text_offset"].append(self.offset)
            self.offset += len(self.utf8.decode(item.raw))
        for name, column in new.items():
            self.logprobs[name] += column
        return new


class Completions:
    """Feed events of all answers; `samples` are generated per prompt, of which the best `kept` are in the body.

    With `scores` the body lists so many candidates of each token of a prompt.
    """

    def __init__(
        self,
        answer: Answer,
        *,
        samples: int,
        kept: int,
        echo: bool,
        logprobs: int | None,
        silent: bool = False,
        scores: int | None = None,
    ) -> None:
        self._answer = answer
        self._samples, self._kept = samples, kept
        self._echo, self._logprobs, self._silent = echo, logprobs is not None, silent
        self._most, self._scores = logprobs or 0, scores
        self._choices = [_Choice() for _ in range(answer.choices)]
        common = {"id": answer.id, "object": "text_completion", "created": answer.created, "model": answer.model}
        self._common: dict[str, Any] = common
        self._usage_null = {"usage": None} if answer.include_usage else {}

    def feed(self, index: int, event: Event) -> bytes:
        """The chunk of one event of answer `index`; empty where it has none."""
        choice = self._choices[index]
        match event:
            case Started():
                return self._echoed(index, choice)
            case TextDelta(prompt=prompt) if prompt:
                if self._scores is not None:
                    choice.scores = listed(prompt, self._scores)
                scored = self._scored(index, choice, prompt) if self._echo and self._logprobs else b""
                rest = msgspec.structs.replace(event, prompt=())
                return scored + (self.feed(index, rest) if rest.text or rest.logprobs else b"")
            case TextDelta(text, items) | ReasoningDelta(text, items):
                return b"" if self._silent else self._chunk(index, text, choice.add(text, items))
            case Finished(reason, usage):
                if self._silent:
                    reason, usage = "length", msgspec.structs.replace(usage, completion_tokens=0)
                choice.reason, choice.usage = reason, usage
                return self._chunk(index, "", None, reason)
            case ToolCallDelta() | Failed():
                return b""

    def heartbeat(self) -> bytes:
        return HEARTBEAT

    def close(self) -> bytes:
        """The usage, where it was asked for, and the end."""
        if not self._answer.include_usage:
            return DONE
        return json_data({**self._common, "choices": [], "usage": self._usage()}) + DONE

    def error(self, error: ApplianceError) -> bytes:
        return json_data({"error": error_object(error)})

    def body(self) -> bytes:
        """The whole answer."""
        best = [
            choice
            for start in range(0, len(self._choices), self._samples)
            for choice in self._best(self._choices[start : start + self._samples])
        ]
        choices = [
            _choice(index, "".join(choice.text), choice.logprobs if self._logprobs else None, choice.reason)
            | ({} if self._scores is None else {"prompt_logprobs": choice.scores})
            for index, choice in enumerate(best)
        ]
        return bytes(_encode({**self._common, "choices": choices, "usage": self._usage()}))

    def _best(self, choices: list[_Choice]) -> list[_Choice]:
        if self._kept == self._samples:
            return choices
        return sorted(choices, key=lambda choice: choice.quality, reverse=True)[: self._kept]

    def _echoed(self, index: int, choice: _Choice) -> bytes:
        if not self._echo or self._logprobs:  # with its scores it is told when they are known
            return b""
        prompt = self._answer.prompts[index // self._samples]
        choice.offset = len(prompt)
        return self._chunk(index, prompt, choice.add(prompt, ()))

    def _scored(self, index: int, choice: _Choice, prompt: tuple[TokenLogprob, ...]) -> bytes:
        """The echoed prompt with what the model thinks of it; nothing is thought of the first token."""
        text = self._answer.prompts[index // self._samples]
        before = choice.offset
        fewer = (msgspec.structs.replace(token, top=token.top[: self._most]) for token in prompt)
        columns = choice.add(text, fewer, told=True)
        columns["token_logprobs"][0] = choice.logprobs["token_logprobs"][0] = None
        columns["top_logprobs"][0] = choice.logprobs["top_logprobs"][0] = None
        choice.offset = before + len(text)
        return self._chunk(index, text, columns)

    def _chunk(
        self, index: int, text: str, logprobs: dict[str, list[Any]] | None, reason: str | None = None
    ) -> bytes:
        choice = _choice(index, text, logprobs if self._logprobs else None, reason)
        return json_data({**self._common, "choices": [choice], **self._usage_null})

    def _usage(self) -> dict[str, Any]:
        """Every prompt counts once, however many answers it got."""
        return usage_object((choice.usage for choice in self._choices if choice.usage), self._samples)


def _choice(index: int, text: str, logprobs: dict[str, list[Any]] | None, reason: str | None) -> dict[str, Any]:
    return {"index": index, "text": text, "logprobs": logprobs, "finish_reason": reason}
