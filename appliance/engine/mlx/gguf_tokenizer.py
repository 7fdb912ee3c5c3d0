"""How the vocabulary in a GGUF file becomes a fast tokenizer's files."""

from collections.abc import Mapping
from typing import Any

from appliance.errors import SourceError

_NORMAL, _UNKNOWN, _CONTROL, _USER, _UNUSED, _BYTE = 1, 2, 3, 4, 5, 6

_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)"
_LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)
_QWEN2 = _LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
_TEKKEN = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_UNNAMED = (r"[\p{P}\$\+<=>\^~\|]+", _GPT2, r"\p{N}+", r"[0-9][0-9][0-9]")

PRE_TOKENIZERS: Mapping[str, tuple[str, ...]] = {
    "smollm": (r"\p{N}", _GPT2),
    "starcoder": (r"\p{N}", _GPT2),
    "refact": (r"\p{N}", _GPT2),
    "gpt-2": (_GPT2,),
    "llama-bpe": (_LLAMA3,),
    "llama3": (_LLAMA3,),
    "tekken": (_TEKKEN,),
    "qwen2": (_QWEN2,),
    "default": _UNNAMED,
}
"""`tokenizer.ggml.pre` → the expressions that cut a text into words, each applied to the pieces of the one before."""

_BLANK = "\u2581"
_WHOLE_WORDS_FIRST = {"llama-bpe", "llama3", "tekken"}
_BEGINS_WITH_BOS = {"llama-bpe", "llama3", "tekken"}
# What ends a turn, whatever the file calls its end of sequence: chat models stop on these.
_TURN_ENDS = {
    "<|im_end|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end|>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<end_of_turn>",
}


def tokenizer_json(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The tokenizer.json. Raises SourceError naming a kind of tokenizer or pre-tokenizer we cannot rebuild."""
    kind = metadata.get("tokenizer.ggml.model")
    if kind not in _MODELS:
        raise SourceError(f"a tokenizer of kind `{kind}` in a GGUF file cannot be converted")
    tokens = metadata.get("tokenizer.ggml.tokens")
    if not tokens:
        raise SourceError("the GGUF file holds no vocabulary (tokenizer.ggml.tokens)")
    vocabulary = {token: id for id, token in enumerate(tokens)}
    if len(vocabulary) != len(tokens):
        raise SourceError("the GGUF file's vocabulary has a token twice; it is damaged")
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": _added(tokens, token_types(metadata)),
        **_MODELS[kind](metadata, vocabulary),
    }


def tokenizer_config(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The tokenizer_config.json: special tokens by role and the chat template, where the file has one."""
    tokens = metadata["tokenizer.ggml.tokens"]
    roles = {"bos": "bos", "eos": "eos", "unknown": "unk", "padding": "pad"}
    named = {
        f"{role}_token": tokens[id]
        for key, role in roles.items()
        if (id := metadata.get(f"tokenizer.ggml.{key}_token_id")) is not None and 0 <= id < len(tokens)
    }
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "clean_up_tokenization_spaces": False,
        "model_max_length": metadata.get("llama.context_length"),
        **named,
    }
    template = metadata.get("tokenizer.chat_template")
    return config if template is None else config | {"chat_template": template}


def generation_config(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The generation_config.json: every token that ends an answer."""
    named = (metadata.get(f"tokenizer.ggml.{key}_token_id") for key in ("eos", "eot", "eom"))
    ends: set[int] = {id for id in named if id is not None}
    types = token_types(metadata)
    ends |= {
        id
        for id, token in enumerate(metadata["tokenizer.ggml.tokens"])
        if types[id] in (_CONTROL, _USER) and token in _TURN_ENDS
    }
    config: dict[str, Any] = {"eos_token_id": sorted(ends)}
    bos = metadata.get("tokenizer.ggml.bos_token_id")
    return config if bos is None else config | {"bos_token_id": bos}


def token_types(metadata: Mapping[str, Any]) -> list[int]:
    tokens = metadata["tokenizer.ggml.tokens"]
    types: list[int] = metadata.get("tokenizer.ggml.token_type", [_NORMAL] * len(tokens))
    if len(types) != len(tokens):
        raise SourceError(f"the GGUF file has {len(tokens)} tokens but {len(types)} token types; it is damaged")
    return types


def _byte_level(metadata: Mapping[str, Any], vocabulary: dict[str, int]) -> dict[str, Any]:
    pre = metadata.get("tokenizer.ggml.pre", "default")
    if pre not in PRE_TOKENIZERS:
        raise SourceError(f"the pre-tokenizer `{pre}` of this GGUF file is unknown; its words would be cut wrongly")
    split = [
        {"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": False}
        for regex in PRE_TOKENIZERS[pre]
    ]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    return {
        "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [*split, byte_level]},
        "post_processor": _frame(metadata, pre in _BEGINS_WITH_BOS),
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": pre in _WHOLE_WORDS_FIRST,
            "vocab": vocabulary,
            "merges": [merge.split(" ", 1) for merge in metadata.get("tokenizer.ggml.merges", [])],
        },
    }


def _sentence_piece(metadata: Mapping[str, Any], vocabulary: dict[str, int]) -> dict[str, Any]:
    """A SentencePiece BPE: blanks are letters, what has no piece is spelt in bytes."""
    if metadata.get("tokenizer.ggml.remove_extra_whitespaces"):
        raise SourceError("a tokenizer that removes blanks (remove_extra_whitespaces) cannot be converted")
    prefix = metadata.get("tokenizer.ggml.add_space_prefix", True)
    tokens = metadata["tokenizer.ggml.tokens"]
    blanks = {"type": "Replace", "pattern": {"String": " "}, "content": _BLANK}
    unblank = {"type": "Replace", "pattern": {"String": _BLANK}, "content": " "}
    normalizers = [{"type": "Prepend", "prepend": _BLANK}, blanks] if prefix else [blanks]
    strip = [{"type": "Strip", "content": " ", "start": 1, "stop": 0}] if prefix else []
    return {
        "normalizer": {"type": "Sequence", "normalizers": normalizers},
        "pre_tokenizer": None,
        "post_processor": _frame(metadata, bos_by_default=True),
        "decoder": {"type": "Sequence", "decoders": [unblank, {"type": "ByteFallback"}, {"type": "Fuse"}, *strip]},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": tokens[metadata.get("tokenizer.ggml.unknown_token_id", 0)],
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": True,
            "byte_fallback": True,
            "ignore_merges": False,
            "vocab": vocabulary,
            "merges": _merges(metadata, vocabulary),
        },
    }


def _merges(metadata: Mapping[str, Any], vocabulary: Mapping[str, int]) -> list[list[str]]:
    """SentencePiece merges the neighbours whose joint piece scores highest: all ways to make each piece, by score."""
    scores = metadata.get("tokenizer.ggml.scores")
    if scores is None or len(scores) != len(vocabulary):
        raise SourceError("the GGUF file has no score for each token (tokenizer.ggml.scores)")
    mergeable = {token for token, kind in zip(vocabulary, token_types(metadata), strict=True) if kind == _NORMAL}
    ways = [
        (-scores[vocabulary[piece]], vocabulary[piece[:cut]], vocabulary[piece[cut:]], piece[:cut], piece[cut:])
        for piece in mergeable
        for cut in range(1, len(piece))
        if piece[:cut] in mergeable and piece[cut:] in mergeable
    ]
    return [[left, right] for *_, left, right in sorted(ways)]


_MODELS = {"gpt2": _byte_level, "llama": _sentence_piece}


def _frame(metadata: Mapping[str, Any], bos_by_default: bool) -> dict[str, Any] | None:
    """What is put around a text: the begin and end tokens the file asks for."""
    tokens = metadata["tokenizer.ggml.tokens"]
    begin = metadata.get("tokenizer.ggml.add_bos_token", bos_by_default) and metadata.get(
        "tokenizer.ggml.bos_token_id"
    )
    end = metadata.get("tokenizer.ggml.add_eos_token", False) and metadata.get("tokenizer.ggml.eos_token_id")
    around = [id if isinstance(id, int) and not isinstance(id, bool) else None for id in (begin, end)]
    if around == [None, None]:
        return None
    special = {tokens[id]: {"id": tokens[id], "ids": [id], "tokens": [tokens[id]]} for id in around if id is not None}

    def template(*sequences: str) -> list[dict[str, Any]]:
        pieces: list[dict[str, Any]] = []
        for type_id, sequence in enumerate(sequences):
            first, last = ([{"SpecialToken": {"id": tokens[id], "type_id": type_id}}] if id is not None else []
                           for id in around)  # fmt: skip
            pieces += [*first, {"Sequence": {"id": sequence, "type_id": type_id}}, *last]
        return pieces

    return {
        "type": "TemplateProcessing", "single": template("A"), "pair": template("A", "B"), "special_tokens": special,
    }  # fmt: skip


def _added(tokens: list[str], types: list[int]) -> list[dict[str, Any]]:
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    return [
        {"id": id, "content": token, **flags, "special": kind != _USER}
        for id, (token, kind) in enumerate(zip(tokens, types, strict=True))
        if kind in (_CONTROL, _USER, _UNKNOWN)
    ]
