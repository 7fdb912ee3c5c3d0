"""The `source` of a model, from what another tool calls it."""

from collections.abc import Callable, Collection
from dataclasses import dataclass

from appliance.config.schema import Schema
from appliance.convert.values import ENV_OPEN


@dataclass(frozen=True, slots=True)
class Known:
    """What a conversion may know: the language, the catalogue's short names, and whether a path is there."""

    schema: Schema
    catalogue: Collection[str]
    is_local: Callable[[str], bool]


class NoSource(ValueError):
    """Says why a model cannot be named here."""


def source(text: str, known: Known) -> str:
    """The source a text means. Raises NoSource."""
    if text in known.catalogue or text.startswith(("/", "./", "../", "~/", "hf:", ENV_OPEN)):
        return _checked(text)
    if known.is_local(text):
        return _checked(f"./{text}")
    text = text.removeprefix("https://huggingface.co/").removeprefix("hf.co/").rstrip("/")
    if text.count("/") == 1 and not text.lower().endswith(".gguf"):
        return _checked(f"hf:{text}")
    if text.lower().endswith((".gguf", ".safetensors")):
        return _checked(f"./{text}")
    raise NoSource(f"`{text}` is a short name of that tool and not of our catalogue; put hf:owner/name in its place")


def _checked(text: str) -> str:
    if text.lower().endswith("-gguf"):
        raise NoSource(f"`{text}` is a repository of GGUF files; use the MLX conversion, or a .gguf file's path")
    if text.lower().endswith(".safetensors"):
        raise NoSource("a single weight file is no model; name its directory")
    return text


OLLAMA = {
    "gemma3": "gemma3-4b-qat-4bit", "gemma3:1b": "gemma3-1b-4bit", "gemma3:4b": "gemma3-4b-qat-4bit",
    "gemma3:12b": "gemma3-12b-4bit", "gemma3:27b": "gemma3-27b-qat-4bit", "llama3.2": "llama3-3b-4bit",
    "llama3.2:1b": "llama3-1b-4bit", "llama3.2:3b": "llama3-3b-4bit", "llama3.1": "llama-3.1-8b-4bit",
    "llama3.1:8b": "llama-3.1-8b-4bit", "mistral-small3.1": "mistral-24b-4bit",
    "mistral-small3.1:24b": "mistral-24b-4bit", "qwen2.5:14b": "qwen2.5-14b-4bit", "qwen3": "qwen3-8b-4bit",
    "qwen3:0.6b": "qwen3-0.6b-4bit", "qwen3:1.7b": "qwen3-1.7b-4bit", "qwen3:8b": "qwen3-8b-4bit",
    "qwen3-coder": "qwen3-coder-30b-4bit", "qwen3-coder:30b": "qwen3-coder-30b-4bit",
    "smollm2:135m": "smollm2-135m", "qwen3:4b": "qwen3-4b", "qwen3-vl:2b": "qwen3-vl-2b-4bit",
    "qwen3-vl:4b": "qwen3-vl-4b-4bit", "qwen3-vl:8b": "qwen3-vl-8b-4bit", "gpt-oss": "gpt-oss-20b",
    "gpt-oss:20b": "gpt-oss-20b", "gpt-oss:120b": "gpt-oss-120b", "phi4": "phi-4-14b-4bit",
    "phi4:14b": "phi-4-14b-4bit", "phi4-mini": "phi-4-mini-4bit", "phi4-mini:3.8b": "phi-4-mini-4bit",
    "phi3.5": "phi-3.5-mini-4bit", "hermes3": "hermes3-8b-4bit", "hermes3:8b": "hermes3-8b-4bit",
    "devstral": "devstral-24b-4bit", "devstral:24b": "devstral-24b-4bit", "deepseek-r1:8b": "deepseek-r1-8b-4bit",
    "deepseek-r1:32b": "deepseek-r1-32b-4bit", "gemma3n:e2b": "gemma-3n-e2b-4bit", "gemma3n:e4b": "gemma-3n-e4b-4bit",
}  # fmt: skip
"""Names of Ollama's library to the same model in our catalogue."""


def ollama_source(text: str, known: Known) -> str:
    """The source of a Modelfile's FROM. Raises NoSource."""
    if "/blobs/sha256" in text:
        raise NoSource("a blob has no name we could read: link it to a name that ends with .gguf")
    if found := OLLAMA.get(text.removesuffix(":latest").lower()):
        return found
    if text.startswith(("/", "./", "../", "~/")) or known.is_local(text) or text.lower().endswith(".gguf"):
        return source(text, known)
    if text.startswith(("hf.co/", "huggingface.co/")):
        raise NoSource("a repository of GGUF files; use the MLX conversion as hf:owner/name, or a .gguf file's path")
    raise NoSource(f"`{text}` of Ollama's library is not in our catalogue; put hf:owner/name in its place")
