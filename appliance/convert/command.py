"""One command line of a known tool into a draft: which model, under which names, listening where."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from appliance.convert import words
from appliance.convert.draft import Draft, Item, Lost, carry, name_for, permitted, place
from appliance.convert.source import Known, NoSource, source
from appliance.convert.target import Part, Table
from appliance.convert.values import env

KEY_VARIABLE = "APPLIANCE_KEY"
SIDE_MODELS = {"embedding": "embed", "rerank": "rerank"}
"""Roles of further models a command line names, with the name each gets."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A serving command. `starts` are the words that begin it, `implied` what it does when nothing is said.

    `aliases` are names its clients may use besides; `notes` say what differs where nothing was said.
    """

    name: str
    starts: tuple[tuple[str, ...], ...]
    table: Table
    port: int
    host: str = "127.0.0.1"
    positional: str | None = None
    implied: tuple[tuple[str, Any], ...] = (("M.load", "startup"), ("M.idle_unload", "never"))
    aliases: tuple[str, ...] = ()
    notes: tuple[Lost, ...] = ()


def convert(tool: Tool, arguments: Sequence[str], known: Known) -> Draft:
    """The draft of a whole deploy file. Raises CannotConvert where no model is named that could be served."""
    draft = Draft(f"a {tool.name} command line")
    parts, model = _settings(draft, tool, arguments, known, None)
    if model is None:
        raise draft.nothing()
    _listen(draft, tool, parts)
    if "api-key" in parts:
        key = env(f"{KEY_VARIABLE}:?export {KEY_VARIABLE} first")
        draft.put(("security", "keys", "default", "secret"), key, parts["api-key"].shown)
        draft.lose(parts["api-key"].shown, f"secrets do not belong into the file: export {KEY_VARIABLE}")
    else:
        _lose_limits(draft)
    for role, name in SIDE_MODELS.items():
        if role in parts:
            _side_model(draft, role, name, parts[role], known)
    for lost in tool.notes:
        draft.lose(lost.what, lost.why)
    return draft


def _lose_limits(draft: Draft) -> None:
    """Limits are those of a key: without one there is nobody to hold to them."""
    for path in [path for path in draft.values if path[:2] == ("security", "keys")]:
        draft.lose(draft.origins[path], "limits are those of a key: make one with `appliance keys new`")
        draft.drop(path)


def convert_one(draft: Draft, tool: Tool, arguments: Sequence[str], known: Known, name: str) -> bool:
    """Only the model of a command line, under a given name: whether there is one.

    What the command says of its own server (address, key) means nothing here and is passed over.
    """
    beside = Draft(draft.made_from)
    _, model = _settings(beside, tool, arguments, known, name)
    for path, value in beside.values.items():
        origin = beside.origins[path]
        if path[0] == "models":
            draft.put(path, value, origin)
        elif path[0] != "aliases":
            draft.lose(f"models.{name}.cmd {origin}", f"belongs to the whole appliance: {'.'.join(path)}")
    for lost in beside.lost:
        said = draft.leave_out if lost in beside.unserved else draft.lose
        said(f"models.{name}.cmd {lost.what}", lost.why)
    return model is not None


def _settings(
    draft: Draft, tool: Tool, arguments: Sequence[str], known: Known, name: str | None
) -> tuple[Mapping[str, Item], str | None]:
    """What the flags say, and the model's name if there is a source for it."""
    read = words.read(arguments, tool.table)
    parts = {row.to.name: item for item, row in read.found if isinstance(row.to, Part)}
    if tool.positional and read.loose:
        parts[tool.positional] = Item("", read.loose.pop(0))
    called = parts.get("model") or parts.get("repository")
    given = parts.get("name")
    model = name or (permitted(str(given.value)) if given else name_for(str(called.value)) if called else "model")
    served = _source(draft, tool, parts, called, model, known)
    for path, value in tool.implied:
        draft.put(place(path, model), value, f"{tool.name}'s way")
    for item, row in read.found:
        carry(draft, item, row, model)
    for word in read.loose:
        draft.lose(word, f"{tool.name} takes no such word")
    for flag in read.unknown:
        draft.lose(flag, f"no flag of {tool.name} that we know")
    return parts, model if served else None


def _source(
    draft: Draft, tool: Tool, parts: Mapping[str, Item], called: Item | None, model: str, known: Known
) -> bool:
    if called is None:
        return False
    shown = str(called.value)
    try:
        found = source(shown, known)
    except NoSource as error:
        draft.leave_out(called.shown.strip(), str(error))
        return False
    draft.put(("models", model, "source"), found, called.shown)
    if "/" in shown and not shown.startswith(("/", "./", "../", "~")):
        draft.alias(shown, model, shown)
    for alias in tool.aliases:
        draft.alias(alias, model, f"{tool.name}'s way")
    if "name" in parts:
        draft.alias(str(parts["name"].value), model, parts["name"].shown)
    return True


def _listen(draft: Draft, tool: Tool, parts: Mapping[str, Item]) -> None:
    if "fd" in parts:
        draft.put(("server", "listen"), f"fd:{parts['fd'].value}", parts["fd"].shown)
        return
    host = str(parts["host"].value) if "host" in parts else tool.host
    port = parts["port"].value if "port" in parts else tool.port
    if "host" not in parts and tool.host != "127.0.0.1":
        draft.lose(f"{tool.name}'s default address {tool.host}", "this file listens on this machine only")
        host = "127.0.0.1"
    host = f"[{host}]" if ":" in host and not host.startswith("[") else host or "0.0.0.0"
    said = " ".join(parts[name].shown for name in ("host", "port") if name in parts) or f"{tool.name}'s port"
    draft.put(("server", "listen"), f"{host}:{port}", said)


def _side_model(draft: Draft, role: str, name: str, item: Item, known: Known) -> None:
    try:
        found = source(str(item.value), known)
    except NoSource as error:
        draft.lose(item.shown, str(error))
        return
    draft.put(("models", name, "source"), found, item.shown)
    draft.put(("models", name, "kind"), role, item.shown)
    draft.put(("models", name, "load"), "startup", item.shown)
    if "/" in str(item.value):
        draft.alias(str(item.value), name, item.shown)
