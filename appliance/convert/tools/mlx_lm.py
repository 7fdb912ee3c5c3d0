"""`mlx_lm.server`: its flags and our keys."""

from appliance.convert import values as v
from appliance.convert.command import Tool
from appliance.convert.draft import Lost
from appliance.convert.target import Key, Part, Reason, rows, table
from appliance.convert.tools import reasons as why

FLAGS = table(
    rows("--model", Part("M.source", "model")),
    rows("--host", Part("server.listen", "host")),
    rows("--port", Part("server.listen", "port")),
    rows("--allowed-origins", Key("server.cors", v.several)),
    rows("--adapter-path", Key("M.adapters.default", v.text, why.ADAPTER)),
    rows("--draft-model", Key("M.speculative", v.drafted)),
    rows("--num-draft-tokens", Key("M.speculative.depth", v.whole)),
    rows("--trust-remote-code", Key("M.trust_remote_code", v.always(True)), "none"),
    rows("--log-level", Key("observability.log.level", v.log_level)),
    rows("--chat-template", Reason("the text of a template: save it as a file and name it in M.template.file")),
    rows("--use-default-chat-template", Reason("the checkpoint's own template is used anyway"), "none"),
    rows("--chat-template-args", Key("M.template", v.json_object)),
    rows("--temp", Key("M.sampling.temperature", v.number)),
    rows("--top-p", Key("M.sampling.top_p", v.number)),
    rows("--top-k", Key("M.sampling.top_k", v.whole)),
    rows("--min-p", Key("M.sampling.min_p", v.number)),
    rows("--max-tokens", Key("M.sampling.max_tokens", v.tokens)),
    rows("--decode-concurrency", Key("M.concurrency", v.whole)),
    rows("--prompt-concurrency --prefill-step-size", why.AUTOMATIC),
    rows("--prompt-cache-size", why.ENTRIES),
    rows("--prompt-cache-bytes", Key("cache.chat.prefix.memory", v.byte_count)),
    rows("--kv-bits", Key("M.kv.bits", v.whole)),
    rows("--kv-group-size", Key("M.kv.group", v.whole)),
    rows("--quantized-kv-start", Key("M.kv.from_token", v.whole)),
    rows("--pipeline", why.NO_CLUSTER, "none"),
)

TOOL = Tool(
    name="mlx_lm.server",
    starts=(("mlx_lm.server",), ("mlx_lm", "server")),
    table=FLAGS,
    port=8080,
    aliases=("default_model",),
    notes=(
        Lost(
            "mlx_lm.server's defaults",
            "it answers with temperature 0 and at most 512 tokens where nobody says otherwise; here the family's"
            " recommendation holds",
        ),
        Lost("models by path", "it loads whatever a request names; here only what this file declares"),
    ),
)
