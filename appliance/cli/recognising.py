"""What a word on the command line names as models, and of which family each of them is."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from appliance.cli.offline import examine
from appliance.cli.reading import read
from appliance.config import load
from appliance.config.checkpoint import Checkpoint
from appliance.config.deployment import EMPTY, Deployment, Family, ModelSpec
from appliance.config.families import Families
from appliance.config.family import GENERIC, FamilyFile
from appliance.config.load_families import known
from appliance.config.problem import Rejected
from appliance.config.sampling import decide, find
from appliance.config.suggest import did_you_mean
from appliance.errors import BadRequest
from appliance.models.inspect import inspect_source
from appliance.models.store import Store
from appliance.vocab.request import GenerateRequest, SamplingPatch

_ALONE = "model"
TEMPLATE = ".jinja"


@dataclass(frozen=True, slots=True)
class Subject:
    """A model, or a chat template alone, with its family and why it is that one.

    `checkpoint` is None where the files are not here. `template` is the one it is served with, `kwargs` that one's
    variables where a request says nothing.
    """

    name: str
    checkpoint: Checkpoint | None
    family: Family
    why: str
    template: str | None
    kwargs: Mapping[str, Any]


def families() -> Families:
    """Those shipped and the user's own. Raises Rejected."""
    return known(load.own_families(os.environ))


def family_of(name: str, every: Families) -> FamilyFile:
    """The family of this name. Raises BadRequest."""
    if name in every:
        return every[name]
    if name in every.catalogue:
        raise BadRequest(f"{name} is a short name of the family {every.catalogue[name][0]}")
    raise BadRequest(
        f"there is no family {name}; {did_you_mean(name, every) or '`appliance profiles ls` lists them'}"
    )


def subjects(what: str | None, file: Path) -> list[Subject]:
    """Models of the deploy file, all or one by its name; or a source; or a chat template, or a directory of them.
    Raises BadRequest, Rejected.
    """
    examined = examine(file) if file.exists() else None
    models = examined.deployment.models if examined else {}
    if what is None and examined is None:
        raise BadRequest(f"there is no {file}; name a model, a source or a directory with chat templates")
    if what is None or what in models:
        written = examined.written.value["models"] if examined else {}
        assert examined is not None
        chosen = models if what is None else [what]
        return [_of_model(name, examined.deployment, "family" in written.get(name, EMPTY)) for name in chosen]
    path = Path(what).expanduser()
    if found := list(_templates(path)):
        return found
    if path.is_dir() and not (path / "config.json").exists():
        raise BadRequest(f"{what} has neither a model (config.json) nor chat templates (*{TEMPLATE})")
    if what in (every := families()) and what not in every.catalogue:
        raise BadRequest(f"{what} is a family and not a model; `appliance profiles show {what}` shows it")
    return [replace(_of_model(_ALONE, _alone(what, models), forced=False), name=what)]


def _templates(path: Path) -> Iterator[Subject]:
    alone = [path] if path.suffix == TEMPLATE else sorted(path.glob(f"*{TEMPLATE}"))
    if path.is_dir() and (path / "config.json").exists():
        return
    every = families()
    for each in alone:
        facts = Checkpoint("", (), _text(each), SamplingPatch(), None, None, 0)
        family = every.recognise(facts)
        why = "recognised by its text" if family else "no family recognises its text"
        found = family.family if family else every[GENERIC].family
        yield Subject(each.name, facts, found, why, facts.template, found.template_kwargs)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadRequest(f"{path} cannot be read: {error}") from None


def _alone(source: str, models: Mapping[str, ModelSpec]) -> Deployment:
    """A deployment of nothing but a source, with everything by default."""
    quoted = source.replace("'", "''")
    try:
        document = f"version: 1\nmodels:\n  {_ALONE}:\n    source: '{quoted}'\n".encode()
        return read(Path.cwd() / "deploy.yaml", document=document)
    except Rejected as rejected:
        first = rejected.problems[0]
        there = f"; the deploy file has {', '.join(models)}" if models else ""
        raise BadRequest(f"{source!r}: {first.message}{first.hint and f'; {first.hint}'}{there}") from None


def _of_model(name: str, deployment: Deployment, forced: bool) -> Subject:
    spec = deployment.models[name]
    checkpoint = inspect_source(spec.source, Store(), deployment.storage)
    template = spec.template_text or (checkpoint.template if checkpoint else None)
    silent = GenerateRequest(model=name, messages=(), sampling=SamplingPatch())
    kwargs = decide(deployment, find(deployment, name), silent, seed=0).template
    return Subject(name, checkpoint, spec.family, _why(spec, checkpoint, forced), template, kwargs)


def _why(spec: ModelSpec, checkpoint: Checkpoint | None, forced: bool) -> str:
    every = families()
    if forced:
        return "the deploy file says so: `family`"
    if every.listed(spec.source.text) is not None:
        return f"the short name {spec.source.text} is in its catalogue"
    if checkpoint is None:
        return f"its files are not here, so nothing is known: `appliance pull {spec.source.text}`"
    return "recognised by its files" if every.recognise(checkpoint) else "no family recognises its files"
