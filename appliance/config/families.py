"""All families there are: an index of them, from which each is read when it is asked for. PURE.

The index says what must be known of every family at once: how it is recognised, and its short names. It is shipped
beside the family files, made of them, so that a start need not read seventy of them.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Any

from appliance.config.checkpoint import Checkpoint
from appliance.config.family import GENERIC, FamilyFile, Listed, Match


@dataclass(frozen=True, slots=True)
class Row:
    """What the index says of a family."""

    matches: tuple[Match, ...]
    catalogue: Mapping[str, Listed]

    def score(self, checkpoint: Checkpoint) -> int:
        """How well the best of its ways to be recognised fits; 0 where none does."""
        return max((match.score(checkpoint) for match in self.matches), default=0)


class Families(Mapping[str, FamilyFile]):
    """The families by name, in order. `own` are the user's: they take the place of those shipped."""

    def __init__(
        self, index: Mapping[str, Row], read: Callable[[str], FamilyFile], own: Mapping[str, FamilyFile]
    ) -> None:
        self._rows = {**index, **{name: row(file) for name, file in own.items()}}
        self._read = read
        self.own = own
        # A name of the user's own wins over the same of another family.
        by_strength = sorted(self._rows, key=lambda name: name in own)
        self.catalogue = {
            short: (name, listed) for name in by_strength for short, listed in self._rows[name].catalogue.items()
        }
        """Family and entry of every short name."""

    def __getitem__(self, name: str) -> FamilyFile:
        if name in self.own:
            return self.own[name]
        if name not in self._rows:
            raise KeyError(name)
        return self._read(name)

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._rows))

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, name: object) -> bool:
        return name in self._rows

    def listed(self, short: str) -> FamilyFile | None:
        """The family of a short name; None where it is none, or its family is read from the files."""
        name = self.catalogue[short][0] if short in self.catalogue else GENERIC
        return None if name == GENERIC else self[name]

    def memory(self, short: str) -> int | None:
        """About how many bytes a short name's model takes when loaded; None where nobody reckoned it."""
        return self.catalogue[short][1].memory if short in self.catalogue else None

    def nearest(self, checkpoint: Checkpoint) -> list[tuple[str, list[str]]]:
        """The families that do not fit and what each lacks of its nearest way, the least lacking first."""
        lacking = {
            name: min((match.unmet(checkpoint) for match in row.matches), key=len, default=[])
            for name, row in self._rows.items()
        }
        # A template that nearly fits says more than another architecture.
        return sorted(
            ((name, unmet) for name, unmet in lacking.items() if unmet),
            key=lambda pair: (len(pair[1]), any("model_type" in each for each in pair[1])),
        )

    def scores(self, checkpoint: Checkpoint) -> list[tuple[int, str]]:
        """The families that fit, best first, by name among equals."""
        found = ((row.score(checkpoint), name) for name, row in self._rows.items())
        return sorted((pair for pair in found if pair[0] > 0), reverse=True)

    def recognise(self, checkpoint: Checkpoint) -> FamilyFile | None:
        """The family that fits best; None where none does."""
        found = self.scores(checkpoint)
        return self[found[0][1]] if found else None


def row(file: FamilyFile) -> Row:
    """What the index says of a family file."""
    return Row(file.matches, file.catalogue)


def as_data(files: Iterable[FamilyFile]) -> dict[str, Any]:
    """The index of these files in JSON's types; what is empty is left out."""
    return {
        file.family.name: {
            "match": [{k: list(v) for k, v in asdict(match).items() if v} for match in file.matches],
            "names": {n: [e.source] if e.memory is None else [e.source, e.memory] for n, e in file.catalogue.items()},
        }
        for file in files
    }


def index(data: Mapping[str, Any]) -> dict[str, Row]:
    """The index from JSON's types."""
    return {
        name: Row(
            tuple(Match(**{group: tuple(texts) for group, texts in match.items()}) for match in found["match"]),
            MappingProxyType({short: Listed(*entry) for short, entry in found["names"].items()}),
        )
        for name, found in data.items()
    }
