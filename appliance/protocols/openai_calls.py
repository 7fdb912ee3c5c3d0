"""How a call is said to chat clients: of a function, of a custom tool, or as it was before there were tools."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from appliance.protocols.custom_tools import free_text
from appliance.vocab.event import ToolCallDelta


@dataclass(frozen=True, slots=True)
class CallForm:
    """`functions`: the client offered those, and is told of one call as it was before there were tools; `custom` are
    the names of its tools whose input is one text.
    """

    functions: bool = False
    custom: frozenset[str] = frozenset()

    def reason(self, reason: str) -> str:
        """Why an answer ended."""
        return "function_call" if self.functions and reason == "tool_calls" else reason

    def delta(self, piece: dict[str, Any]) -> dict[str, Any]:
        """A stream's delta with a piece of a call."""
        return {"function_call": piece["function"]} if self.functions else {"tool_calls": [piece]}

    def message(self, calls: Sequence[Sequence[ToolCallDelta]]) -> dict[str, Any]:
        """A message's keys for whole calls, each in its pieces."""
        if not calls:
            return {}
        if self.functions:
            return {"function_call": self._whole(calls[0])["function"]}
        return {"tool_calls": [self._whole(pieces) for pieces in calls]}

    def call(self, piece: ToolCallDelta, text: str) -> dict[str, Any]:
        """A call with its id and name, and this text of its arguments or input."""
        if piece.name in self.custom:
            return {"id": piece.id, "type": "custom", "custom": {"name": piece.name, "input": text}}
        return {"id": piece.id, "type": "function", "function": {"name": piece.name, "arguments": text}}

    def _whole(self, pieces: Sequence[ToolCallDelta]) -> dict[str, Any]:
        text = "".join(piece.arguments for piece in pieces)
        return self.call(pieces[0], free_text(text) if pieces[0].name in self.custom else text)


class CallPieces:
    """The calls of one choice in the pieces a stream says them in.

    Id and name come once, with empty arguments: clients join what is repeated. The input of a custom tool is known
    when the JSON it is written in is whole, and is said then.
    """

    def __init__(self, form: CallForm) -> None:
        self._form = form
        self._begun: set[int] = set()
        self._input: tuple[int, list[str]] | None = None

    def feed(self, delta: ToolCallDelta) -> list[dict[str, Any]]:
        """What is to be said with this piece."""
        said: list[dict[str, Any]] = []
        if delta.index not in self._begun:
            said = [*self.end(), {"index": delta.index, **self._form.call(delta, "")}]
            self._begun.add(delta.index)
            self._input = (delta.index, []) if delta.name in self._form.custom else None
        if self._input is not None:
            self._input[1].append(delta.arguments)
        elif delta.arguments:
            said.append({"index": delta.index, "function": {"arguments": delta.arguments}})
        return said

    def end(self) -> list[dict[str, Any]]:
        """What is left to be said of the last call."""
        waiting, self._input = self._input, None
        text = free_text("".join(waiting[1])) if waiting is not None else ""
        return [{"index": waiting[0], "custom": {"input": text}}] if waiting is not None and text else []
