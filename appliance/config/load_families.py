"""The files of the families: those shipped, of which few are read, and the user's own.

`python -m appliance.config.load_families` makes the index anew, after a family file was changed.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

from appliance.config import load_files as files
from appliance.config import source
from appliance.config.check import check
from appliance.config.checked import Checked
from appliance.config.deployment import EMPTY
from appliance.config.families import Families, as_data, index
from appliance.config.family import FamilyFile, family_file
from appliance.config.load_shipped import directory, schema
from appliance.config.problem import Place, Problem, Rejected, at

INDEX = "index.json"


@cache
def families() -> Families:
    """Those shipped."""
    return _shipped(EMPTY)


def with_own(found: Iterable[FamilyFile]) -> Families:
    """Those shipped, and the user's own over them."""
    own = {file.family.name: file for file in found}
    return _shipped(own) if own else families()


def family_texts() -> list[tuple[str, str]]:
    """The shipped family files: names and texts."""
    found = sorted(directory("profiles").iterdir(), key=lambda file: file.name)
    return [(file.name, file.read_text(encoding="utf-8")) for file in found if file.name.endswith(".yaml")]


def family(text: str, name: str) -> FamilyFile:
    """One family file. Raises Rejected."""
    found, problems = parsed(text, name)
    if found is None:
        lines = text.splitlines()
        raise Rejected(replace(p, excerpt=files.printable(lines[p.line - 1])) if lines else p for p in problems)
    return found


def parsed(text: str, name: str) -> tuple[FamilyFile | None, list[Problem]]:
    """One family file, or all that is wrong with it."""
    tree, problems = source.parse(text, name)
    if tree is None:
        return None, problems
    checked, found = check(tree, schema("family"), lambda scalar, _: scalar)
    return (None if problems or found else family_file(checked.value)), problems + found


def written(name: str, own: Path | None) -> Checked | None:
    """The file of a family as it stands: the user's own before the shipped one; None where there is none to read."""
    texts = [(partial(_own, path), str(path)) for path in (sorted(own.glob("*.yaml")) if own is not None else [])]
    shipped = directory("profiles") / f"{name}.yaml"
    for text, shown in (*texts, (partial(shipped.read_text, encoding="utf-8"), f"profiles/{name}.yaml")):
        try:
            tree, _ = source.parse(text(), shown)
        except (OSError, UnicodeDecodeError):
            continue
        if tree is not None:
            found, _ = check(tree, schema("family"), lambda scalar, _: scalar)
            if found.value.get("family") == name:
                return found
    return None


def known(directory: Path | None) -> Families:
    """Those shipped, and over them those of a user's own directory, where there is one. Raises Rejected."""
    paths = sorted(directory.glob("*.yaml")) if directory is not None else []
    found = [(str(path), family(_text(path), str(path))) for path in paths]
    if problems := unique(found):
        raise Rejected(problems)
    return with_own(file for _, file in found)


def _own(path: Path) -> str:
    return files.regular(path).decode("utf-8")


def _text(path: Path) -> str:
    try:
        return _own(path)
    except (OSError, UnicodeDecodeError) as error:
        why = "not UTF-8" if isinstance(error, UnicodeDecodeError) else f"cannot be read: {error.strerror or error}"
        raise Rejected([at(Place(str(path), 1, 1, 2), "E108", (), why)]) from None


def unique(found: Iterable[tuple[str, FamilyFile]]) -> list[Problem]:
    """A problem for each file whose family another file describes too; files by the names they are shown under."""
    first: dict[str, str] = {}
    problems = []
    for shown, file in found:
        other = first.setdefault(file.family.name, shown)
        if other != shown:
            said = f"{other} describes the family {file.family.name} too"
            problems.append(at(Place(shown, 1, 1, 2), "E103", ("family",), said, "delete one of them"))
    return problems


def _shipped(own: Mapping[str, FamilyFile]) -> Families:
    data = json.loads((directory("profiles") / INDEX).read_text(encoding="utf-8"))
    return Families(index(data), _read, own)


@cache
def _read(name: str) -> FamilyFile:
    return family((directory("profiles") / f"{name}.yaml").read_text(encoding="utf-8"), f"{name}.yaml")


def index_text() -> str:
    """The index as it must be shipped."""
    data = as_data(family(text, name) for name, text in family_texts())
    rows = [f"{json.dumps(name)}: {json.dumps(found, ensure_ascii=False)}" for name, found in data.items()]
    return "{\n" + ",\n".join(rows) + "\n}\n"


if __name__ == "__main__":
    Path(str(directory("profiles") / INDEX)).write_text(index_text(), encoding="utf-8")
