"""An OpenAPI document as one HTML page: nothing is loaded from elsewhere, and nothing runs in it."""

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

_STYLE = """
:root{color-scheme:light dark;font:16px/1.5 system-ui,sans-serif}
body{max-width:60rem;margin:2rem auto;padding:0 1rem}
code,summary{font-family:ui-monospace,monospace}
details{border:1px solid #8884;border-radius:.4rem;margin:.5rem 0;padding:.5rem .8rem}
summary{cursor:pointer}
summary b{display:inline-block;min-width:4.5rem;text-transform:uppercase}
summary span{font-family:system-ui,sans-serif;opacity:.75}
table{border-collapse:collapse;width:100%;margin:.8rem 0}
td{border-top:1px solid #8883;padding:.25rem .6rem .25rem 0;vertical-align:top}
.refused{opacity:.6}
"""


def page(document: Mapping[str, Any]) -> bytes:
    """The page, in UTF-8."""
    info = document["info"]
    title = f"{escape(info['title'])} {escape(info['version'])}"
    operations = "".join(_operations(document["paths"]))
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head><body>'
        f'<h1>{title}</h1><p>The same as <a href="openapi.json">openapi.json</a>, to be read.</p>'
        f"{operations}</body></html>"
    ).encode()


def _operations(paths: Mapping[str, Any]) -> Iterator[str]:
    for path, methods in paths.items():
        for method, operation in methods.items():
            head = f"<b>{method}</b> {escape(path)} <span>{escape(operation['summary'])}</span>"
            fields = "".join(_fields(operation))
            table = f"<table>{fields}</table>" if fields else ""
            yield f"<details><summary>{head}</summary>{table}</details>"


def _fields(operation: Mapping[str, Any]) -> Iterator[str]:
    content = operation.get("requestBody", {}).get("content", {})
    schema = content.get("application/json", {}).get("schema", {})
    required = schema.get("required", ())
    for name, field in schema.get("properties", {}).items():
        kind = ' class="refused"' if field.get("deprecated") else ""
        star = " <b>required</b>" if name in required else ""
        text = escape(field.get("description", ""))
        yield f"<tr{kind}><td><code>{escape(name)}</code>{star}</td><td>{text}</td></tr>"
