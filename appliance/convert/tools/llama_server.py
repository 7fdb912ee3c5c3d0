"""`llama-server`, as llama-swap's commands start it: its usual flags and our keys."""

from appliance.convert import values as v
from appliance.convert.command import Tool
from appliance.convert.target import OMIT, Key, Part, Reason, rows, table
from appliance.convert.tools import reasons as why

HARDWARE = Reason("about placing layers and threads; MLX uses the one device there is")
SAMPLERS = Reason("this sampler is not offered")

FLAGS = table(
    rows("-m --model", Part("M.source", "model")),
    rows("-hf -hfr --hf-repo", Part("M.source", "repository")),
    rows("-a --alias", Part("M.source", "name")),
    rows("--host", Part("server.listen", "host")),
    rows("--port", Part("server.listen", "port")),
    rows("--api-key", Part("security.keys", "api-key"), secret=True),
    rows("-c --ctx-size", Key("M.context", v.tokens_or_omit)),
    rows("-np --parallel", Key("M.concurrency", v.positive(v.whole))),
    rows("-n --predict --n-predict", Key("M.sampling.max_tokens", v.tokens_or_omit)),
    rows("--temp --temperature", Key("M.sampling.temperature", v.number)),
    rows("--top-k", Key("M.sampling.top_k", v.whole)),
    rows("--top-p", Key("M.sampling.top_p", v.number)),
    rows("--min-p", Key("M.sampling.min_p", v.number)),
    rows("-s --seed", Key("M.sampling.seed", lambda given: v.whole(given) if v.whole(given) >= 0 else OMIT)),
    rows("--repeat-penalty", Key("M.sampling.repetition_penalty", v.number)),
    rows("--presence-penalty", Key("M.sampling.presence_penalty", v.number)),
    rows("--frequency-penalty", Key("M.sampling.frequency_penalty", v.number)),
    rows(
        "--xtc-probability --xtc-threshold --dry-multiplier --dry-base --dry-allowed-length",
        why.ASKED_FOR,
    ),
    rows("--repeat-last-n --samplers --mirostat --mirostat-lr --mirostat-ent --typical --dynatemp-range", SAMPLERS),
    rows("--chat-template-file", Key("M.template.file", v.text)),
    rows("--chat-template-kwargs", Key("M.template", v.json_object)),
    rows("--chat-template", why.FAMILY),
    rows("--jinja --no-jinja", why.ALWAYS, "none"),
    rows("--reasoning-format", why.FAMILY),
    rows("--reasoning-budget", Key("M.sampling.reasoning_budget", v.unless_negative)),
    rows("-ctk --cache-type-k -ctv --cache-type-v", Key("M.kv.bits", v.kv_bits)),
    rows(
        "--cache-reuse --cache-ram", Reason("prefixes are kept by the cache policy, see cache.<name>.prefix.memory")
    ),
    rows("--lora", Key("M.adapters.default", v.text, why.ADAPTER)),
    rows("-md --model-draft -hfd --hf-repo-draft", Key("M.speculative", v.drafted)),
    rows("--draft --draft-n --draft-max", Key("M.speculative.depth", v.whole)),
    rows("--draft-min --draft-p-min -ngld --gpu-layers-draft", why.AUTOMATIC),
    rows("--embedding --embeddings", Key("M.kind", v.always("embedding")), "none"),
    rows("--rerank --reranking", Key("M.kind", v.always("rerank")), "none"),
    rows("-mm --mmproj", Key("M.kind", v.always("vision"), "images need a checkpoint that brings its own encoder")),
    rows("--pooling", Reason("an embedding model's checkpoint says how it is pooled")),
    rows(
        "-ngl --gpu-layers --n-gpu-layers -t --threads -tb --threads-batch -ts --tensor-split -sm --split-mode",
        HARDWARE,
    ),
    rows("-mg --main-gpu -dev --device -ncmoe --n-cpu-moe -ot --override-tensor --numa --prio --poll", HARDWARE),
    rows("-b --batch-size -ub --ubatch-size", why.AUTOMATIC),
    rows("-fa --flash-attn", why.ALWAYS, "maybe"),
    rows("-cb --cont-batching -nocb --no-cont-batching", why.ALWAYS, "none"),
    rows(
        "--mlock --no-mmap --no-warmup --no-kv-offload -cmoe --cpu-moe --swa-full --no-context-shift",
        HARDWARE,
        "none",
    ),
    rows(
        "--rope-scaling --rope-scale --rope-freq-base --yarn-orig-ctx",
        Reason("the checkpoint's configuration says it"),
    ),
    rows("--metrics", Key("observability.metrics.path", v.always("/metrics")), "none"),
    rows(
        "--slots --no-slots --no-webui --props --verbose --log-disable",
        Reason("this server has its own pages and log"),
        "none",
    ),
    rows("-to --timeout", Key("server.request_timeout", v.seconds_or_omit)),
)

TOOL = Tool(
    name="llama-server",
    starts=(("llama-server",),),
    table=FLAGS,
    port=8080,
)
