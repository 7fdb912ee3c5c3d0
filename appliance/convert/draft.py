"""A deploy file in the making: settings by path, where each came from, and what could not be carried over."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from appliance.convert.target import OMIT, Key, Part, Reason, Row
from appliance.convert.values import ENV_CLOSE, ENV_OPEN
from appliance.errors import ApplianceError, Fault

Path = tuple[str, ...]

SHOWN = 80
"""Longer values are shown in part."""


class CannotConvert(ApplianceError):
    """Nothing that could be served was found."""

    code = "cannot_convert"
    fault = Fault.CONFIG
    exit_code = 78


@dataclass(frozen=True, slots=True)
class Lost:
    """One setting that could not be carried over, or not all of it."""

    what: str
    why: str

    def __str__(self) -> str:
        return f"{self.what}: {self.why}"


@dataclass(frozen=True, slots=True)
class Item:
    """One setting as it was found. `value` is True for a bare flag; `shown` never holds a secret."""

    name: str
    value: Any
    secret: bool = False

    @property
    def shown(self) -> str:
        given = self.value if isinstance(self.value, list) else [self.value]
        words = [str(value) for value in given if value is not True and not isinstance(value, dict)]
        return clean(" ".join([self.name] if self.secret else [self.name, *words]))


@dataclass(slots=True)
class Draft:
    """`made_from` says in words what was converted, `unserved` why models are not in it."""

    made_from: str
    values: dict[Path, Any] = field(default_factory=dict)
    origins: dict[Path, str] = field(default_factory=dict)
    lost: list[Lost] = field(default_factory=list)
    unserved: list[Lost] = field(default_factory=list)

    def put(self, path: Path, value: Any, origin: str) -> None:
        """Set one value, or each of an object's; a later one wins."""
        if isinstance(value, Mapping):
            for key, below in value.items():
                self.put((*path, str(key)), below, origin)
            return
        self.values[path] = value
        self.origins[path] = origin

    def lose(self, what: str, why: str) -> None:
        if (lost := Lost(clean(what), why)) not in self.lost:
            self.lost.append(lost)

    def leave_out(self, what: str, why: str) -> None:
        """A model that is not carried over at all."""
        self.lose(what, why)
        self.unserved.append(Lost(clean(what), why))

    def nothing(self) -> CannotConvert:
        """The error of a draft without a model."""
        return CannotConvert("; ".join(map(str, self.unserved)) or "it names no model")

    def has(self, *path: str) -> bool:
        """Whether something is set there or below."""
        return any(known[: len(path)] == path for known in self.values)

    def names(self, kind: str) -> list[str]:
        """The names under `models`, `aliases` or `profiles`, in order."""
        return list(dict.fromkeys(path[1] for path in self.values if path[0] == kind))

    def drop(self, path: Path) -> None:
        for known in [known for known in self.values if known[: len(path)] == path]:
            del self.values[known]

    def alias(self, name: str, model: str, origin: str) -> None:
        """Another name for a model, unless it is taken or cannot be one."""
        if name == model:
            return
        if re.search(r"[\s:]", name):
            self.lose(origin, f"an alias has no spaces and no `:`; {name} is answered as {model}")
        elif self.has("aliases", name) or self.has("models", name):
            self.lose(origin, f"the name {name} is taken")
        else:
            self.put(("aliases", name), model, origin)


def carry(draft: Draft, item: Item, row: Row, model: str) -> None:
    """Put one setting where its row says; pieces of keys are put together by whoever reads the whole."""
    match row.to:
        case Key(path, read, but):
            try:
                value = read(item.value)
            except ValueError as error:
                draft.lose(item.shown, str(error))
                return
            if value is not OMIT:
                draft.put(place(path, model), value, item.shown)
                if but:
                    draft.lose(item.shown, spelt(but, model))
        case Part():
            pass
        case Reason(why):
            draft.lose(item.shown, spelt(why, model))


def spelt(text: str, model: str) -> str:
    """A table's text with the model's name where it says `M`."""
    return re.sub(r"\bM\.(?=[a-z])", f"models.{model}.", text)


def place(path: str, model: str) -> Path:
    """A table's path with the model's name in it."""
    first, *rest = path.split(".")
    return ("models", model, *rest) if first == "M" else (first, *rest)


def name_for(text: str) -> str:
    """A model's name made from whatever it was called: the last part, without what a name may not hold."""
    last = re.sub(r"\.(gguf|safetensors)$", "", text.rstrip("/").rpartition("/")[2], flags=re.IGNORECASE)
    return permitted(last) or "model"


def permitted(text: str) -> str:
    """A name without spaces, `:` and wildcards."""
    return re.sub(r"[\s:*?\[\]]+", "-", text).strip("-")


def clean(text: str) -> str:
    """One printable line, and not a long one."""
    text = text.replace(ENV_OPEN, "${env:").replace(ENV_CLOSE, "}")
    line = "".join(c if c.isprintable() else " " for c in text)
    line = " ".join(line.split())
    return line if len(line) <= SHOWN else f"{line[: SHOWN - 3]}..."
