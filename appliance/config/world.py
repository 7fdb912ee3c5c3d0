"""What resolving may know besides the file, and where it notes what is wrong."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from appliance.config.checked import Checked
from appliance.config.checkpoint import Checkpoint
from appliance.config.deployment import Source
from appliance.config.family import FamilyFile
from appliance.config.fingerprint import FileFact
from appliance.config.problem import Path, Problem, at

Inspect = Callable[[Source], Checkpoint | None]


@dataclass(frozen=True, slots=True)
class World:
    """What resolving may know besides the file.

    `base` is the absolute directory of the file, `read` gives a text by its absolute path (raises OSError,
    UnicodeDecodeError), `stat` the files at an absolute path (of a directory: those in it; None: nothing there),
    `inspect` what a checkpoint says of itself (None: not here yet; raises SourceError).
    """

    base: str
    home: str
    memory_bytes: int
    families: Mapping[str, FamilyFile]
    inspect: Inspect
    stat: Callable[[str], tuple[FileFact, ...] | None]
    read: Callable[[str], str]

    def catalogue(self) -> dict[str, str]:
        """Every short name with its source."""
        return {name: text for f in self.families.values() for name, text in f.catalogue.items()}


@dataclass(slots=True)
class Notes:
    """The problems of meaning found so far in a file."""

    file: Checked
    problems: list[Problem] = field(default_factory=list)

    def say(self, code: str, path: Path, message: str, hint: str = "", *, key: bool = False) -> None:
        """A problem at a value, or at its key."""
        place = self.file.at_key(path) if key else self.file.at_value(path)
        self.problems.append(at(place, code, path, message, hint))
