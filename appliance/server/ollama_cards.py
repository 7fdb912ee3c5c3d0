"""What Ollama's clients are told of models."""

from datetime import UTC, datetime
from typing import Any

from appliance.config.deployment import ModelSpec
from appliance.control.status import ModelStatus
from appliance.protocols.ollama import LATEST
from appliance.server.cards import capabilities

API_VERSION = "0.12.6"
"""The release of Ollama whose API we follow: clients look at it to know what they may ask."""


def tag(id: str, model: ModelSpec, status: ModelStatus | None, started: int) -> dict[str, Any]:
    """One model of `/api/tags`. Its digest is that of what decides its weights."""
    return {
        "name": _tagged(id),
        "model": _tagged(id),
        "modified_at": _time(started),
        "size": status.bytes if status else 0,
        "digest": model.fingerprint,
        "details": _details(model),
    }


def running(id: str, model: ModelSpec, status: ModelStatus, now: float) -> dict[str, Any]:
    """One model of `/api/ps`. What is never unloaded expires in a year."""
    left = 365 * 86400.0 if status.idle_left is None else status.idle_left
    return {
        "name": _tagged(id),
        "model": _tagged(id),
        "size": status.bytes,
        "size_vram": status.bytes,
        "digest": model.fingerprint,
        "details": _details(model),
        "expires_at": _time(now + min(left, 365 * 86400.0)),
        "context_length": min(model.context, status.info.context) if status.info else model.context,
    }


def shown(id: str, model: ModelSpec, started: int) -> dict[str, Any]:
    """The answer of `/api/show`."""
    return {
        "modelfile": f"FROM {model.source.text}\n",
        "parameters": "",
        "template": model.template_text or "",
        "details": _details(model),
        "model_info": {
            "general.architecture": model.family.name,
            "general.basename": id,
            f"{model.family.name}.context_length": model.context,
        },
        "capabilities": capabilities(model),
        "modified_at": _time(started),
    }


def _details(model: ModelSpec) -> dict[str, Any]:
    name = model.family.name
    bits = f"Q{model.quantize.bits}" if model.quantize else ""
    return {
        "parent_model": "",
        "format": "mlx",
        "family": name,
        "families": [name],
        "parameter_size": "",
        "quantization_level": bits,
    }


def _tagged(id: str) -> str:
    """Clients split a name at its colon, so each has one."""
    return id if ":" in id else f"{id}{LATEST}"


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
