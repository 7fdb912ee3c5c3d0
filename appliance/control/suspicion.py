"""Whether a request is to blame for the deaths of the engines it was in. PURE.

A request that was in two deaths in a row is a suspect: it runs alone until it has got `probation` tokens, which
clears it. Two deaths in a row while alone prove it guilty. Nobody else is ever failed for a death.
"""

import signal
from dataclasses import dataclass, replace

SUSPECT_DEATHS = 2
LONELY_DEATHS = 2
PROBATION_TOKENS = 32
"""Doubled each time it was cleared and an engine died with it again, so that late poison is found as well."""
BARREN_KILLS = 3
LONELY_KILLS = 5
"""Kills from outside in a row while alone, without one token in between: it needs more memory than there is."""

_FROM_OUTSIDE = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@dataclass(frozen=True, slots=True)
class End:
    """How an engine process ended: its exit code (negative: the signal), and whether we killed it, for `hung` or for
    closing its link without ending.
    """

    code: int
    killed: bool = False
    hung: bool = False

    @property
    def blamed(self) -> bool:
        """Whether it may be the doing of a request.

        What breaks inside a process ends it with SIGABRT, SIGSEGV, SIGBUS, SIGTRAP, … or an exit code. SIGKILL is
        sent by others: the kernel when memory is short, a person, or we ourselves. Which of the first two it was
        cannot be told, and need not: neither is blamed on a request.
        """
        return self.hung or self.killed or -self.code not in _FROM_OUTSIDE


@dataclass(frozen=True, slots=True)
class Death:
    """What a request saw of the death of its engine: was it alone there, and how many tokens had it got from it."""

    blamed: bool
    alone: bool
    tokens: int


@dataclass(frozen=True, slots=True)
class Suspicion:
    """What is held against a request: deaths in a row, those of them alone, and the same for kills from outside."""

    deaths: int = 0
    lonely: int = 0
    kills: int = 0
    lonely_kills: int = 0
    cleared: int = 0

    @property
    def suspect(self) -> bool:
        """It has to run alone."""
        return self.deaths >= SUSPECT_DEATHS or self.kills >= BARREN_KILLS

    @property
    def guilty(self) -> bool:
        """It must not run again."""
        return self.lonely >= LONELY_DEATHS or self.lonely_kills >= LONELY_KILLS

    @property
    def probation(self) -> int:
        """Tokens from one engine that clear it; 2^16 times the first one is more than any answer."""
        return PROBATION_TOKENS << min(self.cleared, 16)

    def clear(self) -> "Suspicion":
        """It got through its probation."""
        return Suspicion(cleared=self.cleared + 1)

    def after(self, death: Death) -> "Suspicion":
        """What is held against it after one more death."""
        before = self.clear() if death.tokens >= self.probation else self
        if death.blamed:
            return replace(before, deaths=before.deaths + 1, lonely=before.lonely + 1 if death.alone else 0)
        if death.tokens:
            return replace(before, kills=0, lonely_kills=0)
        return replace(before, kills=before.kills + 1, lonely_kills=before.lonely_kills + 1 if death.alone else 0)
