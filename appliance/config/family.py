"""Which family a checkpoint belongs to: the facts that decide, the score, and a family file as a frozen type."""

import fnmatch
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from appliance.config.checkpoint import Checkpoint
from appliance.config.deployment import EMPTY, Family, Mode
from appliance.config.overlay import frozen, sampling_patch

GENERIC = "generic"


@dataclass(frozen=True, slots=True)
class Match:
    """Groups that must all hold; an empty group is not given."""

    model_type: tuple[str, ...] = ()
    architectures: tuple[str, ...] = ()
    template_has: tuple[str, ...] = ()
    repo: tuple[str, ...] = ()

    def score(self, checkpoint: Checkpoint) -> int:
        """0 where a given group does not hold; otherwise more, the more was asked and held.

        A checkpoint's own words weigh more than the name it was published under, which alone never suffices.
        """
        if not (self.model_type or self.architectures or self.template_has):
            return 0
        template = checkpoint.template or ""
        groups = (
            (bool(self.model_type), checkpoint.model_type in self.model_type, 100),
            (bool(self.architectures), bool(set(self.architectures) & set(checkpoint.architectures)), 100),
            (bool(self.template_has), all(t in template for t in self.template_has), 10 * len(self.template_has)),
            (bool(self.repo), any(fnmatch.fnmatchcase(checkpoint.repo or "", g) for g in self.repo), 5),
        )
        given = [(held, weight) for is_given, held, weight in groups if is_given]
        return sum(weight for _, weight in given) if all(held for held, _ in given) else 0

    def unmet(self, checkpoint: Checkpoint) -> list[str]:
        """What it asks for and the checkpoint does not have, in words."""
        template = checkpoint.template or ""
        lacking = []
        if self.model_type and checkpoint.model_type not in self.model_type:
            lacking.append(f"model_type is not {' or '.join(self.model_type)}")
        if self.architectures and not set(self.architectures) & set(checkpoint.architectures):
            lacking.append(f"architectures has no {' or '.join(self.architectures)}")
        lacking += [f"the template has no {text}" for text in self.template_has if text not in template]
        if self.repo and not any(fnmatch.fnmatchcase(checkpoint.repo or "", glob) for glob in self.repo):
            lacking.append(f"the repository is not {' or '.join(self.repo)}")
        return lacking


@dataclass(frozen=True, slots=True)
class Listed:
    """A short name's source, and about how many bytes the model takes when loaded; None where nobody reckoned."""

    source: str
    memory: int | None = None


@dataclass(frozen=True, slots=True)
class FamilyFile:
    """One file of `profiles/`: the family, how it is recognised, and what its short names stand for."""

    family: Family
    matches: tuple[Match, ...]
    catalogue: Mapping[str, Listed]
    card: str = ""

    def score(self, checkpoint: Checkpoint) -> int:
        """How well the best of its ways to be recognised fits; 0 where none does."""
        return max((match.score(checkpoint) for match in self.matches), default=0)


def family_file(value: Mapping[str, Any]) -> FamilyFile:
    """A family file's checked value as a frozen type."""
    template, dialects = value.get("template", EMPTY), value.get("dialects", EMPTY)
    modes = value.get("modes", EMPTY)
    family = Family(
        name=value["family"],
        template_kwargs=frozen(template.get("kwargs", EMPTY)),
        roles=frozen(template.get("roles", EMPTY)),
        stop_tokens=tuple(value.get("stop", EMPTY).get("tokens", ())),
        sampling=sampling_patch(value.get("sampling", EMPTY)),
        modes=tuple(Mode(n, frozen(m["when"]), sampling_patch(m["sampling"])) for n, m in modes.items()),
        tool_dialect=dialects.get("tools", "none"),
        reasoning_dialect=dialects.get("reasoning", "none"),
        capabilities=frozen(value.get("capabilities", EMPTY)),
        switch=template.get("switch", "enable_thinking"),
        effort=frozen(template.get("effort", EMPTY)),
    )
    written = value.get("match", [])
    ways = written if isinstance(written, list) else [written]
    matches = tuple(Match(**{group: tuple(texts) for group, texts in way.items()}) for way in ways)
    aliases = value.get("aliases", EMPTY).items()
    entries = {name: Listed(entry["source"], entry.get("memory")) for name, entry in aliases}
    return FamilyFile(family, matches, MappingProxyType(entries), value["source"]["card"])


def recognise(checkpoint: Checkpoint, families: Iterable[FamilyFile]) -> FamilyFile | None:
    """The family with the highest score, by name among equals; None where nothing fits."""
    scored = [(f.score(checkpoint), f.family.name, f) for f in families]
    best = max(((s, name, f) for s, name, f in scored if s > 0), key=lambda row: (row[0], row[1]), default=None)
    return best[2] if best else None
