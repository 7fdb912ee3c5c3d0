"""Values of other tools as values of a deploy file. Every reader raises ValueError where there is no such value."""

import json
import math
from collections.abc import Callable
from typing import Any

from appliance.config.units import BYTES, show_duration, show_tokens
from appliance.convert.target import OMIT, Read

ENV_OPEN, ENV_CLOSE = "\ue000", "\ue001"
"""Around what becomes `${env:…}`: no text of another tool holds these characters by chance."""

TOOL_DIALECTS = {
    "hermes": "hermes_json", "qwen": "hermes_json", "qwen3": "hermes_json", "nous": "hermes_json",
    "qwen3_coder": "qwen3_coder", "qwen3_xml": "qwen3_coder", "qwen3_coder_xml": "qwen3_coder", "none": "none",
}  # fmt: skip
REASONING_DIALECTS = {
    "qwen3": "think_tags", "deepseek_r1": "think_tags", "deepseek": "think_tags", "think": "think_tags",
    "none": "none",
}  # fmt: skip
SPECULATIVE_KINDS = {"mtp": "mtp", "suffix": "suffix", "ngram": "suffix", "draft": "draft", "draft_model": "draft"}


def env(reference: str) -> str:
    """A text that is written as `${env:reference}`."""
    return f"{ENV_OPEN}{reference}{ENV_CLOSE}"


def always(value: Any) -> Read:
    """Whatever was given, this; `false` where a configuration file says so leaves the key out."""
    return lambda given: OMIT if given in (False, "false", "False", None) else value


def text(value: Any) -> str:
    shown = str(value)
    if not shown.strip():
        raise ValueError("it is empty")
    return shown


def number(value: Any) -> float:
    try:
        found = float(value)
    except (TypeError, ValueError):
        raise ValueError("it is not a number") from None
    if not math.isfinite(found):
        raise ValueError("it is not a finite number")
    return int(found) if found.is_integer() else found


def whole(value: Any) -> int:
    found = number(value)
    if not isinstance(found, int):
        raise ValueError("it is not a whole number")
    return found


def positive(read: Callable[[Any], float]) -> Read:
    """Zero and less mean `off` there, which here is a key left out."""
    return lambda value: found if (found := read(value)) > 0 else OMIT


def tokens(value: Any) -> str | int:
    count = whole(value)
    return show_tokens(count) if count >= 4096 else count


def tokens_or_omit(value: Any) -> Any:
    return tokens(value) if whole(value) > 0 else OMIT


def unless_negative(value: Any) -> Any:
    """Tokens where -1 means as many as fit."""
    return tokens(value) if whole(value) >= 0 else OMIT


def at_most_tokens(value: Any) -> Any:
    """A clamp from one token up."""
    return [1, tokens(value)]


def seconds(value: Any) -> str:
    return show_duration(float(number(value)))


def seconds_or_omit(value: Any) -> Any:
    return seconds(value) if number(value) > 0 else OMIT


def seconds_or_never(value: Any) -> str:
    """Zero and less mean that it never happens."""
    return seconds(value) if number(value) > 0 else "never"


def milliseconds(value: Any) -> Any:
    return show_duration(number(value) / 1000) if number(value) > 0 else OMIT


def share(value: Any) -> str:
    """0.75 as 75%."""
    found = number(value)
    if not 0 < found <= 1:
        raise ValueError("it is not a share between 0 and 1")
    return f"{100 * found:g}%"


def size(unit: str) -> Read:
    """A count of `unit`; nothing and less is left out."""

    def read(value: Any) -> Any:
        count = number(value)
        return byte_text(round(count * BYTES[unit])) if count > 0 else OMIT

    return read


def byte_count(value: Any) -> Any:
    """Bytes, with or without the unit KB, MB or GB."""
    shown = str(value).strip().upper().removesuffix("B").removesuffix("I")
    factor = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}.get(shown[-1:], 1)
    count = number(shown.rstrip("KMGT")) * factor
    return byte_text(round(count)) if count > 0 else OMIT


def byte_text(count: int) -> str:
    for unit in ("TiB", "GiB", "MiB"):
        if count % BYTES[unit] == 0:
            return f"{count // BYTES[unit]}{unit}"
    unit = next((u for u in ("GiB", "MiB") if count >= 10 * BYTES[u]), "KiB")
    return f"{round(count / BYTES[unit], 2):g}{unit}"


def per_minute(value: Any) -> Any:
    return f"{whole(value)}/m" if whole(value) > 0 else OMIT


def several(value: Any) -> list[str]:
    """Words, given as a list or divided by commas or spaces."""
    given = value if isinstance(value, list) else [value]
    return [word for part in given for word in str(part).replace(",", " ").split()]


def json_object(value: Any) -> dict[str, Any]:
    try:
        found = value if isinstance(value, dict) else json.loads(str(value))
    except ValueError:
        raise ValueError("it is not a JSON object") from None
    if not isinstance(found, dict):
        raise ValueError("it is not a JSON object")
    return found


def of(names: dict[str, str], what: str) -> Read:
    """A name by their name for it; `auto` is what we do anyway."""

    def read(value: Any) -> Any:
        if str(value).lower() == "auto":
            return OMIT
        found = names.get(str(value).lower())
        if found is None:
            raise ValueError(f"there is no {what} of that name here; the model's family decides")
        return found

    return read


def kind(names: dict[str, str]) -> Read:
    """A kind of model by their name for it. Another is kept as it is: such a model is not served as text."""
    return lambda value: names.get(str(value), str(value))


tool_dialect = of(TOOL_DIALECTS, "tool dialect")
reasoning_dialect = of(REASONING_DIALECTS, "reasoning dialect")


def log_level(value: Any) -> str:
    found = str(value).lower()
    return {"warn": "warning", "critical": "error", "trace": "debug"}.get(found, found)


def drafted(value: Any) -> dict[str, Any]:
    """The model that makes the proposals: a path, or a repository of the hub."""
    name = text(value)
    if not name.startswith(("/", "./", "../", "~", "hf:", ENV_OPEN)):
        if name.count("/") != 1:
            raise ValueError(f"{name} is neither a path nor owner/name")
        name = f"hf:{name}"
    return {"kind": "draft", "draft": name}


def speculative(value: Any) -> dict[str, Any]:
    """A JSON object with `method`, `num_speculative_tokens` and perhaps `model`."""
    given = json_object(value)
    kind = SPECULATIVE_KINDS.get(str(given.get("method")))
    if kind is None:
        raise ValueError(f"there is no method {given.get('method')} here")
    depth = given.get("num_speculative_tokens")
    found: dict[str, Any] = drafted(given.get("model")) if kind == "draft" else {"kind": kind}
    return found if depth is None else found | {"depth": whole(depth)}


def speculative_kind(value: Any) -> Any:
    kind = SPECULATIVE_KINDS.get(str(value).lower())
    if str(value).lower() == "none":
        return OMIT
    if kind is None:
        raise ValueError(f"there is no method {value} here")
    return kind


def kv_bits(value: Any) -> Any:
    """Bits of a cache's type: `int8`, `q4_0`, `bf16`."""
    name = str(value).lower()
    if name in ("auto", "bf16", "bfloat16", "f16", "float16", "f32", "float32", "float", "model"):
        return OMIT
    bits = {"int8": 8, "q8_0": 8, "int4": 4, "q4_0": 4, "q4_1": 4, "iq4_nl": 4, "q5_0": 5, "q5_1": 5}.get(name)
    if bits is None:
        raise ValueError("there is no such type of cache here")
    return bits
