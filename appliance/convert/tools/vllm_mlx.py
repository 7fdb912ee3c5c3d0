"""`vllm-mlx serve`: its flags and our keys."""

from appliance.convert import values as v
from appliance.convert.command import Tool
from appliance.convert.draft import Lost
from appliance.convert.target import Key, Part, Reason, rows, table
from appliance.convert.tools import reasons as why

MTP_IS_EXACT = Reason("it lets wrong tokens through; speculation here is exact")

FLAGS = table(
    rows("model", Part("M.source", "model")),
    rows("--models-config", Reason("convert that file by itself: appliance init --from FILE")),
    rows("--memory-budget-gb", Key("memory.budget", v.size("GiB"))),
    rows("--served-model-name", Part("M.source", "name")),
    rows("--host", Part("server.listen", "host")),
    rows("--port", Part("server.listen", "port")),
    rows("--max-num-seqs", Key("M.concurrency", v.whole)),
    rows("--prefill-batch-size --completion-batch-size --prefill-step-size --mllm-prefill-step-size", why.AUTOMATIC),
    rows("--chunked-prefill-tokens", why.AUTOMATIC),
    rows("--enable-prefix-cache", Key("M.cache", v.always("chat")), "none"),
    rows("--disable-prefix-cache", Key("M.cache", v.always("none")), "none"),
    rows("--prefix-cache-size --prefix-trie-cache-size", why.ENTRIES),
    rows("--cache-memory-mb --prefix-trie-cache-memory-mb", Key("cache.chat.prefix.memory", v.size("MiB"))),
    rows("--cache-memory-percent", Key("cache.chat.prefix.memory", v.share)),
    rows("--no-memory-aware-cache", why.ENTRIES, "none"),
    rows("--prefix-trie-cache", why.ALWAYS, "none"),
    rows("--kv-cache-quantization", Key("M.kv.bits", v.always(8)), "none"),
    rows("--kv-cache-quantization-bits", Key("M.kv.bits", v.whole)),
    rows("--kv-cache-quantization-group-size", Key("M.kv.group", v.whole)),
    rows("--kv-cache-min-quantize-tokens", Key("M.kv.from_token", v.whole)),
    rows("--ssd-cache-dir", Key("cache.chat.prefix.path", v.text)),
    rows("--ssd-cache-max-gb", Key("cache.chat.prefix.disk", v.size("GiB"))),
    rows("--warm-prompts", Key("M.warm", v.several, "the file there is JSON, here each prompt is a text file")),
    rows("--stream-interval", why.STREAM),
    rows("--max-kv-size", Reason("the oldest text of a conversation is never forgotten silently; see M.context")),
    rows("--max-tokens", Key("M.sampling.max_tokens", v.tokens)),
    rows("--max-request-tokens", Key("M.policy.clamp.max_tokens", v.at_most_tokens)),
    rows("--continuous-batching", why.ALWAYS, "none"),
    rows("--gpu-memory-utilization", Key("memory.budget", v.share)),
    rows("--use-paged-cache", why.PAGED, "none"),
    rows("--paged-cache-block-size --max-cache-blocks", why.PAGED),
    rows("--enable-mtp", Key("M.speculative.kind", v.always("mtp")), "none"),
    rows("--mtp-num-draft-tokens", Key("M.speculative.depth", v.whole)),
    rows("--mtp-optimistic", MTP_IS_EXACT, "none"),
    rows("--specprefill", why.LOSSY, "none"),
    rows("--specprefill-threshold --specprefill-keep-pct --specprefill-backbone-pct", why.LOSSY),
    rows("--specprefill-draft-model", why.LOSSY),
    rows("--mllm-draft-model", Key("M.speculative", v.drafted)),
    rows("--mllm-draft-kind", Key("M.speculative.kind", v.speculative_kind)),
    rows("--mllm-draft-block-size", Key("M.speculative.depth", v.whole)),
    rows("--default-mllm-draft", Reason("a model that speculates does so for every request"), "none"),
    rows("--mcp-config", why.TOOL_SERVERS),
    rows("--api-key", Part("security.keys", "api-key"), secret=True),
    rows("--rate-limit", Key("security.keys.default.limits.requests", v.per_minute)),
    rows("--timeout", Key("server.request_timeout", v.seconds_or_omit)),
    rows("--enable-metrics", Key("observability.metrics.path", v.always("/metrics")), "none"),
    rows("--auto-unload-idle-seconds", Key("M.idle_unload", v.seconds_or_never)),
    rows("--lazy-load-model", Key("M.load", v.always("lazy")), "none"),
    rows(
        "--max-audio-upload-mb",
        Key("server.max_body", v.size("MiB"), "it holds for every request, not for audio alone"),
    ),
    rows("--max-tts-input-chars", why.NO_MEDIA),
    rows("--enable-auto-tool-choice", why.SWITCH_OF_CHOICE, "none"),
    rows("--tool-call-parser", Key("M.dialects.tools", v.tool_dialect)),
    rows("--reasoning-parser", Key("M.dialects.reasoning", v.reasoning_dialect)),
    rows("--mllm", Key("M.kind", v.always("vision")), "none"),
    rows("--trust-remote-code", Key("M.trust_remote_code", v.always(True)), "none"),
    rows("--default-temperature", Key("M.sampling.temperature", v.number)),
    rows("--default-top-p", Key("M.sampling.top_p", v.number)),
    rows("--default-top-k", Key("M.sampling.top_k", v.whole)),
    rows("--default-min-p", Key("M.sampling.min_p", v.number)),
    rows("--default-presence-penalty", Key("M.sampling.presence_penalty", v.number)),
    rows("--default-repetition-penalty", Key("M.sampling.repetition_penalty", v.number)),
    rows("--default-thinking-token-budget", Key("M.sampling.reasoning_budget", v.tokens)),
    rows("--default-chat-template-kwargs", Key("M.template", v.json_object)),
    rows("--embedding-model", Part("M.kind", "embedding")),
    rows("--embedding-max-length", Reason("an embedding model's own context holds")),
    rows("--embedding-overflow-policy", Reason("an input that is too long is refused, never cut silently")),
    rows("--rerank-model", Part("M.kind", "rerank")),
    rows("--download-timeout --download-retries", Reason("downloads resume where they stopped and are retried")),
    rows("--offline", Key("storage.offline", v.always(True)), "none"),
)

TOOL = Tool(
    name="vllm-mlx",
    starts=(("vllm-mlx", "serve"),),
    table=FLAGS,
    port=8000,
    positional="model",
    notes=(
        Lost(
            "vllm-mlx's defaults",
            "answers there end after 32768 tokens and 5 minutes where nobody says otherwise; here with the context"
            " and after 30 minutes",
        ),
    ),
)
