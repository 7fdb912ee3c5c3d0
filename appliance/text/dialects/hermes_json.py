"""`<tool_call>{"name": …, "arguments": {…}}</tool_call>`, as Hermes, Qwen2.5 and Qwen3 write it."""

import json
from typing import Any, NoReturn

from appliance.text.dialects.format import Call, ToolFormat


def parse(body: str) -> tuple[Call, ...] | None:
    try:
        # Models put raw line breaks into JSON strings: strict=False reads them.
        value = json.loads(body, strict=False, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict) or not isinstance(value.get("name"), str):
        return None
    arguments = _object(value.get("arguments", value.get("parameters", {})))
    return None if arguments is None else (Call(value["name"], json.dumps(arguments, ensure_ascii=False)),)


def _object(value: Any) -> dict[str, Any] | None:
    """The arguments, also where the model wrote them as a string that holds JSON."""
    if isinstance(value, str):
        try:
            value = json.loads(value, strict=False, parse_constant=_refuse)
        except (ValueError, RecursionError):
            return None
    return value if isinstance(value, dict) else None


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


FORMAT = ToolFormat(
    name="hermes_json", aliases=("hermes", "qwen", "qwen2_5"), open="<tool_call>", close="</tool_call>", parse=parse
)
