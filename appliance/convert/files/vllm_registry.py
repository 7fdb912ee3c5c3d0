"""vllm-mlx's models-config: a list of models under one memory budget."""

from collections.abc import Mapping
from typing import Any

from appliance.convert import values as v
from appliance.convert.draft import Draft, permitted
from appliance.convert.files.reading import carry_all, document, mapping, objects
from appliance.convert.source import Known, NoSource, source
from appliance.convert.target import Key, Part, Reason, rows, table
from appliance.convert.tools import reasons as why

KIND = "vllm-mlx"

CONTENTION = Reason("a request that needs memory waits in one queue: memory.queue")

MANAGER = table(
    rows("memory_budget_gb memory_budget", Key("memory.budget", lambda given: _budget(given))),
    rows("idle_unload_seconds", Key("defaults.idle_unload", v.seconds_or_never)),
    rows("contention_policy", CONTENTION),
)

ENTRY = table(
    rows("name", Part("M.source", "name")),
    rows("path source model", Part("M.source", "model")),
    rows("preload", Key("M.load", v.always("startup"))),
    rows("continuous_batching", why.ALWAYS),
    rows("mllm", Key("M.kind", v.always("vision"))),
    rows("enable_mtp", Key("M.speculative.kind", v.always("mtp"))),
    rows("prefill_step_size", why.AUTOMATIC),
    rows("specprefill specprefill_threshold specprefill_keep_pct specprefill_backbone_pct", why.LOSSY),
    rows("specprefill_draft_model", why.LOSSY),
    rows("prefix_trie_cache", why.ALWAYS),
    rows("prefix_trie_cache_size", why.ENTRIES),
    rows("prefix_trie_cache_memory_mb", Key("cache.chat.prefix.memory", v.size("MiB"))),
    rows("stream_interval", why.STREAM),
    rows("gpu_memory_utilization", Reason("all models share memory.budget")),
    rows("estimated_memory_gb", Reason("what a model needs is measured")),
)


def fits(given: Mapping[str, Any]) -> bool:
    """Whether a document looks like this format."""
    return any({"path", "source", "model"} & set(entry) for entry in objects(given, "models"))


def convert(text: str, file: str, known: Known) -> Draft:
    """Raises CannotConvert where it is not YAML."""
    given = document(text, file)
    draft = Draft("a models-config of vllm-mlx")
    draft.put(("server", "listen"), "127.0.0.1:8000", "vllm-mlx's port")
    draft.lose("the command line", "server and sampling settings stand there; convert it too")
    carry_all(draft, mapping(given, "manager"), MANAGER, "manager.", "")
    for key in sorted(set(given) - {"manager", "models"}):
        draft.lose(key, "no key of that tool that we know")
    for entry in objects(given, "models"):
        _model(draft, entry, known)
    return draft


def _model(draft: Draft, entry: Mapping[str, Any], known: Known) -> None:
    said = str(entry.get("path") or entry.get("source") or entry.get("model"))
    asked = str(entry.get("name"))
    name = permitted(asked)
    try:
        draft.put(("models", name, "source"), source(said, known), f"models.{name}: {said}")
    except NoSource as error:
        draft.leave_out(f"models.{name}", str(error))
        return
    if name != asked:
        draft.lose(f"models.{asked}", f"a name has no spaces, no `:` and no wildcards: it is {name} here")
    carry_all(draft, entry, ENTRY, f"models.{name}.", name)


def _budget(given: Any) -> Any:
    text = str(given).lower().strip()
    return v.byte_count(text) if text.endswith("b") else v.size("GiB")(text)
