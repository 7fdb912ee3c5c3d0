"""Whose sequence begins next, so that keys that ask for more than there is get equal shares. PURE.

Tokens are the currency: those read and not cached, and those written. Each tenant has an account of what it was
served, and of the tenants of the highest class that waits the one served least goes first: the Virtual Token Counter
of Sheng et al., "Fairness in Serving Large Language Models" (OSDI 2024). What an answer will probably take is charged
when it begins, and settled as it goes: else one tenant got all rows before the first of its tokens was counted.
Nobody saves up: who comes back is no further behind than the one served least of those that wait.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from appliance.engine.sequence import Sequence

LATEST = 4
"""Roughly how many answers of a tenant say how long its next one will be."""

Account = tuple[int, str]
"""A class and a tenant: what a key's batches take is not held against its requests."""


def account_of(sequence: Sequence) -> Account:
    return sequence.urgency, sequence.tenant


@dataclass(slots=True)
class _Turn:
    """A sequence that has begun: the tokens it has written, and those that were charged and are not written yet."""

    ahead: int
    written: int = 0


class Shares:
    """The tokens every tenant was served, as far as it matters who is behind."""

    def __init__(self) -> None:
        self._served: dict[Account, int] = {}
        self._length: dict[Account, float] = {}
        """How long the latest answers were."""
        self._turns: dict[int, _Turn] = {}
        self._level: dict[int, int] = {}
        """What had been served to the one that began last, by class."""

    def arrive(self, sequence: Sequence, waiting: Iterable[Sequence]) -> None:
        """It joins those that wait."""
        account = account_of(sequence)
        others = {account_of(other) for other in waiting if other.urgency == sequence.urgency}
        if account not in others:
            least = min((self._of(other) for other in others), default=self._level.get(sequence.urgency, 0))
            self._served[account] = max(self._of(account), least)

    def begin(self, sequence: Sequence, read: int) -> None:
        """It has its turn, and so many tokens are read for it."""
        account = account_of(sequence)
        ahead = min(round(self._length.get(account, 0)), sequence.limit - len(sequence.known))
        self._turns[sequence.id] = _Turn(ahead)
        self._served[account] = self._of(account) + read + ahead

    def wrote(self, sequence: Sequence, tokens: int) -> None:
        """So many were written for it. This is on the path of every token."""
        turn, account = self._turns[sequence.id], account_of(sequence)
        turn.written += tokens
        paid = min(tokens, turn.ahead)
        turn.ahead -= paid
        if tokens > paid:
            self._served[account] += tokens - paid

    def end(self, sequence: Sequence) -> None:
        """Nothing more comes of it, if it has had its turn."""
        turn, account = self._turns.pop(sequence.id, None), account_of(sequence)
        if turn is not None:
            self._served[account] -= turn.ahead
            known = self._length.get(account)
            self._length[account] = turn.written if known is None else known + (turn.written - known) / LATEST

    def line(self, waiting: Iterable[Sequence]) -> Iterator[Sequence]:
        """Those that wait, next first; `waiting` is by rank, which orders the sequences of one tenant. What is served
        meanwhile counts.
        """
        queues: dict[Account, list[Sequence]] = {}
        for sequence in waiting:
            queues.setdefault(account_of(sequence), []).append(sequence)
        for queue in queues.values():
            queue.reverse()
        while queues:
            first = min(queues, key=lambda account: (-account[0], self._of(account), queues[account][-1].order))
            sequence = queues[first].pop()
            if not queues[first]:
                del queues[first]
            self._level[first[0]] = max(self._level.get(first[0], 0), self._of(first))
            yield sequence

    def _of(self, account: Account) -> int:
        return self._served.get(account, 0)
