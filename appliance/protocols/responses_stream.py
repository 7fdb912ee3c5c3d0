"""Events as a response: its stream of items, and the same items as one body."""

from dataclasses import dataclass
from typing import Any

import msgspec

from appliance.errors import ApplianceError, Cancelled
from appliance.protocols.adapter import Answer
from appliance.protocols.custom_tools import free_text
from appliance.protocols.errors import responses_error
from appliance.protocols.openai_stream import one_line, token_logprob
from appliance.protocols.responses_output import Item
from appliance.protocols.responses_tools import Callee
from appliance.vocab.event import (
    Event,
    Failed,
    Finished,
    ReasoningDelta,
    Started,
    TextDelta,
    TokenLogprob,
    ToolCallDelta,
    Usage,
)
from appliance.vocab.request import Message

SUFFIX = 32
"""Characters behind `resp_`: an item's id begins with those of its response."""

_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class Asked:
    """What an answer repeats of its request. `items` are its input, `history` all turns before the answer, `callees`
    what the client calls the functions; `size` is the body's in bytes. `replays`: its stream can be asked for again;
    `summary`: thoughts are said as their own summary, where most clients look for them.
    """

    echo: dict[str, Any]
    items: list[dict[str, Any]]
    history: tuple[Message, ...]
    callees: dict[str, Callee]
    logprobs: bool
    size: int
    replays: bool = False
    summary: bool = False


@dataclass(frozen=True, slots=True)
class Kept:
    """A response to go on from: the object, the items of its input, and all turns up to its end. `size` in bytes;
    `events` are those of its stream by their number, None where it cannot be asked for again.
    """

    response: dict[str, Any]
    items: list[dict[str, Any]]
    history: tuple[Message, ...]
    size: int
    events: tuple[bytes, ...] | None = None


class ResponseStream:
    """Feed events, send what comes back; `body` is all of it as one response. Items never interleave."""

    def __init__(self, answer: Answer, asked: Asked) -> None:
        self._answer, self._asked = answer, asked
        self._suffix = answer.id.partition("_")[2]
        self._items: list[Item] = []
        self._open: Item | None = None
        self._sequence = 0
        self.events: list[bytes] = []
        """What was said so far, by number, where that can be asked for again."""
        self._begun = False
        self._status = "in_progress"
        self._error: dict[str, Any] | None = None
        self._usage: Usage | None = None
        self._completed: int | None = None

    def feed(self, index: int, event: Event) -> bytes:
        """The stream's events of one event; empty where it has none."""
        match event:
            case Started():
                return self._begin()
            case TextDelta(text, logprobs):
                return self._text(text, logprobs)
            case ReasoningDelta(text):
                return self._thought(text)
            case ToolCallDelta():
                return self._called(event)
            case Finished(reason, usage):
                self._usage = usage
                self._status = "incomplete" if reason == "length" else "completed"
                self._completed = self._answer.created + int(self._answer.clock())
                return self._end(self._status)
            case Failed():
                return b""

    def heartbeat(self) -> bytes:
        """An event, not a comment: some clients count the seconds between events."""
        return self._lifecycle("response.in_progress") if self._begun else self._begin()

    def close(self) -> bytes:
        return self._lifecycle(f"response.{self._status}")

    def error(self, error: ApplianceError) -> bytes:
        said = responses_error(error)
        self._status = "cancelled" if isinstance(error, Cancelled) else "failed"
        self._error = {"code": "server_error" if error.status >= 500 else said["code"], "message": said["message"]}
        return self._end("incomplete") + self._lifecycle("response.failed")

    def body(self) -> bytes:
        """The response, once it has finished."""
        return bytes(_encode(self.response()))

    def response(self) -> dict[str, Any]:
        """The object as it is now."""
        incomplete = {"reason": "max_output_tokens"} if self._status == "incomplete" else None
        return {
            "id": self._answer.id,
            "object": "response",
            "created_at": self._answer.created,
            "completed_at": self._completed,
            "status": self._status,
            "error": self._error,
            "incomplete_details": incomplete,
            "model": self._answer.model,
            "output": [item.object() for item in self._items if item is not self._open],
            "service_tier": "default",
            **self._asked.echo,
            "usage": None if self._usage is None else _usage(self._usage),
        }

    def kept(self) -> Kept | None:
        """What to keep of it, where the client did not ask to keep nothing."""
        if not self._asked.echo["store"]:
            return None
        response = self.response()
        items = [
            {"id": f"{_PREFIX.get(item['type'], 'item')}_{self._suffix}i{at}", **item}
            for at, item in enumerate(self._asked.items)
        ]
        history = (*self._asked.history, *self._said())
        size = self._asked.size + len(_encode(response)) + sum(map(len, self.events))
        return Kept(response, items, history, size, tuple(self.events) if self._asked.replays else None)

    @property
    def replays(self) -> bool:
        """Whether its stream can be asked for again."""
        return self._asked.replays

    def _said(self) -> list[Message]:
        """The answer as turns."""
        return [item.turn() for item in self._items]

    def _begin(self) -> bytes:
        if self._begun:
            return b""
        self._begun = True
        return self._lifecycle("response.created") + self._lifecycle("response.in_progress")

    def _text(self, text: str, logprobs: tuple[TokenLogprob, ...]) -> bytes:
        if not text and not logprobs:
            return b""
        said, item = self._item("message")
        tokens = [token_logprob(token) for token in logprobs] if self._asked.logprobs else []
        item.parts.append(text)
        item.logprobs += tokens
        return said + self._event(
            "response.output_text.delta", item_id=item.id, output_index=self._at, content_index=0, delta=text,
            logprobs=tokens,
        )  # fmt: skip

    def _thought(self, text: str) -> bytes:
        if not text:
            return b""
        said, item = self._item("reasoning")
        item.parts.append(text)
        return said + self._event(f"{_WORDS[item.summary]}.delta", **self._place(item), delta=text)

    def _called(self, call: ToolCallDelta) -> bytes:
        said, item = b"", self._open
        if item is None or item.call is None or item.call.index != call.index:
            callee = self._asked.callees.get(call.name or "", Callee(call.name or ""))
            kind = "custom_tool_call" if callee.custom else "function_call"
            said, item = self._new(Item(kind, self._id(kind), call=call, callee=callee))
        item.parts.append(call.arguments)
        if item.kind == "custom_tool_call" or not call.arguments:
            return said
        return said + self._event(
            "response.function_call_arguments.delta", item_id=item.id, output_index=self._at, delta=call.arguments
        )

    def _item(self, kind: str) -> tuple[bytes, Item]:
        """The open item of this kind, or a new one with its content part, and what was said for it."""
        if self._open is not None and self._open.kind == kind:
            return b"", self._open
        said, item = self._new(Item(kind, self._id(kind), summary=kind == "reasoning" and self._asked.summary))
        return said + self._part("added", item), item

    def _new(self, item: Item) -> tuple[bytes, Item]:
        said = self._end("completed")
        self._open = item
        self._items.append(item)
        added = item.object(begun=False)
        return said + self._event("response.output_item.added", output_index=self._at, item=added), item

    def _end(self, status: str) -> bytes:
        """Close the open item."""
        if (item := self._open) is None:
            return b""
        item.status = status
        said = self._closing(item)
        self._open = None
        return said + self._event("response.output_item.done", output_index=self._at, item=item.object())

    def _closing(self, item: Item) -> bytes:
        """What is said of an item's whole content."""
        at: dict[str, Any] = {"item_id": item.id, "output_index": self._at}
        match item.kind:
            case "message":
                done = self._event(
                    "response.output_text.done", **at, content_index=0, text=item.text, logprobs=item.logprobs
                )
                return done + self._part("done", item)
            case "reasoning":
                done = self._event(f"{_WORDS[item.summary]}.done", **self._place(item), text=item.text)
                return done + self._part("done", item)
            case "custom_tool_call":
                text = free_text(item.text)
                delta = self._event("response.custom_tool_call_input.delta", **at, delta=text)
                return delta + self._event("response.custom_tool_call_input.done", **at, input=text)
            case _:
                name = item.callee.name if item.callee else ""
                return self._event("response.function_call_arguments.done", **at, name=name, arguments=item.text)

    def _part(self, what: str, item: Item) -> bytes:
        kind = "reasoning_summary_part" if item.summary else "content_part"
        return self._event(f"response.{kind}.{what}", **self._place(item), part=item.part())

    def _place(self, item: Item) -> dict[str, Any]:
        """Of the one part of an item's content, or of its summary."""
        index = "summary_index" if item.summary else "content_index"
        return {"item_id": item.id, "output_index": self._at, index: 0}

    def _lifecycle(self, kind: str) -> bytes:
        return self._event(kind, response=self.response())

    def _event(self, kind: str, **data: Any) -> bytes:
        data = {"type": kind, "sequence_number": self._sequence, **data}
        self._sequence += 1
        said = b"event: %b\ndata: %b\n\n" % (kind.encode(), one_line(_encode(data)))
        if self._asked.replays:
            self.events.append(said)
        return said

    def _id(self, kind: str) -> str:
        return f"{_PREFIX[kind]}_{self._suffix}{len(self._items)}"

    @property
    def _at(self) -> int:
        return len(self._items) - 1


_WORDS = {False: "response.reasoning_text", True: "response.reasoning_summary_text"}
"""How the words of a thought are said, by whether they are its summary."""

_PREFIX = {"message": "msg", "reasoning": "rs", "function_call": "fc", "custom_tool_call": "ctc"}


def response_of(item: str) -> str:
    """The id of the response that an item of this id is of: it follows from how items are named."""
    return f"resp_{item.partition('_')[2][:SUFFIX]}"


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
    }
