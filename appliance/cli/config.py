"""`appliance config`: what a deploy file comes to, and where each value comes from. Offline."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from appliance.cli.offline import document, examine_or_exit
from appliance.config import load
from appliance.config.origins import Layer, NoSuchSetting, Origin, Rule, find_origins, origins
from appliance.config.problem import Place, dotted
from appliance.config.settings import settings

USAGE = 2


def config(
    file: Annotated[Path, typer.Option("-f", "--file", help="The deploy file.")] = Path("deploy.yaml"),
    resolved: Annotated[bool, typer.Option("--resolved", help="Every setting with its value; the default.")] = False,
    all_origins: Annotated[
        bool, typer.Option("--origins", help="Every setting with where its value comes from.")
    ] = False,
    explain: Annotated[
        str | None, typer.Option(help="One setting or block, with every layer that speaks of it.", metavar="PATH")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show what a deploy file comes to: defaults in their places, secrets covered. Exit 78 if it is bad."""
    if resolved + all_origins + (explain is not None) > 1:
        typer.echo("choose one of --resolved, --origins and --explain", err=True)
        raise typer.Exit(USAGE)
    examined = examine_or_exit(file, "config", as_json)
    if explain is None and not all_origins:
        _resolved(examined, as_json)
        return
    known = origins(examined.deployment, examined.written, load.schema("deploy"))
    if explain is None:
        found = [origin for origin in known.values() if _is_set(origin)]
        _print(found, as_json, (_line(origin) for origin in found))
        return
    try:
        found = find_origins(explain, known)
    except NoSuchSetting as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(USAGE) from None
    _print(found, as_json, (line for origin in found for line in block(origin)))


def _resolved(examined: load.Examined, as_json: bool) -> None:
    tree = nested({path: setting.data for path, setting in settings(examined.deployment).items()})
    if as_json:
        typer.echo(document("config", tree, []))
    else:
        typer.echo(yaml.safe_dump(tree, sort_keys=False, allow_unicode=True, width=110), nl=False)


def nested(values: dict[tuple[str | int, ...], Any]) -> dict[str, Any]:
    """Values by path as a tree; what is nothing is left out, and lists of things are lists."""
    out: dict[str, Any] = {"version": 1}
    for path, value in values.items():
        if value is None or value == []:
            continue
        into: dict[Any, Any] = out
        for part in path[:-1]:
            into = into.setdefault(part, {})
        into[path[-1]] = value
    if "hooks" in out:
        out["hooks"] = list(out["hooks"].values())
    if "rules" in out.get("routing", {}):
        rules = out["routing"]["rules"].items()
        out["routing"]["rules"] = [{"name": name} | _without(rule, "place") for name, rule in rules]
    return out


def _without(value: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: v for name, v in value.items() if name != key}


def _is_set(origin: Origin) -> bool:
    """Whether there is anything to say: settings that are nothing by nature are left out."""
    return origin.layers[0].place is not None or origin.value not in (None, [])


def _print(found: list[Origin], as_json: bool, lines: Iterable[str]) -> None:
    if as_json:
        typer.echo(document("origins", [_data(origin) for origin in found], []))
        return
    for line in lines:
        typer.echo(line)


def _line(origin: Origin) -> str:
    winner, *beaten = origin.layers
    over = f"; over {', '.join(map(_named, beaten))}" if beaten else ""
    ruled = f"; {', '.join(f'{rule.kind} {_named(rule)}' for rule in origin.rules)}" if origin.rules else ""
    return f"{dotted(origin.path)} = {_text(origin.value)}  # {_named(winner)}{over}{ruled}"


def block(origin: Origin) -> Iterator[str]:
    """The value, the layers from the strongest to the weakest, and the rules."""
    yield f"{dotted(origin.path)} = {_text(origin.value)}"
    rows = [(_text(layer.value), layer.name, _place(layer.place)) for layer in origin.layers]
    rows += [(f"{rule.kind} {_text(rule.value)}", rule.name, _place(rule.place)) for rule in origin.rules]
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    for i, row in enumerate(rows):
        mark = ">" if i == 0 else "!" if i >= len(origin.layers) else " "
        yield f"  {mark} {row[0]:<{widths[0]}}  {row[1]:<{widths[1]}}  {row[2]}".rstrip()


def _named(layer: Layer | Rule) -> str:
    return f"{layer.name} ({_place(layer.place)})" if layer.place else layer.name


def _place(place: Place | None) -> str:
    return f"{place.file}:{place.line}:{place.col}" if place else ""


def _text(value: Any) -> str:
    return value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False)


def _data(origin: Origin) -> dict[str, Any]:
    winner, *beaten = [_layer(layer) for layer in origin.layers]
    rules = [{"kind": rule.kind, **_layer(rule)} for rule in origin.rules]
    return {"path": dotted(origin.path), "value": origin.value, "winner": winner, "beat": beaten, "rules": rules}


def _layer(layer: Layer | Rule) -> dict[str, Any]:
    place = layer.place
    where = {"file": place.file, "line": place.line, "column": place.col} if place else {}
    return {"layer": layer.name, "value": layer.value, **where}
