"""`appliance config`: what a deploy file comes to, and where each value comes from. Offline."""

import json
import os
from collections.abc import Iterable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Any

import typer

from appliance.cli.offline import document, examine_or_exit
from appliance.config import load
from appliance.config.load_families import written
from appliance.config.origins import Layer, NoSuchSetting, Origin, Rule, find_origins, origins
from appliance.config.problem import Place, dotted
from appliance.config.resolved import as_yaml, resolved_tree

USAGE = 2


def config(
    file: Annotated[Path, typer.Option("-f", "--file", help="The deploy file.")] = Path("deploy.yaml"),
    resolved: Annotated[bool, typer.Option("--resolved", help="Every setting with its value; the default.")] = False,
    all_origins: Annotated[
        bool, typer.Option("--origins", help="Every setting with the place its value comes from.")
    ] = False,
    explain: Annotated[
        str | None, typer.Option(help="One setting or block, with every layer that sets it.", metavar="PATH")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show the resolved deploy file, with all defaults and with secrets masked. Exit 78 if it is not valid."""
    if resolved + all_origins + (explain is not None) > 1:
        typer.echo("choose one of --resolved, --origins and --explain", err=True)
        raise typer.Exit(USAGE)
    examined = examine_or_exit(file, "config", as_json)
    if explain is None and not all_origins:
        _resolved(examined, as_json)
        return
    families = cache(partial(written, own=load.own_families(os.environ)))
    known = origins(examined.deployment, examined.written, load.schema("deploy"), families)
    if explain is None:
        found = [origin for origin in known.values() if _is_set(origin)]
        _print(found, as_json, (_line(origin) for origin in found))
        return
    try:
        found = find_origins(explain, known)
    except NoSuchSetting as error:
        typer.echo(f"appliance: {error}", err=True)
        raise typer.Exit(USAGE) from None
    _print(found, as_json, (line for origin in found for line in block(origin)))


def _resolved(examined: load.Examined, as_json: bool) -> None:
    tree = resolved_tree(examined.deployment)
    typer.echo(document("config", tree, []) if as_json else as_yaml(tree), nl=as_json)


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
