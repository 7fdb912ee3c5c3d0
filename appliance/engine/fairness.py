"""Whose sequence begins next, so that keys that ask for more than there is get equal shares. PURE.

Tokens are the currency: those read and not cached, and those written. Each tenant has an account of what it was
served, and of the tenants of the highest class that waits the one served least goes first: the Virtual Token Counter
of Sheng et al., "Fairness in Serving Large Language Models" (OSDI 2024). Nobody saves up: who comes back is no
further behind than the one served least of those that wait.
"""

from collections.abc import Iterable, Iterator

from appliance.engine.sequence import Sequence

Account = tuple[int, str]
"""A class and a tenant: what a key's batches take is not held against its requests."""


def account_of(sequence: Sequence) -> Account:
    return sequence.urgency, sequence.tenant


class Shares:
    """The tokens every tenant was served, as far as it matters who is behind."""

    def __init__(self) -> None:
        self._served: dict[Account, int] = {}
        self._level: dict[int, int] = {}
        """What had been served to the one that began last, by class."""

    def arrive(self, sequence: Sequence, waiting: Iterable[Sequence]) -> None:
        """It joins those that wait."""
        account = account_of(sequence)
        others = {account_of(other) for other in waiting if other.urgency == sequence.urgency}
        if account not in others:
            least = min((self._of(other) for other in others), default=self._level.get(sequence.urgency, 0))
            self._served[account] = max(self._of(account), least)

    def serve(self, sequence: Sequence, tokens: int) -> None:
        """So many were read or written for it."""
        account = account_of(sequence)
        self._served[account] = self._of(account) + tokens

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
