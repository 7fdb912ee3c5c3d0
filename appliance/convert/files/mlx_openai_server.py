"""mlx-openai-server's configuration: a server and a list of models."""

from collections.abc import Mapping
from typing import Any

from appliance.convert import values as v
from appliance.convert.draft import Draft, name_for, permitted
from appliance.convert.files.reading import carry_all, document, mapping, objects
from appliance.convert.source import Known, NoSource, source
from appliance.convert.target import Key, Part, Reason, rows, table
from appliance.convert.tools import reasons as why

KIND = "mlx-openai-server"

IMAGES = Reason("images are not generated here")
SAMPLERS = Reason("this sampler is not offered")
KINDS = {"lm": "text", "multimodal": "vision", "embeddings": "embedding", "whisper": "transcription"}

SERVER = table(
    rows("host", Part("server.listen", "host")),
    rows("port", Part("server.listen", "port")),
    rows("log_level", Key("observability.log.level", v.log_level)),
    rows("log_file no_log_file", why.LOG_FILE),
)

ENTRY = table(
    rows("model_path", Part("M.source", "model")),
    rows("served_model_name", Part("M.source", "name")),
    rows("model_type", Key("M.kind", v.kind(KINDS))),
    rows("context_length", Key("M.context", v.tokens)),
    rows("queue_timeout", Key("memory.queue.max_wait", v.seconds_or_omit)),
    rows("queue_size", Key("memory.queue.max", v.whole)),
    rows("quantize config_name disable_auto_resize lora_scales", IMAGES),
    rows(
        "lora_paths",
        Key("M.adapters", lambda given: {name_for(path): path for path in v.several(given)}, why.ADAPTER),
    ),
    rows("on_demand", Key("M.load", v.always("lazy"))),
    rows("on_demand_idle_timeout", Key("M.idle_unload", v.seconds_or_never)),
    rows("enable_auto_tool_choice", why.SWITCH_OF_CHOICE),
    rows("tool_call_parser", Key("M.dialects.tools", v.tool_dialect)),
    rows("reasoning_parser", Key("M.dialects.reasoning", v.reasoning_dialect)),
    rows("message_converter", why.FAMILY),
    rows("trust_remote_code", Key("M.trust_remote_code", v.always(True))),
    rows("chat_template_file", Key("M.template.file", v.text)),
    rows("debug", Key("observability.log.level", v.always("debug"))),
    rows("prompt_cache_size", why.ENTRIES),
    rows("prompt_cache_max_bytes", Key("cache.chat.prefix.memory", v.byte_count)),
    rows("prompt_cache_dir", Key("cache.chat.prefix.path", v.text)),
    rows("draft_model_path", Key("M.speculative", v.drafted)),
    rows("num_draft_tokens", Key("M.speculative.depth", v.whole)),
    rows("kv_bits", Key("M.kv.bits", v.whole)),
    rows("kv_group_size", Key("M.kv.group", v.whole)),
    rows("quantized_kv_start", Key("M.kv.from_token", v.whole)),
    rows("batch_completion_size", Key("M.concurrency", v.whole)),
    rows("batch_prefill_size batch_prefill_step_size", why.AUTOMATIC),
    rows("disable_batching", Key("M.concurrency", v.always(1))),
    rows("default_max_tokens", Key("M.sampling.max_tokens", v.tokens)),
    rows("default_temperature", Key("M.sampling.temperature", v.number)),
    rows("default_top_p", Key("M.sampling.top_p", v.number)),
    rows("default_top_k", Key("M.sampling.top_k", v.whole)),
    rows("default_min_p", Key("M.sampling.min_p", v.number)),
    rows("default_repetition_penalty", Key("M.sampling.repetition_penalty", v.number)),
    rows("default_presence_penalty", Key("M.sampling.presence_penalty", v.number)),
    rows("default_seed", Key("M.sampling.seed", v.whole)),
    rows("default_xtc_probability default_xtc_threshold", why.ASKED_FOR),
    rows("default_repetition_context_size", SAMPLERS),
)


def fits(given: Mapping[str, Any]) -> bool:
    """Whether a document looks like this format."""
    return any("model_path" in entry for entry in objects(given, "models"))


def convert(text: str, file: str, known: Known) -> Draft:
    """Raises CannotConvert where it is not YAML."""
    given = document(text, file)
    draft = Draft("a configuration of mlx-openai-server")
    server = mapping(given, "server")
    if "host" not in server:
        draft.lose("the default address 0.0.0.0", "this file listens on this machine only")
    listen = f"{server.get('host', '127.0.0.1')}:{server.get('port', 8000)}"
    draft.put(("server", "listen"), listen, "server.host and server.port")
    carry_all(draft, server, SERVER, "server.", "")
    for key in sorted(set(given) - {"server", "models"}):
        draft.lose(key, "no key of that tool that we know")
    for entry in objects(given, "models"):
        _model(draft, entry, known)
    return draft


def _model(draft: Draft, entry: Mapping[str, Any], known: Known) -> None:
    path = str(entry.get("model_path", ""))
    asked = str(entry.get("served_model_name") or path)
    name = permitted(asked) if entry.get("served_model_name") else name_for(path)
    origin = f"models.{name}"
    try:
        draft.put(("models", name, "source"), source(path, known), origin)
    except NoSource as error:
        draft.leave_out(origin, str(error))
        return
    if not entry.get("on_demand"):
        draft.put(("models", name, "load"), "startup", "all models are loaded at startup there")
        draft.put(("models", name, "idle_unload"), "never", "models are kept there")
    if not asked.startswith(("/", "./", "../", "~")):
        draft.alias(asked, name, origin)
    carry_all(draft, entry, ENTRY, f"{origin}.", name)
