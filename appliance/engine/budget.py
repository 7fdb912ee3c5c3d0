"""How long an answer may reason: when its budget is spent, the tag that ends the reasoning is forced."""

import codecs
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from appliance.engine.backend import TokenBytes
from appliance.text.channels import Channels

_decoder = codecs.getincrementaldecoder("utf-8")
_LONGEST_CHARACTER = 4


@dataclass(frozen=True, slots=True)
class Budget:
    """After `tokens` of reasoning `closing`, which is not empty, is forced. `channels` gives a fresh parser that
    starts where the answer does.
    """

    tokens: int
    closing: Sequence[int]
    channels: Callable[[], Channels]
    raw: TokenBytes

    def watch(self) -> "Watch":
        """One that has seen nothing of the answer yet."""
        return Watch(self)


class Watch:
    """Follows one answer token by token."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._channels = budget.channels()
        self._utf8 = _decoder("replace")
        self._spent = 0
        self._forcing = 0
        """So many of the closing tokens were forced."""

    def accept(self, token: int) -> None:
        """The token that was said."""
        self._forcing = (self._forcing + 1) % len(self._budget.closing) if self.only == token else 0
        self._spent += self._channels.reasoning
        self._channels.feed(self._utf8.decode(self._budget.raw.raw(token)))

    @property
    def only(self) -> int | None:
        """The one token that may come next; None where that is free."""
        if self._forcing:
            return self._budget.closing[self._forcing]
        over = self._spent - self._budget.tokens
        # A character that has begun is let end, if it does.
        whole = not self._utf8.getstate()[0] or over >= _LONGEST_CHARACTER
        return self._budget.closing[0] if self._channels.reasoning and over >= 0 and whole else None
