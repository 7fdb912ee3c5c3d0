"""`rapid-mlx serve`: its flags and our keys."""

from appliance.convert import values as v
from appliance.convert.command import Tool
from appliance.convert.draft import Lost
from appliance.convert.target import Key, Part, Reason, rows, table
from appliance.convert.tools import reasons as why

OTHER_SERVICE = Reason("another service than a model server")
ONE_MODEL = Reason("made for single models of that tool's catalogue")
TURBOQUANT = Reason("this kind of KV quantization is not offered; see M.kv")
WRITE_ONLY = Reason("prefixes go to disk by the cache policy: cache.<name>.prefix.disk")
RERANKER = Reason("a reranker is a model of kind rerank, with its own checkpoint's settings")
LONG_INPUT = Reason("an input that is too long is refused, never cut silently")
TREE = Reason("this method of speculation is not offered; see M.speculative")
SUFFIX_TUNING = Reason("how a suffix is searched is no setting; see M.speculative.depth")

_SERVER = (
    rows("model", Part("M.source", "model")),
    rows("--served-model-name", Part("M.source", "name")),
    rows("--host", Part("server.listen", "host")),
    rows("--port", Part("server.listen", "port")),
    rows("--listen-fd", Part("server.listen", "fd")),
    rows("--log-level", Key("observability.log.level", v.log_level)),
    rows("--log-file", why.LOG_FILE),
    rows("--cua-only --enable-local-search", OTHER_SERVICE, "none"),
    rows("--local-search-dir", OTHER_SERVICE),
    rows("--yes -y", Reason("nothing is asked"), "none"),
    rows("--force-disk-check --request --no-preflight", why.CHECKS, "none"),
    rows("--api-key", Part("security.keys", "api-key"), secret=True),
    rows(
        "--allow-unauthenticated-public",
        Reason("consent is given when starting: appliance up --insecure"),
        "none",
    ),
    rows("--cors-origins", Key("server.cors", v.several), "many"),
    rows("--trusted-hosts", Key("server.trusted_hosts", v.several), "many"),
    rows("--rate-limit", Key("security.keys.default.limits.requests", v.per_minute)),
    rows("--max-request-bytes", Key("server.max_body", v.byte_count)),
    rows("--timeout", Key("server.request_timeout", v.seconds_or_omit)),
    rows("--mcp-config", why.TOOL_SERVERS),
    rows("--disable-model-downloads", Key("storage.offline", v.always(True)), "none"),
    rows("--watchdog-ppid", Reason("engines end with the server; what ends the server is its supervisor's matter")),
    rows("--gc-control --no-gc-control", why.INTERNAL, "none"),
)

_CAPACITY = (
    rows("--max-num-seqs", Key("M.concurrency", v.whole)),
    rows("--max-concurrent-requests", Key("memory.queue.max", v.whole)),
    rows("--prefill-batch-size --completion-batch-size --prefill-step-size", why.AUTOMATIC),
    rows("--chunked-prefill-tokens --metal-cap-kv-bytes-per-token", why.AUTOMATIC),
    rows(
        "--scheduling-policy --scheduling-max-deferrals",
        Reason("requests are served in order of arrival and priority"),
    ),
    rows("--shared-prefix-wait-tokens", why.ALWAYS),
    rows("--decode-stall-target-ms", Key("engine.stall_target", v.milliseconds)),
    rows("--dsv41-lanes --tensorfold-lanes", ONE_MODEL),
    rows("--no-dsv41-lanes", ONE_MODEL, "none"),
    rows("--gpu-memory-utilization", Key("memory.budget", v.share)),
    rows("--resident-memory-limit-gb", Key("memory.budget", v.size("GiB"))),
    rows("--resident-model-idle-ttl", Key("defaults.idle_unload", v.seconds_or_never)),
    rows("--lazy-load", Key("M.load", v.always("lazy")), "none"),
    rows("--idle-unload-seconds", Key("M.idle_unload", v.seconds_or_never)),
    rows("--disk-stream", Reason("a model's weights are in memory while it is loaded"), "none"),
    rows("--disk-stream-cache-gb", Reason("a model's weights are in memory while it is loaded")),
    rows(
        "--max-prompt-tokens", Reason("a prompt and its answer share M.context; there is no bound on prompts alone")
    ),
    rows("--context-length", Key("M.context", v.tokens)),
    rows("--continuous-batching", why.ALWAYS, "none"),
    rows("--simple-engine", Reason("there is one engine, and it batches"), "none"),
    rows("--stream-interval", why.STREAM),
)

_CACHE = (
    rows("--enable-prefix-cache", Key("M.cache", v.always("chat")), "none"),
    rows("--disable-prefix-cache", Key("M.cache", v.always("none")), "none"),
    rows("--prefix-cache-size --hybrid-cache-entries", why.ENTRIES),
    rows("--cache-memory-mb", Key("cache.chat.prefix.memory", v.size("MiB"))),
    rows("--cache-memory-percent", Key("cache.chat.prefix.memory", v.share)),
    rows("--idle-cache-clear-seconds", Key("cache.chat.prefix.ttl", v.seconds_or_omit)),
    rows("--no-memory-aware-cache", why.ENTRIES, "none"),
    rows("--prefix-cache-index", Reason("the index is a radix tree; there is no other")),
    rows("--response-cache-entries", why.RESPONSES),
    rows("--disable-disk-caches", Reason("no cache is on disk unless cache.<name>.prefix.disk says so"), "none"),
    rows("--kv-disk-checkpoint-interval", WRITE_ONLY),
    rows(
        "--pin-system-prompt", Reason("prefixes in use stay; prompts worth computing at load go into M.warm"), "none"
    ),
    rows("--kv-cache-dtype", Key("M.kv.bits", v.kv_bits)),
    rows("--reasoning", Key("M.kv.bits", v.always(8)), "none"),
    rows("--kv-cache-quantization", Key("M.kv.bits", v.always(8)), "none"),
    rows("--kv-cache-quantization-bits --kv-bits", Key("M.kv.bits", v.whole)),
    rows("--kv-cache-quantization-group-size --kv-group-size", Key("M.kv.group", v.whole)),
    rows("--kv-cache-min-quantize-tokens", Key("M.kv.from_token", v.whole)),
    rows("--kv-cache-turboquant", TURBOQUANT, "maybe"),
    rows("--kv-cache-turboquant-bits --kv-cache-turboquant-group-size", TURBOQUANT),
    rows("--use-paged-cache", why.PAGED, "none"),
    rows("--paged-cache-block-size --max-cache-blocks", why.PAGED),
)

_SPECULATION = (
    rows("--speculative-config", Key("M.speculative", v.speculative)),
    rows("--spec-decode", Key("M.speculative.kind", v.speculative_kind)),
    rows("--enable-mtp", Key("M.speculative.kind", v.always("mtp")), "none"),
    rows("--mtp-num-draft-tokens --mtp-max-k", Key("M.speculative.depth", v.whole)),
    rows("--mtp-optimistic", Reason("it lets wrong tokens through; speculation here is exact"), "none"),
    rows("--mtp-sidecar", Key("M.speculative.kind", v.always("mtp"), why.DRAFT)),
    rows(
        "--mtp-disable-auto-k",
        Reason("M.speculative.depth is the most; fewer are proposed where they are refused"),
        "none",
    ),
    rows("--suffix-decoding", Key("M.speculative.kind", v.always("suffix")), "none"),
    rows("--suffix-max-draft", Key("M.speculative.depth", v.whole)),
    rows("--suffix-max-suffix-len --suffix-min-confidence --suffix-min-draft-len", SUFFIX_TUNING),
    rows("--draft-model", Key("M.speculative", v.drafted)),
    rows("--num-draft-tokens", Key("M.speculative.depth", v.whole)),
    rows("--enable-dflash --enable-ddtree", TREE, "none"),
    rows("--dflash-drafter-path", TREE),
    rows("--force-spec-decode --no-spec-decode", Reason("a model speculates where M.speculative says so"), "none"),
    rows("--specprefill", why.LOSSY, "none"),
    rows("--specprefill-threshold --specprefill-keep-pct --specprefill-draft-model", why.LOSSY),
    rows("--pflash --pflash-threshold --pflash-keep-ratio --pflash-min-keep-tokens --pflash-sink-tokens", why.LOSSY),
    rows("--pflash-tail-tokens --pflash-block-size --pflash-query-window --pflash-stride-blocks", why.LOSSY),
    rows("--pflash-threshold-basis", why.LOSSY),
    rows("--pflash-include-tools", why.LOSSY, "none"),
)

_REQUESTS = (
    rows("--max-tokens", Key("M.sampling.max_tokens", v.tokens)),
    rows("--default-temperature", Key("M.sampling.temperature", v.number)),
    rows("--default-top-p", Key("M.sampling.top_p", v.number)),
    rows("--default-top-k", Key("M.sampling.top_k", v.whole)),
    rows("--default-min-p", Key("M.sampling.min_p", v.number)),
    rows("--default-repetition-penalty", Key("M.sampling.repetition_penalty", v.number)),
    rows("--default-presence-penalty", Key("M.sampling.presence_penalty", v.number)),
    rows("--default-frequency-penalty", Key("M.sampling.frequency_penalty", v.number)),
    rows(
        "--default-reasoning-effort", Key("M.template.reasoning_effort", v.text, "only templates that know it obey")
    ),
    rows("--no-thinking --no-think", Key("M.template.enable_thinking", v.always(False)), "none"),
    rows("--enable-auto-tool-choice", why.SWITCH_OF_CHOICE, "none"),
    rows("--tool-call-parser", Key("M.dialects.tools", v.tool_dialect)),
    rows("--no-tool-call-parser", Key("M.dialects.tools", v.always("none")), "none"),
    rows("--enable-tool-logits-bias", Reason("a tool call's arguments are held to their schema instead"), "none"),
    rows("--reasoning-parser", Key("M.dialects.reasoning", v.reasoning_dialect)),
    rows("--no-reasoning-parser", Key("M.dialects.reasoning", v.always("none")), "none"),
    rows("--force-hybrid --no-hybrid", Reason("the checkpoint says what its layers are"), "none"),
    rows("--force-openai-harmony-streaming --no-openai-harmony-streaming", why.FAMILY, "none"),
    rows("--relocate-mid-conversation-system", why.FAMILY, "none"),
)

_OTHER_KINDS = (
    rows("--mllm", Key("M.kind", v.always("vision")), "none"),
    rows("--no-mllm --text-only", Key("M.kind", v.always("text")), "none"),
    rows("--mllm-singleton-fastpath --mllm-media-prefix-cache", why.INTERNAL),
    rows("--vision-prefill-token-budget --vision-min-pixels --vision-max-pixels", why.NO_MEDIA),
    rows("--image-weight-precision --video-output-dir", why.NO_MEDIA),
    rows("--enable-audio", why.NO_MEDIA, "none"),
    rows("--embedding-model", Part("M.kind", "embedding")),
    rows("--embedding-max-inputs", Reason("server.max_body bounds a request")),
    rows("--embedding-max-length", Reason("an embedding model's own context holds")),
    rows("--embedding-overflow-policy --rerank-overflow-policy", LONG_INPUT),
    rows("--rerank-model", Part("M.kind", "rerank")),
    rows("--rerank-model-family --rerank-instruction --rerank-prompt --rerank-max-length", RERANKER),
    rows("--rerank-max-documents", Reason("server.max_body bounds a request")),
)

FLAGS = table(*_SERVER, *_CAPACITY, *_CACHE, *_SPECULATION, *_REQUESTS, *_OTHER_KINDS)

TOOL = Tool(
    name="rapid-mlx",
    starts=(("rapid-mlx", "serve"),),
    table=FLAGS,
    port=8000,
    positional="model",
    notes=(
        Lost(
            "rapid-mlx's defaults",
            "answers there end after 32768 tokens where nobody says otherwise; here with the model or its context",
        ),
    ),
)
