"""When a step speculates: which rows get which guesses, and what was learnt from them.

Rows that speculate are stepped together and waited for before the next step, since a guess needs every token before
it; a batch without guesses keeps running one step ahead. So nothing is guessed while prompts are read or more than
`max_batch` rows decode.
"""

from collections.abc import Sequence as Rows

from appliance.engine.backend import Draft
from appliance.engine.constraint import Constraint
from appliance.engine.drafting import Drafting, Guess, asks_the_backend
from appliance.engine.lookup import Lookup, Memory
from appliance.engine.sequence import Sequence
from appliance.vocab.spec import Speculative

MEMORY_TOKENS = 32_768
"""Of earlier answers, for each namespace."""
_NAMESPACES = 8
"""Namespaces whose earlier answers are remembered."""
PREDICTED = Speculative(kind="lookup", depth=16)
"""How the model of a request that foretells its answer speculates, where its own file says nothing."""


class Speculation:
    """`settings` None: only answers that were foretold are guessed. `able` is whether the backend can take tokens
    back that were guessed wrong.
    """

    def __init__(self, settings: Speculative | None, able: bool) -> None:
        self._settings = settings
        self._able = able
        self._memories: dict[str, Memory] = {}
        self.max_batch = (settings or PREDICTED).max_batch if able else 0
        """With more rows nothing is guessed."""
        self.drafted = 0
        self.accepted = 0

    def begin(self, sequence: Sequence) -> None:
        """Have a sequence guessed from now on, if anything tells how."""
        settings = self._settings
        if not self._able or not guessable(sequence.constraint) or not (settings or sequence.foretold):
            return
        settings = settings or PREDICTED
        if settings.kind in ("lookup", "suffix") or sequence.foretold:
            memory = self._memory(sequence.namespace) if settings.kind == "suffix" else None
            follow = Lookup(sequence.known, sequence.prompt_length, sequence.foretold, memory).follow
        else:
            follow = asks_the_backend
        sequence.drafting = Drafting(settings.depth, follow)

    def end(self, sequence: Sequence) -> None:
        """Remember what an answer said, for those that come after it."""
        if self._settings is not None and self._settings.kind == "suffix" and self._able:
            self._memory(sequence.namespace).keep(sequence.known[sequence.prompt_length :])

    def drafts(self, rows: Rows[Sequence]) -> tuple[Draft, ...] | None:
        """Guesses for these rows, all of them or none; None where it is worth waiting for tokens that are pending."""
        guesses = [_guess(row) for row in rows]
        if not any(guesses):
            return ()
        if any(row.pending for row in rows):
            return None
        return tuple(map(Draft, (row.id for row in rows), (row.known for row in rows), guesses))

    def learn(self, sequence: Sequence, drafted: int, accepted: int) -> None:
        """What became of a draft, once its tokens are known."""
        if drafted and sequence.drafting is not None:
            self.drafted += drafted
            self.accepted += accepted
            sequence.pipeline.drafted += drafted
            sequence.pipeline.accepted += accepted
            sequence.drafting.learn(len(sequence.known), drafted, accepted)

    def _memory(self, namespace: str) -> Memory:
        """The one used last stands last; the first goes where there are too many."""
        memory = self._memories.pop(namespace, None) or Memory(MEMORY_TOKENS)
        self._memories[namespace] = memory
        if len(self._memories) > _NAMESPACES:
            del self._memories[next(iter(self._memories))]
        return memory


def guessable(constraint: Constraint | None) -> bool:
    """Whether an answer under this constraint may be guessed."""
    return constraint is None or constraint.looks_ahead


def _guess(row: Sequence) -> Guess:
    if row.drafting is None:
        return ()
    return row.drafting.guess(row.known, row.limit - len(row.known) - row.pending - 1)
