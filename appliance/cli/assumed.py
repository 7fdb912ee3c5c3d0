"""How `appliance route` takes models to be: as its options say, cold and idle otherwise."""

from collections.abc import Iterable
from dataclasses import replace

from appliance.config.condition import STATES
from appliance.config.deployment import Deployment
from appliance.config.sampling import find
from appliance.control.router import IDLE, Facts, ModelNow
from appliance.errors import BadRequest


def assumed(
    deployment: Deployment, warm: Iterable[str], states: Iterable[str], queues: Iterable[str], loads: Iterable[str]
) -> dict[str, ModelNow]:
    """By model, what `big`, `big=loading`, `big=5` and `big=80%` say. Raises BadRequest, UnknownModel."""
    now: dict[str, ModelNow] = {}

    def put(model: str, **said: str | int | float) -> None:
        now[model] = replace(now.get(model, IDLE), **said)  # type: ignore[arg-type]

    for name in warm:
        put(find(deployment, name).model.name, state="ready")
    for model, word in _said(deployment, "--state", states):
        if word not in STATES:
            raise BadRequest(f"--state {model}={word}: a model is one of {', '.join(STATES)}")
        put(model, state=word)
    for model, word in _said(deployment, "--queue", queues):
        put(model, waiting=_whole(f"--queue {model}={word}", word, "5"))
    for model, word in _said(deployment, "--load", loads):
        percent = _whole(f"--load {model}={word}", word.removesuffix("%"), "80%")
        put(model, load=min(percent, 100) / 100)
    return now


def in_words(deployment: Deployment, facts: Facts) -> dict[str, str]:
    """By model, how it is taken to be, of those that were said and those that rules look at."""
    rules = deployment.routing.rules
    looked = (name for rule in rules for name in (*rule.when.state, *rule.when.queue, *rule.when.load))
    models = dict.fromkeys([*facts.now, *(find(deployment, name).model.name for name in looked)])
    return {model: _words(facts.of(model)) for model in models}


def _words(now: ModelNow) -> str:
    return f"{now.state}, {now.waiting} waiting, {now.load:.0%} of its rows busy"


def _said(deployment: Deployment, option: str, texts: Iterable[str]) -> Iterable[tuple[str, str]]:
    for text in texts:
        name, equals, word = text.rpartition("=")
        if not equals:
            raise BadRequest(f"{option} {text} says nothing of a model; write it like {option} big=…")
        yield find(deployment, name).model.name, word


def _whole(said: str, text: str, like: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise BadRequest(f"{said} is no such number; write it like {like}")
    return int(text)
