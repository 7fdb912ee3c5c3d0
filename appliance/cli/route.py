"""`appliance route`: where a request would go and what it would get, and why. Offline, nothing is started."""

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from appliance.cli.assumed import assumed, in_words
from appliance.cli.offline import document, examine_or_exit
from appliance.cli.telling import DEFAULT_FILE, AsJson, File, failing
from appliance.config.access import Key
from appliance.config.condition import STATES
from appliance.config.deployment import Deployment
from appliance.config.peered import is_peer
from appliance.config.sampling import Decided, decide
from appliance.config.units import NotAQuantity, window
from appliance.control.clock import now_in
from appliance.control.facts import facts_of
from appliance.control.keys import accept, check, ruled
from appliance.control.router import Facts, Route
from appliance.control.router import route as find_route
from appliance.control.scales import Scales
from appliance.control.state_dir import state_of
from appliance.errors import BadRequest
from appliance.protocols import anthropic_messages, openai_chat, openai_completions
from appliance.server.elsewhere import left_out
from appliance.vocab.request import GenerateRequest

ENDPOINTS: dict[str, Callable[[bytes], GenerateRequest]] = {
    "/v1/chat/completions": lambda body: openai_chat.read(body).request,
    "/v1/completions": lambda body: openai_completions.read(body).request,
    "/v1/messages": lambda body: anthropic_messages.read(body).request,
}


def route(
    request: Annotated[Path, typer.Option("--request", help="The body of a request, JSON; - reads stdin.")],
    key: Annotated[str | None, typer.Option("--key", help="The name of the key it is sent with.")] = None,
    endpoint: Annotated[
        str, typer.Option("--endpoint", help=f"Where it is sent: {', '.join(ENDPOINTS)}.")
    ] = "/v1/chat/completions",
    header: Annotated[list[str] | None, typer.Option("--header", help="A header, like `x-track: beta`.")] = None,
    at: Annotated[
        str | None, typer.Option("--at", help="The time of day in server.time_zone, like 23:30; default: now.")
    ] = None,
    warm: Annotated[list[str] | None, typer.Option("--warm", help="A model to be taken as loaded.")] = None,
    state: Annotated[
        list[str] | None, typer.Option("--state", help=f"What a model is, like big=loading: {', '.join(STATES)}.")
    ] = None,
    queue: Annotated[
        list[str] | None, typer.Option("--queue", help="The number of requests waiting for a model, like big=5.")
    ] = None,
    load: Annotated[
        list[str] | None, typer.Option("--load", help="The share of a model's rows in use, like big=80%.")
    ] = None,
    down: Annotated[list[str] | None, typer.Option("--down", help="A peer to be taken as unreachable.")] = None,
    draw: Annotated[
        float, typer.Option("--draw", min=0, max=1, help="The random number that draws among weighted targets.")
    ] = 0.0,
    file: File = DEFAULT_FILE,
    as_json: AsJson = False,
) -> None:
    """Explain which model a request goes to, by which rules, with which parameters. Exit 1 if it would be refused."""
    deployment = examine_or_exit(file, "route", as_json).deployment
    with failing("route", as_json):
        asked = _read(request, endpoint)
        holder = _holder(deployment, key)
        check(holder, asked.model)
        facts = replace(
            facts_of(asked, endpoint, key, _headers(header or [])),
            minute=_minute(at or f"{now_in(deployment):%H:%M}"),
            draw=draw,
            now=assumed(deployment, warm or (), state or (), queue or (), load or ()),
            down=frozenset(down or ()),
            scale=Scales(state_of(file).scales).known,
            local_only=holder is not None and holder.egress == "deny",
        )
        found = find_route(deployment, facts)
        decided = decide(deployment, ruled(holder, found.target), asked, 0)
        if is_peer(found.target.model):
            stripped = left_out(deployment, found.target, asked, decided)
            decided = replace(decided, rewrites=(*decided.rewrites, *stripped))
        accept(holder, decided)
    data = _data(asked, facts, found, decided, in_words(deployment, facts))
    typer.echo(document("route", data, []) if as_json else "\n".join(_lines(data)))


def _read(file: Path, endpoint: str) -> GenerateRequest:
    if endpoint not in ENDPOINTS:
        raise BadRequest(f"--endpoint {endpoint} is none of {', '.join(ENDPOINTS)}")
    try:
        body = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    except OSError as error:
        raise BadRequest(f"{file} cannot be read: {error.strerror}") from None
    return ENDPOINTS[endpoint](body)


def _holder(deployment: Deployment, name: str | None) -> Key | None:
    keys = deployment.security.keys
    if name is not None and name not in keys:
        raise BadRequest(f"there is no key {name} under security.keys; there are {', '.join(keys) or 'none'}")
    return keys[name] if name is not None else None


def _headers(given: list[str]) -> dict[str, str]:
    pairs = (text.partition(":") for text in given)
    return {name.strip().lower(): value.strip() for name, _, value in pairs}


def _minute(text: str) -> int:
    try:
        return window(f"{text}-{'00:01' if text == '00:00' else '00:00'}").start
    except NotAQuantity:
        raise BadRequest(f"--at {text} is no time of day; write it like 23:30") from None


def _data(
    asked: GenerateRequest, facts: Facts, found: Route, decided: Decided, models: dict[str, str]
) -> dict[str, Any]:
    return {
        "asked": asked.model,
        "model": found.target.model.name,
        "rule": found.rule,
        "reasons": list(found.reasons),
        "fallbacks": [target.model.name for target in found.fallbacks],
        "facts": {
            "has": sorted(facts.has),
            "prompt_tokens": facts.prompt_tokens,
            "key": facts.key,
            "time": f"{facts.minute // 60:02}:{facts.minute % 60:02}",
            "models": models,
        },
        "sampling": {name: getattr(decided.sampling, name) for name in _shown(found, decided)},
        "template": decided.template,
        "rewritten": [str(rewrite) for rewrite in decided.rewrites],
    }


def _shown(found: Route, decided: Decided) -> list[str]:
    """The sampling that is decided here: a peer decides what nobody here has."""
    names = [name for name in decided.sampling.__struct_fields__ if name != "seed"]
    return [name for name in names if name in decided.given_names] if is_peer(found.target.model) else names


def _lines(data: dict[str, Any]) -> list[str]:
    told = data["facts"]
    has = f", has {', '.join(told['has'])}" if told["has"] else ""
    lines = [f"{data['asked']} > {data['model']}"]
    lines += [f"  about {told['prompt_tokens']} prompt tokens{has}, key {told['key'] or 'none'}, at {told['time']}"]
    lines += [f"  taken to be: {name} {how}" for name, how in told["models"].items()]
    lines += [f"  {reason}" for reason in data["reasons"]]
    lines += ["parameters"]
    values = {**data["sampling"], **{f"template.{name}": value for name, value in data["template"].items()}}
    lines += [f"  {name} = {value}" for name, value in values.items()]
    return lines + [f"  changed by policy: {rewrite}" for rewrite in data["rewritten"]]
