"""What resolving may know besides the file, and where it notes what is wrong."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from appliance.config import sources
from appliance.config.checked import Checked
from appliance.config.checkpoint import Checkpoint
from appliance.config.deployment import Source
from appliance.config.families import Families
from appliance.config.fingerprint import FileFact
from appliance.config.operations import Storage
from appliance.config.problem import Path, Place, Problem, at

Inspect = Callable[[Source, Storage], Checkpoint | None]


@dataclass(frozen=True, slots=True)
class World:
    """What resolving may know besides the file.

    `bases` are the absolute directories of the files by the names they are shown under, `read` gives a text by its
    absolute path (raises OSError, UnicodeDecodeError), `stat` the files at an absolute path (of a directory: those in
    it; None: nothing there), `inspect` what a checkpoint says of itself by where models are kept (None: not here yet;
    raises SourceError).
    """

    bases: Mapping[str, str]
    home: str
    memory_bytes: int
    families: Families
    inspect: Inspect
    stat: Callable[[str], tuple[FileFact, ...] | None]
    read: Callable[[str], str]

    def absolute(self, text: str, place: Place) -> str:
        """A path as written at a place: relative to the file it stands in. Raises SourceSyntax."""
        return sources.absolute(text, self.bases[place.file], self.home)

    def own(self, name: str) -> str:
        """A directory of ours where the file names no other."""
        return f"{self.home}/.appliance/{name}"

    def path(self, text: str, notes: "Notes", path: Path) -> str | None:
        """The absolute path written as the value at a path of the file, or a note of why there is none."""
        try:
            return self.absolute(text, notes.file.at_value(path))
        except sources.SourceSyntax as syntax:
            notes.say("E209", path, syntax.message, syntax.hint)
            return None

    def text(self, file: str, notes: "Notes", path: Path) -> str | None:
        """The text of a file named at a path of the file, or a note of why it cannot be read."""
        try:
            return self.read(self.absolute(file, notes.file.at_value(path)))
        except sources.SourceSyntax as syntax:
            notes.say("E209", path, syntax.message, syntax.hint)
        except UnicodeDecodeError:
            notes.say("E108", path, f"{file} is not UTF-8 text")
        except OSError as error:
            notes.say(
                "E209", path, f"{file} cannot be read: {error.strerror or error}", "paths are relative to this file"
            )
        return None

    def catalogue(self) -> dict[str, str]:
        """Every short name with its source."""
        return {name: listed.source for name, (_, listed) in self.families.catalogue.items()}


@dataclass(slots=True)
class Notes:
    """The problems of meaning found so far in a file."""

    file: Checked
    problems: list[Problem] = field(default_factory=list)

    def say(self, code: str, path: Path, message: str, hint: str = "", *, key: bool = False) -> None:
        """A problem at a value, or at its key."""
        place = self.file.at_key(path) if key else self.file.at_value(path)
        self.problems.append(at(place, code, path, message, hint))
