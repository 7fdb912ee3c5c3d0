"""One item of a response's output: what it is as an object of the API and as a turn of the conversation."""

from dataclasses import dataclass, field
from typing import Any

from appliance.protocols.custom_tools import free_text
from appliance.protocols.responses_tools import Callee
from appliance.vocab.event import ToolCallDelta
from appliance.vocab.request import Message, ToolCall


@dataclass(slots=True)
class Item:
    """An output item as far as it is known; `summary`: a thought is said as its own summary."""

    kind: str
    id: str
    status: str = "in_progress"
    parts: list[str] = field(default_factory=list)
    logprobs: list[dict[str, Any]] = field(default_factory=list)
    call: ToolCallDelta | None = None
    callee: Callee | None = None
    summary: bool = False

    @property
    def text(self) -> str:
        return "".join(self.parts)

    def part(self) -> dict[str, Any]:
        """The one content part of a message or a thought."""
        if self.kind == "reasoning":
            return {"type": "summary_text" if self.summary else "reasoning_text", "text": self.text}
        return {"type": "output_text", "text": self.text, "annotations": [], "logprobs": self.logprobs}

    def object(self, *, begun: bool = True) -> dict[str, Any]:
        """The item; not yet `begun` it has no content."""
        common = {"id": self.id, "type": self.kind, "status": self.status}
        match self.kind:
            case "message":
                return {**common, "role": "assistant", "content": [self.part()] if begun else []}
            case "reasoning":
                parts = [self.part()] if begun else []
                return {**common, "summary": parts if self.summary else [], "content": [] if self.summary else parts}
        assert self.call is not None
        assert self.callee is not None
        space = {"namespace": self.callee.namespace} if self.callee.namespace else {}
        called = {**common, "call_id": self.call.id, "name": self.callee.name, **space}
        if self.callee.custom:
            return {**called, "input": free_text(self.text) if begun else ""}
        return {**called, "arguments": self.text}

    def turn(self) -> Message:
        """The item as a turn of the conversation."""
        match self.kind:
            case "message":
                return Message(role="assistant", content=self.text)
            case "reasoning":
                return Message(role="assistant", reasoning=self.text)
        assert self.call is not None
        call = ToolCall(id=self.call.id or "", name=self.call.name or "", arguments=self.text)
        return Message(role="assistant", tool_calls=(call,))
