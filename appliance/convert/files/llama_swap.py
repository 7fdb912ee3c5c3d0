"""llama-swap's configuration: models by the commands that start them, names, filters, groups and peers."""

import re
import shlex
from collections.abc import Mapping
from typing import Any

from appliance.convert import command
from appliance.convert import values as v
from appliance.convert.draft import Draft, permitted, place
from appliance.convert.files import llama_swap_groups as groups
from appliance.convert.files import llama_swap_params as params
from appliance.convert.files.reading import carry_all, document, mapping
from appliance.convert.source import Known
from appliance.convert.target import OMIT, Key, Part, Reason, rows, table
from appliance.convert.tools import all as tools

KIND = "llama-swap"

OWN_PAGES = Reason("about llama-swap's own log, pages and statistics")
PROCESS = Reason("about starting and asking another server; engines are the appliance's own processes")
LISTING = Reason("what /v1/models says of a model is not set by hand")

TOP = table(
    rows("healthCheckTimeout", Key("defaults.load_timeout", v.seconds_or_omit)),
    rows("logLevel", Key("observability.log.level", v.log_level)),
    rows("globalTTL", Key("defaults.idle_unload", v.seconds_or_never)),
    rows("unloadTimeout", Key("server.drain_timeout", v.seconds_or_omit)),
    rows("apiKeys", Part("security.keys", "keys"), secret=True),
    rows("models", Part("models", "models")),
    rows("macros", Part("models", "macros")),
    rows("groups matrix routing", Part("memory.exclusive", "routing")),
    rows("hooks", Part("M.load", "hooks")),
    rows("peers", Part("routing.peers", "peers")),
    rows("selectors", Part("routing.rules", "selectors")),
    rows("profiles", Reason("names that are switched while it runs: write them as aliases and save the file")),
    rows("logTimeFormat logToStdout logRequests store metricsMaxInMemory captureBuffer ui performance", OWN_PAGES),
    rows("startPort upstream", PROCESS),
    rows("sendLoadingState", Reason("a waiting client gets signs of life; nothing is put into its answer")),
    rows("includeAliasesInList", Reason("aliases are listed unless they are `hidden`")),
    rows("tailcat", Reason("the appliance listens on addresses of this machine; see server.listen")),
)

MODEL = table(
    rows("cmd", Part("M.source", "cmd")),
    rows("macros", Part("M.source", "macros")),
    rows("aliases", Part("aliases", "aliases")),
    rows("filters", Part("M.policy", "filters")),
    rows("ttl", Key("M.idle_unload", lambda given: OMIT if v.number(given) < 0 else v.seconds_or_never(given))),
    rows("concurrencyLimit", Key("M.concurrency", v.positive(v.whole))),
    rows("unloadTimeout", Reason("there is one for all models: server.drain_timeout")),
    rows("cmdStop env proxy checkEndpoint timeouts compat", PROCESS),
    rows("useModelName", Reason("nothing is passed on, so nothing is renamed")),
    rows("name description metadata capabilities", LISTING),
    rows("unlisted", Reason("models are always listed; an alias may be `hidden`")),
    rows("sendLoadingState", Reason("a waiting client gets signs of life; nothing is put into its answer")),
)

_MACRO = re.compile(r"\$\{([A-Za-z0-9_.-]+)\}")


def fits(given: Mapping[str, Any]) -> bool:
    """Whether a document looks like this format."""
    return any(isinstance(model, dict) and "cmd" in model for model in mapping(given, "models").values())


def convert(text: str, file: str, known: Known) -> Draft:
    """Raises CannotConvert where it is not YAML."""
    raw = document(text, file)
    draft = Draft("a configuration of llama-swap")
    draft.put(("server", "listen"), "127.0.0.1:8080", "llama-swap's port")
    if raw.get("globalTTL") is None:
        draft.put(("defaults", "idle_unload"), "never", "llama-swap's way")
    macros = mapping(raw, "macros")
    given = {key: _expanded(value, macros) for key, value in raw.items() if key != "models"}
    carry_all(draft, {**given, "models": None}, TOP, "", "")
    for name in mapping(raw, "models"):
        _model(draft, name, mapping(mapping(raw, "models"), name), macros, known)
    groups.carry(draft, given)
    _keys(draft, given.get("apiKeys"))
    for asked in mapping(mapping(given, "hooks"), "on_startup").get("preload") or []:
        if draft.has("models", permitted(str(asked)), "source"):
            draft.put(("models", permitted(str(asked)), "load"), "startup", "hooks.on_startup.preload")
    return draft


def _model(draft: Draft, asked: str, raw: Mapping[str, Any], macros: Mapping[str, Any], known: Known) -> None:
    name = permitted(asked)
    own = {**macros, **mapping(raw, "macros"), "MODEL_ID": asked, "PORT": "0"}
    given = {str(key): value for key, value in _expanded(raw, own).items()}
    if not _command(draft, name, str(given.get("cmd", "")), known):
        draft.drop(("models", name))
        return
    if name != asked:
        draft.lose(f"models.{asked}", f"a name has no spaces, no `:` and no wildcards: it is {name} here")
    draft.put(place("M.load", name), "lazy", "llama-swap's way")
    draft.drop(("models", name, "idle_unload"))
    carry_all(draft, given, MODEL, f"models.{name}.", name)
    for alias in given.get("aliases") or []:
        draft.alias(str(alias), name, f"models.{name}.aliases {alias}")
    params.filters(draft, name, asked, mapping(given, "filters"))


def _command(draft: Draft, name: str, text: str, known: Known) -> bool:
    lines = (line for line in text.splitlines() if not line.lstrip().startswith("#"))
    try:
        words = shlex.split(" ".join(lines).replace("\\ ", " "))
    except ValueError as error:
        draft.leave_out(f"models.{name}.cmd", f"cannot be read: {error}")
        return False
    found = tools.split(words)
    if found is None:
        draft.leave_out(f"models.{name}", f"its command starts {words[0] if words else 'nothing'}, no server we know")
        return False
    return command.convert_one(draft, *found, known, name)


def _keys(draft: Draft, keys: Any) -> None:
    for number, key in enumerate(keys if isinstance(keys, list) else [], 1):
        path = ("security", "keys", f"key-{number}", "secret")
        variable = f"APPLIANCE_KEY_{number}"
        if str(key).startswith(v.ENV_OPEN):
            draft.put(path, str(key), f"apiKeys[{number}]")
            continue
        draft.put(path, v.env(f"{variable}:?export {variable} first"), f"apiKeys[{number}]")
        draft.lose(f"apiKeys[{number}]", f"secrets do not belong into the file: export {variable}")


def _expanded(value: Any, macros: Mapping[str, Any], depth: int = 8) -> Any:
    """With macros replaced; `${env.X}` is kept for our own substitution."""
    if isinstance(value, Mapping):
        return {_expanded(key, macros): _expanded(below, macros) for key, below in value.items()}
    if isinstance(value, list):
        return [_expanded(item, macros) for item in value]
    if not isinstance(value, str) or "${" not in value or not depth:
        return value
    whole = _MACRO.fullmatch(value)
    if whole and whole[1] in macros:
        return _expanded(macros[whole[1]], macros, depth - 1)

    def replaced(match: re.Match[str]) -> str:
        if match[1].startswith("env."):
            return v.env(match[1][4:])
        return str(macros.get(match[1], match[0]))

    text = _MACRO.sub(replaced, value)
    return _expanded(text, macros, depth - 1) if text != value else text
