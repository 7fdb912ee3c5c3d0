"""`max serve`: its options and our keys."""

from appliance.convert import values as v
from appliance.convert.command import Tool
from appliance.convert.target import Key, Part, Reason, rows, table
from appliance.convert.tools import reasons as why

COMPILER = Reason("about a graph compiler; MLX has none to set up")
NO_PAGES = Reason("the KV store has no pages; `cache.<name>.prefix.memory` bounds it in bytes")
WHOLE_REPOSITORY = Reason("a source is one repository or one directory, taken whole")
ONE_REVISION = "weights and configuration come from one revision"
DRAFT_SETTINGS = Reason("a model that makes proposals has no settings of its own")
HASHES = Reason("prefixes are compared token by token, not by hashes")
REQUESTS = Reason("no switch: a request that wants it gets it")
KINDS = {
    "text_generation": "text", "text-generation": "text",
    "embeddings_generation": "embedding", "embeddings-generation": "embedding",
}  # fmt: skip
DIFFUSION = Reason("images are not generated here")

_SERVER = (
    rows("--model --model-path", Part("M.source", "model")),
    rows("--served-model-name", Part("M.source", "name")),
    rows("--host", Part("server.listen", "host")),
    rows("--port", Part("server.listen", "port")),
    rows("--headless", why.NO_CLUSTER, "maybe"),
    rows("--log-prefix", Reason("log lines have fields instead of a prefix"), "maybe"),
    rows("--config-file --section-name", Reason("the deploy file is the configuration"), "maybe"),
    rows("--pretty-print-config", Reason("a command: appliance config --resolved"), "maybe"),
    rows("--force", Reason("a check that fails is answered by a setting, not by skipping it"), "maybe"),
    rows("--models --model-override", Reason("models are entries under `models`, each with its settings"), "maybe"),
    rows("--custom-architectures", Reason("a model's code comes with its checkpoint"), "maybe"),
    rows("--trust-remote-code", Key("M.trust_remote_code", v.always(True)), "maybe"),
    rows("--task", Key("M.kind", v.kind(KINDS)), "maybe"),
    rows("--task-arg", Reason("a kind of model has no further arguments"), "maybe"),
    rows("--allow-extra-request-fields", Key("server.unknown_fields", v.always("warn")), "maybe"),
    rows("--allow-unsupported-logprobs", Reason("log-probabilities are always available"), "maybe"),
    rows("--emit-reasoning-content", why.FAMILY, "maybe"),
    rows("--eager-usage-validator", why.INTERNAL, "maybe"),
    rows("--gpu-profiling", Reason("profiling is no setting of a deployment"), "maybe"),
    rows("--cascade --cascade-local-cpu-workers --cascade-local-gpu-workers --cascade-remote-cpu-workers"
         " --cascade-remote-gpu-workers --cascade-transport", why.NO_CLUSTER, "maybe"),
)  # fmt: skip

_WEIGHTS = (
    rows("--huggingface-model-revision", Key("M.revision", v.text), "maybe"),
    rows("--huggingface-weight-revision", Key("M.revision", v.text, ONE_REVISION), "maybe"),
    rows("--weight-path --subfolder", WHOLE_REPOSITORY, "maybe"),
    rows("--force-download", Reason("a command fetches: appliance pull"), "maybe"),
    rows("--quantization-encoding", Reason("weights are used as they are stored; see M.quantize"), "maybe"),
    rows("--rope-type --sliding-window", Reason("the checkpoint's configuration says it"), "maybe"),
    rows("--vision-config-overrides", why.NO_MEDIA, "maybe"),
    rows("--max-length", Key("M.context", v.tokens), "maybe"),
    rows("--chat-template", Key("M.template.file", v.text), "maybe"),
    rows("--enable-echo --enable-variable-logits", REQUESTS, "maybe"),
    rows("--pool-embeddings", Reason("an embedding model's checkpoint says how it is pooled"), "maybe"),
    rows("--prefer-module-v3 --use-subgraphs --precompiled-mefs --export-mefs --allow-cold-interpreter-cache"
         " --device-graph-capture --debug-verify-replay --experimental-device-graph-synthesis", COMPILER, "maybe"),
    rows("--use-experimental-kernels --use-vendor-blas --use-vendor-ccl", why.NO_CUDA, "maybe"),
)  # fmt: skip

_MACHINE = (
    rows("--devices", why.NO_CUDA, "maybe"),
    rows("--device-memory-utilization", Key("memory.budget", v.share), "maybe"),
    rows("--data-parallel-degree --dp-ce-balance-timeout-ms --dp-ce-balance-threshold"
         " --dp-ce-balance-enable-dynamic-chunk-size --enable-dp-cross-replica-prefix-copy --execute-empty-batches"
         " --ep-size --ep-use-allreduce --ep-fuse-ffn-combine-send --eplb-profile --eplb-replicas-per-gpu"
         " --eplb-stats --pipeline-role", why.NO_CLUSTER, "maybe"),
    rows("--decode-request-ttl-s", Key("server.request_timeout", v.seconds_or_omit), "maybe"),
    rows("--decode-stall-timeout-s", Key("server.idle_timeout", v.seconds_or_omit), "maybe"),
    rows("--sample-on-host --state-pool-dtype", why.INTERNAL, "maybe"),
)  # fmt: skip

_CACHE = (
    rows("--kv-cache-page-size", NO_PAGES, "maybe"),
    rows("--kv-cache-format", Key("M.kv.bits", v.kv_bits), "maybe"),
    rows("--indexer-kv-cache-format", why.INTERNAL, "maybe"),
    rows("--enable-prefix-caching", Key("M.cache", lambda given: "none" if given in (False, "false") else "chat"),
         "maybe"),
    rows("--kv-cache-hash-algo --kv-cache-hash-seed", HASHES, "maybe"),
    rows("--kv-connector-config", Reason("write the disk tier yourself: cache.<name>.prefix.disk"), "maybe"),
    rows("--vision-cache-utilization --max-vision-preprocess-cache-bytes --max-video-preprocess-cache-bytes"
         " --max-media-preprocess-cache-idle-seconds", why.NO_MEDIA, "maybe"),
)  # fmt: skip

_SCHEDULING = (
    rows("--max-batch-size", Key("M.concurrency", v.whole), "maybe"),
    rows("--max-batch-input-tokens --chunked-prefill-min-chunk-size --max-request-input-tokens"
         " --max-batch-total-tokens --prefill-schedule-interval --prefill-coalesce-min-pending"
         " --prefill-coalesce-max-held-steps --ce-delay-ms --enable-prioritize-first-decode --min-batch-size-tg"
         " --max-queue-size-tg", why.AUTOMATIC, "maybe"),
    rows("--enable-chunked-prefill --enable-in-flight-batching --enable-overlap-scheduler", why.ALWAYS, "maybe"),
    rows("--max-queue-size", Key("memory.queue.max", v.positive(v.whole)), "maybe"),
    rows("--max-pending-requests", Reason("one queue holds all that wait: memory.queue.max"), "maybe"),
    rows("--enable-lora", Reason("adapters are there where M.adapters names some"), "maybe"),
    rows("--lora-paths", Key("M.adapters", lambda given: _adapters(v.several(given))), "many"),
    rows("--max-num-loras --max-lora-rank", Reason("an adapter's file says its size"), "maybe"),
)  # fmt: skip

_REQUESTS = (
    rows("--temperature", Key("M.sampling.temperature", v.number), "maybe"),
    rows("--top-k", Key("M.sampling.top_k", v.whole), "maybe"),
    rows("--thinking-temperature", Reason("one temperature holds for a whole answer"), "maybe"),
    rows("--enable-penalties --enable-min-tokens --enable-structured-output", REQUESTS, "maybe"),
    rows("--reasoning-parser", Key("M.dialects.reasoning", v.reasoning_dialect), "maybe"),
    rows("--tool-parser", Key("M.dialects.tools", v.tool_dialect), "maybe"),
    rows("--structured-output-backend --structured-output-any-whitespace", why.INTERNAL, "maybe"),
    rows("--enable-tool-call-constrained-decode", why.ALWAYS, "maybe"),
)

_SPECULATION = (
    rows("--speculative-method", Key("M.speculative.kind", v.speculative_kind), "maybe"),
    rows("--num-speculative-tokens", Key("M.speculative.depth", v.positive(v.whole)), "maybe"),
    rows("--num-speculative-tokens-per-batch-size --num-speculative-tokens-mixed-batch",
         Reason("M.speculative.max_batch says up to how many rows speculate, all with one depth"), "maybe"),
    rows("--enable-spec-decode-mixed-batches", why.AUTOMATIC, "maybe"),
    rows("--draft-proposal --rejection-sampling-strategy --use-greedy-acceptance", why.EXACT, "maybe"),
    rows("--use-relaxed-acceptance-for-thinking --relaxed-topk --relaxed-delta", why.LOSSY, "maybe"),
    rows("--synthetic-acceptance-rate", Reason("for measurements only"), "maybe"),
    rows("--draft-model-path", Key("M.speculative", v.drafted), "maybe"),
    rows("--draft-huggingface-model-revision --draft-huggingface-weight-revision --draft-weight-path"
         " --draft-subfolder --draft-force-download --draft-trust-remote-code --draft-quantization-encoding"
         " --draft-rope-type --draft-sliding-window --draft-max-length --draft-chat-template"
         " --draft-served-model-name --draft-vision-config-overrides --draft-enable-echo --draft-pool-embeddings"
         " --draft-devices --draft-data-parallel-degree --draft-use-subgraphs --draft-config-file"
         " --draft-section-name", DRAFT_SETTINGS, "maybe"),
    rows("--first-block-caching --taylorseer --taylorseer-cache-interval --taylorseer-max-order"
         " --taylorseer-warmup-steps", DIFFUSION, "maybe"),
)  # fmt: skip


def _adapters(given: list[str]) -> dict[str, str]:
    """`name=path` words; a path alone is named by its last part."""
    named = (word.partition("=") for word in given)
    return {(name.rstrip("/").rpartition("/")[2] if not eq else name): path or name for name, eq, path in named}


FLAGS = table(*_SERVER, *_WEIGHTS, *_MACHINE, *_CACHE, *_SCHEDULING, *_REQUESTS, *_SPECULATION)

TOOL = Tool(name="max", starts=(("max", "serve"),), table=FLAGS, port=8000, host="0.0.0.0")
