"""What a reasoning format is."""

from dataclasses import dataclass
from enum import Enum, auto

from appliance.text.dialects.format import ToolFormat


class Start(Enum):
    """Where an answer begins."""

    OPEN = auto()
    """Before the reasoning, which may follow or not."""
    INSIDE = auto()
    OVER = auto()
    """Behind the reasoning: the prompt closed it."""


@dataclass(frozen=True, slots=True)
class Reasoning:
    """Reasoning stands between one of `open` and one of `close` at the beginning of an answer.

    With `implied` an answer begins inside the reasoning unless its prompt ends with the reasoning closed.
    With `again` reasoning may open later in the answer too. `wraps` are pairs of tags around the answer itself, which
    are no text. A format with `frames` says in the headers of its frames what is reasoning. What a grammar is told of
    them: `thoughts` begin a frame before the answer and `thought_end` ends it, an `answer` stands between two texts,
    and `last` may stand behind everything.
    """

    name: str
    aliases: tuple[str, ...] = ()
    open: tuple[str, ...] = ()
    close: tuple[str, ...] = ()
    implied: bool = False
    again: bool = False
    wraps: tuple[tuple[str, str], ...] = ()
    frames: ToolFormat | None = None
    thoughts: tuple[str, ...] = ()
    thought_end: str = ""
    answer: tuple[str, str] = ("", "")
    last: str = ""

    @property
    def markers(self) -> tuple[str, ...]:
        """Tags whose text must be seen where they are special tokens."""
        own = self.open + self.close + tuple(tag for pair in self.wraps for tag in pair)
        return own if self.frames is None else own + self.frames.tags

    def opened(self, prompt: str) -> bool:
        """Whether an answer to a prompt that ends like this begins inside the reasoning."""
        return self.begins(prompt) or (self.implied and not self.closed(prompt))

    def begins(self, prompt: str) -> bool:
        """Whether a prompt that ends like this opens the reasoning by its own tag."""
        return prompt.rstrip().endswith(tuple(tag.rstrip() for tag in self.open))

    def closed(self, prompt: str) -> bool:
        """Whether a prompt that ends like this has closed the reasoning."""
        return bool(self.close) and prompt.rstrip().endswith(self.close)

    def start(self, prompt: str, *, inside: bool = False) -> Start:
        """Where an answer to a prompt that ends like this begins; `inside` where its end alone does not show it."""
        if inside or self.opened(prompt):
            return Start.INSIDE
        return Start.OVER if self.closed(prompt) else Start.OPEN
