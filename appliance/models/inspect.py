"""Reads what a model directory says about itself: small JSON files only, nothing of its weights but their size."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from appliance.config.attention import attention
from appliance.config.checkpoint import Checkpoint
from appliance.config.deployment import Source
from appliance.config.operations import Storage
from appliance.errors import SourceError
from appliance.models.store import Store
from appliance.vocab.request import SamplingPatch

# generation_config.json → our names, each with the types it may have.
_SAMPLING: Mapping[str, tuple[str, type[int] | type[float]]] = {
    "temperature": ("temperature", float),
    "top_p": ("top_p", float),
    "top_k": ("top_k", int),
    "min_p": ("min_p", float),
    "repetition_penalty": ("repetition_penalty", float),
}
_CONTEXT = ("max_position_embeddings", "n_positions", "max_sequence_length", "seq_length", "n_ctx")
_REPO = re.compile(r"[\w.-]+/[\w.-]+", re.ASCII)
_FOR_TOOLS = "additional_chat_templates/tool_use.jinja"
_SNAPSHOT = re.compile(r"models--(?P<owner>[^/]+?)--(?P<name>[^/]+)/snapshots/[^/]+/?$")


def inspect(directory: Path) -> Checkpoint:
    """Raises SourceError naming the file that is missing or unreadable."""
    config = _read(directory / "config.json")
    if config is None:
        raise SourceError(f"{directory} is no model directory: it has no config.json")
    model_type = config.get("model_type")
    if not isinstance(model_type, str):
        raise SourceError(f"{directory / 'config.json'} does not say its model_type")
    architectures = config.get("architectures")
    return Checkpoint(
        model_type=model_type,
        architectures=tuple(map(str, architectures)) if isinstance(architectures, list) else (),
        template=_template(directory),
        generation=_sampling(directory / "generation_config.json"),
        context=_context(config),
        repo=_repo(directory, config),
        weight_bytes=sum(file.stat().st_size for file in directory.glob("*.safetensors")),
        attention=attention(config),
    )


def inspect_source(source: Source, store: Store, storage: Storage = Storage()) -> Checkpoint | None:
    """What a source's checkpoint says of itself; None where its files are not here yet, or it is a script."""
    path = store.within(storage).locate(source) if source.kind != "fake" else None
    return inspect(path) if path is not None else None


def _read(path: Path) -> dict[str, Any] | None:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SourceError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise SourceError(f"{path} is not JSON ({error}); fetch the model again") from error
    if not isinstance(content, dict):
        raise SourceError(f"{path} holds a JSON {type(content).__name__}, not an object; fetch the model again")
    return content


def _template(directory: Path) -> str | None:
    """The chat template in the order loaders look: a file of its own, then the tokenizer's configuration. Of several
    the one for tools, which tells more of the model than the default one.
    """
    for own in (directory / _FOR_TOOLS, directory / "chat_template.jinja"):
        if own.is_file():
            try:
                return own.read_text(encoding="utf-8")
            except (OSError, ValueError) as error:
                raise SourceError(f"cannot read {own}: {error}") from error
    for name in ("chat_template.json", "tokenizer_config.json"):
        match (_read(directory / name) or {}).get("chat_template"):
            case str(text):
                return text
            case list(named):
                return _telling_template(named)
    return None


def _telling_template(named: list[Any]) -> str | None:
    templates = {entry.get("name"): entry.get("template") for entry in named if isinstance(entry, dict)}
    found = templates.get("tool_use") or templates.get("default")
    return found if isinstance(found, str) else None


def _sampling(path: Path) -> SamplingPatch:
    values = _read(path) or {}
    patch: dict[str, Any] = {}
    for key, (name, kind) in _SAMPLING.items():
        value = values.get(key)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int | float) or (kind is int and value != int(value)):
            raise SourceError(f"{path}: {key} is {value!r}, not a number; correct or delete it")
        patch[name] = kind(value)
    return SamplingPatch(**patch)


def _context(config: Mapping[str, Any]) -> int | None:
    nested = config.get("text_config")
    for place in (config, nested if isinstance(nested, dict) else {}):
        for key in _CONTEXT:
            value = place.get(key)
            if isinstance(value, int) and value > 0:
                return value
    return None


def _repo(directory: Path, config: Mapping[str, Any]) -> str | None:
    if match := _SNAPSHOT.search(directory.as_posix()):
        return f"{match['owner']}/{match['name']}"
    name = config.get("_name_or_path")
    return name if isinstance(name, str) and _REPO.fullmatch(name) else None
