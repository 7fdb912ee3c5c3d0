"""Verifies guesses: every position of a pass is sampled as if it were a row of its own, then rows are cut back to
what they would have said without guesses.

A draw depends on (seed, position) alone and a penalty on the tokens before it, so where a guess is what was drawn,
the next position was computed exactly as it would have been: speculation changes no token.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import mlx.core as mx

from appliance.engine.backend import Draft, Sampled
from appliance.engine.mlx.rows import SampleRow
from appliance.engine.mlx.sampler import Choice

Placed = tuple[SampleRow, Draft]


@dataclass(frozen=True, slots=True)
class Layout:
    """A pass over B rows: inputs (B, width), short rows filled up at their right; `rows` are its real positions, row
    after row, and `index` where they stand among B × width.
    """

    drafts: Sequence[Placed]
    inputs: mx.array
    rows: list[SampleRow]
    index: mx.array | None
    width: int

    def flat(self, logits: mx.array) -> mx.array:
        """(B, width, V) to (positions, V)."""
        flat = logits.reshape(-1, logits.shape[-1])
        return flat if self.index is None else flat[self.index]


def layout(drafts: Sequence[Placed]) -> Layout:
    width = 1 + max(len(draft.tokens) for _, draft in drafts)
    inputs = [[draft.known[-1], *draft.tokens, *[0] * (width - 1 - len(draft.tokens))] for _, draft in drafts]
    rows = [_at(sample, draft, place) for sample, draft in drafts for place in range(1 + len(draft.tokens))]
    index = None
    if len(rows) < width * len(drafts):
        real = [n * width + place for n, (_, draft) in enumerate(drafts) for place in range(1 + len(draft.tokens))]
        index = mx.array(real)
    return Layout(drafts, mx.array(inputs, dtype=mx.int32), rows, index, width)


def _at(sample: SampleRow, draft: Draft, place: int) -> SampleRow:
    """A row as it would be after so many tokens of its draft; what it said in steps before is known to the draft
    alone. Without guesses the choice is final, so that it may move the row's own matcher on.
    """
    known = [*draft.known, *draft.tokens[:place]]
    matcher = sample.matcher
    if matcher is not None and draft.tokens:
        matcher = matcher.ahead(draft.tokens[:place])
    return replace(sample, known=known, answered=len(known) - sample.prompt_length, matcher=matcher)


class Verification:
    """A pass on its way; `landed` is told once how many tokens each row said."""

    def __init__(self, layout: Layout, choice: Choice, landed: Callable[[list[int]], None]) -> None:
        self._layout = layout
        self._choice = choice
        self._landed = landed
        self._said: list[list[Sampled]] | None = None
        self._newest: mx.array | None = None
        self._errors: dict[int, str] = {}

    def arrays(self) -> list[mx.array]:
        """What can be computed for it by now."""
        return self._choice.arrays()

    def settle(self) -> mx.array:
        """Wait for the device, cut the rows back; gives their next inputs, (B,)."""
        if self._newest is None:
            said = self._said = self._compare(self._choice.read())
            self._newest = mx.array([tokens[-1].token for tokens in said], dtype=mx.int32)
            for (sample, draft), tokens in zip(self._layout.drafts, said, strict=True):
                sample.known = [*draft.known, *(sampled.token for sampled in tokens)]
                sample.answered = len(sample.known) - sample.prompt_length
                if sample.matcher is not None and draft.tokens:  # without guesses its choice moved it on
                    for sampled in tokens:
                        sample.matcher.accept(sampled.token)
            self._landed([len(tokens) for tokens in said])
        return self._newest

    def read(self) -> list[Sampled]:
        """The first token of each row; the others are `further`."""
        self.settle()
        assert self._said is not None
        return [tokens[0] for tokens in self._said]

    def further(self) -> list[tuple[Sampled, ...]]:
        """After `read`."""
        assert self._said is not None
        return [tuple(tokens[1:]) for tokens in self._said]

    def errors(self) -> dict[int, str]:
        """After `read`: the places that cannot go on, and why."""
        return self._errors

    def _compare(self, sampled: list[Sampled]) -> list[list[Sampled]]:
        """Of each row's positions those that hold, up to the first where the guess was another or that is broken."""
        broken = self._choice.errors()
        said: list[list[Sampled]] = []
        start = 0
        for row, (_, draft) in enumerate(self._layout.drafts):
            end = start + len(draft.tokens) + 1
            right = 0
            while right < len(draft.tokens) and sampled[start + right].token == draft.tokens[right]:
                right += 1
            last = start + right
            if (place := next((n for n in range(start, last + 1) if n in broken), None)) is not None:
                self._errors[row], last = broken[place], place
            said.append(sampled[start : last + 1])
            start = end
        return said
