"""What runs and what could: the deployment in force, what became of looks at its file, and changes not made yet."""

import hashlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, Self

from appliance.config import load
from appliance.config.deployment import Deployment
from appliance.config.diff import Plan
from appliance.config.problem import Problem

Read = Callable[[Mapping[str, bytes], bytes | None], Deployment]
"""Parses, checks and resolves the deploy file, blocking. The files given are not looked for on disk; bytes take the
place of the deploy file itself. Raises Rejected with all problems.
"""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one look at the files. A rejected file leaves `generation` as it was."""

    status: Literal["applied", "unchanged", "rejected"]
    generation: int
    problems: tuple[Problem, ...] = ()
    message: str = ""
    time: float = field(default_factory=time.time)


@dataclass(slots=True)
class Running:
    """The deployment in force and its number; only the reloader writes. A request keeps the one it began with.

    `pending_restart` are the settings of it that only a restart can apply. `last` is what became of the latest look
    at its files, `matches` whether they held what is running then.
    """

    deployment: Deployment
    generation: int = 1
    pending_restart: tuple[str, ...] = ()
    last: Outcome = field(default_factory=lambda: Outcome("applied", 1))
    matches: bool = True


@dataclass(frozen=True, slots=True)
class Handled:
    """Files that need no look before the digest of their contents is another than this."""

    files: tuple[str, ...]
    digest: str

    @classmethod
    def now(cls, files: tuple[str, ...]) -> Self:
        """Whatever they hold at this moment; blocking."""
        return cls(files, load.digest(files))


@dataclass(frozen=True, slots=True)
class Proposal:
    """A deployment that could be applied to generation `base`, `before`; `id` names exactly this change."""

    deployment: Deployment
    before: Deployment
    base: int
    plan: Plan

    @property
    def id(self) -> str:
        return hashlib.sha256(f"{self.base}:{self.deployment.digest}".encode()).hexdigest()[:16]
