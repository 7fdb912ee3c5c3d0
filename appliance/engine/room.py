"""Whether rows fit into the memory for keys and values, and which of them decode together in it."""

from collections.abc import Iterable
from typing import Self

from appliance.engine.grouping import NO_EXPERTS, Costs, Experts, Groups
from appliance.engine.ledger import Form, form_of, tokens_of
from appliance.engine.sequence import Sequence
from appliance.vocab.spec import EngineSettings, ModelInfo

ONE_GROUP = 1 << 62
"""Bytes that no padding outweighs."""


class Room:
    """Counts in tokens of the form in which rows are held; `tokens` is what there is.

    `padded`: rows that decode together take a rectangle. `pass_bytes` is what each pass reads beside keys and values,
    `experts` are of which each row chooses some, `value_bits` those of a number in an exact key or value.
    """

    def __init__(
        self,
        *,
        padded: bool = False,
        pass_bytes: int = ONE_GROUP,
        experts: Experts = NO_EXPERTS,
        value_bits: int = 32,
    ) -> None:
        self._padded, self._pass_bytes, self._experts, self._value_bits = padded, pass_bytes, experts, value_bits
        self._token_bytes, self._form = 1, Form()
        self._groups = Groups()
        self.tokens = 0

    @classmethod
    def of(cls, info: ModelInfo) -> Self:
        """Of a loaded model."""
        return cls(
            padded=info.padded,
            pass_bytes=info.pass_bytes,
            experts=Experts(info.expert_bytes, info.expert_share),
            value_bits=32 if info.dtype == "float32" else 16,
        )

    def configure(self, settings: EngineSettings, token_bytes: int | None = None) -> None:
        """The budget from now on; `token_bytes`: of another KV store."""
        if token_bytes is not None:
            self._token_bytes, self._form = max(token_bytes, 1), form_of(settings.kv, self._value_bits)
        self._groups.costs = Costs(self._pass_bytes, self._token_bytes, self._experts)
        self.tokens = settings.kv_bytes // self._token_bytes

    def charge(self, sequences: Iterable[Sequence]) -> int:
        """What these take when they all decode."""
        if self._padded:
            return self._groups.room(self._by_adapter(sequences))
        return sum(map(self._length, sequences))

    def fits(self, sequences: Iterable[Sequence], spare: int = 0) -> bool:
        """Whether these fit beside `spare` tokens, were they all to decode now."""
        sequences, room = tuple(sequences), self.tokens - spare
        # Groups never take more than one rectangle of all, which is told more quickly.
        most = tokens_of([self._length(sequence) for sequence in sequences], padded=self._padded)
        return most <= room or self.charge(sequences) <= room

    def groups(self, sequences: Iterable[Sequence]) -> tuple[int, ...]:
        """For a step in which exactly these decode: the group of each, or nothing where there are none."""
        sequences = tuple(sequences)
        if not self._padded or not sequences:
            return ()
        numbers = self._groups.place(self._by_adapter(sequences))
        return tuple(numbers[sequence.id] for sequence in sequences)

    def _by_adapter(self, sequences: Iterable[Sequence]) -> dict[str, dict[int, int]]:
        """Lengths by id. Rows with different adapters never decode together."""
        lengths: dict[str, dict[int, int]] = {}
        for sequence in sequences:
            name = sequence.adapter.name if sequence.adapter is not None else ""
            lengths.setdefault(name, {})[sequence.id] = self._length(sequence)
        return lengths

    def _length(self, sequence: Sequence) -> int:
        """What it is charged when it has one more token."""
        return self._form.charge(min(sequence.held_tokens + 1, sequence.limit))
