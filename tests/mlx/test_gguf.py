"""GGUF files become model directories that compute what the file says."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
import sentencepiece
from mlx_lm import generate, load
from mlx_lm.utils import dequantize_model
from tokenizers import Tokenizer, decoders, pre_tokenizers

import tests.gguf_file
from appliance.engine.mlx import gguf_tokenizer
from appliance.engine.mlx.gguf import convert
from appliance.engine.mlx.gguf_blocks import FORMATS
from appliance.engine.mlx.gguf_tokenizer import PRE_TOKENIZERS, tokenizer_json
from appliance.errors import SourceError
from tests.checkpoints import byte_level_tokenizer, tiny_config, tiny_vocab_llama, tiny_weights, write_model
from tests.gguf_file import ENCODE, llama_metadata, write_gguf, write_llama

TEXTS = [
    pytest.param("Hello world, the land of nothing", id="words"),
    pytest.param("in 2026 there were 1234567 of them, 3.14", id="digits"),
    pytest.param("it's  we'll   I'VE\n\n\tdone \n", id="contractions and blanks"),
    pytest.param("Zürich, naïve, 北京, Привет", id="letters of many scripts"),
    pytest.param("👍🏽 👨‍👩‍👧 🇨🇭", id="emoji"),
    pytest.param("½ ² Ⅷ ٣", id="numbers that are no digits"),
    pytest.param("<|im_start|>user\nhi<|im_end|>\n", id="special tokens"),
    pytest.param("x=<|im_sta", id="half a special token"),
    pytest.param("", id="nothing"),
]


@pytest.mark.parametrize(
    ("kind", "embeddings", "hidden", "tied"),
    [
        pytest.param("F32", None, 64, True, id="F32"),
        pytest.param("F32", None, 64, False, id="F32 with a head of its own"),
        pytest.param("F16", None, 64, True, id="F16"),
        pytest.param("BF16", None, 64, True, id="BF16"),
        pytest.param("Q8_0", None, 64, True, id="Q8_0"),
        pytest.param("Q4_0", None, 64, True, id="Q4_0"),
        pytest.param("Q4_1", "Q8_0", 64, True, id="Q4_1 with 8-bit embeddings"),
        pytest.param("Q5_0", None, 64, True, id="Q5_0"),
        pytest.param("Q5_1", None, 64, True, id="Q5_1"),
        pytest.param("Q4_0", "Q6_K", 256, False, id="Q4_0 with Q6_K ends"),
        pytest.param("Q5_K", "Q6_K", 256, True, id="Q5_K with Q6_K embeddings"),
        pytest.param("Q4_K", "Q6_K", 256, True, id="Q4_K with Q6_K embeddings"),
    ],
)
def test_the_converted_model_computes_what_the_file_holds(
    kind: str, embeddings: str | None, hidden: int, tied: bool, tmp_path: Path
) -> None:
    config = tiny_config(300, hidden=hidden, tied=tied)
    metadata = llama_metadata(config, byte_level_tokenizer())
    weights = tiny_weights(300, hidden=hidden, tied=tied)
    held = write_llama(tmp_path / "m.gguf", metadata, weights, kind, embeddings=embeddings)
    convert(tmp_path / "m.gguf", tmp_path / "converted")
    tiny_vocab_llama(tmp_path / "source")
    write_model(tmp_path / "source", config, held)
    # The scales of K types are rounded to half precision, and Q6_K is requantized.
    tolerance = 0.1 if "K" in f"{kind}{embeddings}" else 2e-5
    assert np.abs(_logits(tmp_path / "converted") - _logits(tmp_path / "source")).max() <= tolerance


@pytest.mark.parametrize(
    ("kind", "bits", "tolerance"),
    [
        pytest.param("Q4_0", 4, 1e-7, id="Q4_0"),
        pytest.param("Q4_1", 4, 1e-7, id="Q4_1"),
        pytest.param("Q5_0", 5, 1e-7, id="Q5_0"),
        pytest.param("Q5_1", 5, 1e-7, id="Q5_1"),
        pytest.param("Q8_0", 8, 1e-7, id="Q8_0"),
        pytest.param("Q4_K", 4, 2e-3, id="Q4_K"),
        pytest.param("Q5_K", 5, 2e-3, id="Q5_K"),
        pytest.param("Q6_K", 8, 2e-3, id="Q6_K"),
    ],
)
def test_quantized_weights_keep_their_values(kind: str, bits: int, tolerance: float) -> None:
    values = np.random.default_rng(1).standard_normal((8, 512)).astype(np.float32)
    number, encode = ENCODE[kind]
    raw, held = encode(values)
    form = FORMATS[number]
    blocks = np.frombuffer(raw, np.uint8).reshape(-1, form.size)
    parts = {
        name: a if a.dtype == mx.uint32 else a.astype(mx.float32) for name, a in form.decode(blocks, 512).items()
    }
    decoded = np.array(mx.dequantize(parts["weight"], parts["scales"], parts["biases"], group_size=32, bits=bits))
    assert np.abs(decoded - held).max() <= tolerance * (held.max() - held.min())


def test_an_unquantized_file_keeps_its_bits(tmp_path: Path) -> None:
    weights = tiny_weights(300)
    write_llama(tmp_path / "m.gguf", llama_metadata(tiny_config(300), byte_level_tokenizer()), weights, "F32")
    convert(tmp_path / "m.gguf", tmp_path / "converted")
    converted = mx.load(str(tmp_path / "converted" / "model.safetensors"))
    assert isinstance(converted, dict)
    assert {name: np.array(array).tobytes() for name, array in converted.items()} == {
        name: array.tobytes() for name, array in weights.items()
    }


def test_mixed_bits_are_said_per_tensor(tmp_path: Path) -> None:
    metadata = llama_metadata(tiny_config(300), byte_level_tokenizer())
    write_llama(tmp_path / "m.gguf", metadata, tiny_weights(300), "Q4_0", embeddings="Q8_0")
    convert(tmp_path / "m.gguf", tmp_path / "converted")
    assert _json(tmp_path / "converted" / "config.json")["quantization"] == {
        "group_size": 32,
        "bits": 4,
        "model.embed_tokens": {"group_size": 32, "bits": 8},
    }


@pytest.mark.parametrize("text", TEXTS)
def test_the_tokenizer_gives_the_ids_of_the_original(text: str) -> None:
    original = byte_level_tokenizer()
    metadata = llama_metadata(tiny_config(300), original)
    converted = Tokenizer.from_str(json.dumps(tokenizer_json(metadata)))
    expected = Tokenizer.from_str(json.dumps(original)).encode(text).ids
    assert converted.encode(text).ids == expected
    assert converted.decode(expected, skip_special_tokens=False) == text


@pytest.mark.model
@pytest.mark.parametrize("text", TEXTS)
def test_the_real_tokenizer_cuts_as_its_makers_did(text: str, smollm2: Path) -> None:
    converted = Tokenizer.from_file(str(smollm2 / "tokenizer.json"))
    original = Tokenizer.from_file(str(smollm2 / "tokenizer.json"))
    original.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    original.decoder = decoders.ByteLevel()
    ids = original.encode(text).ids
    assert converted.encode(text).ids == ids
    assert converted.decode(ids, skip_special_tokens=False) == text


@pytest.fixture(scope="module")
def pieces(tmp_path_factory: pytest.TempPathFactory) -> sentencepiece.SentencePieceProcessor:
    """A small SentencePiece model with the settings of the Llama ones."""
    place = tmp_path_factory.mktemp("pieces")
    (place / "text").write_text((Path(gguf_tokenizer.__file__).read_text() + "Über 북경 aaa aaaa baab 👍 ") * 3)
    sentencepiece.SentencePieceTrainer.train(
        input=str(place / "text"), model_prefix=str(place / "m"), model_type="bpe", vocab_size=600,
        byte_fallback=True, split_digits=True, normalization_rule_name="identity", remove_extra_whitespaces=False,
        allow_whitespace_only_pieces=True, character_coverage=0.995, user_defined_symbols=["<|im_end|>"],
        minloglevel=2,
    )  # fmt: skip
    return sentencepiece.SentencePieceProcessor(model_file=str(place / "m.model"))


def _sentence_piece_metadata(pieces: sentencepiece.SentencePieceProcessor) -> dict[str, Any]:
    ids = range(pieces.get_piece_size())
    kinds = {"is_unknown": 2, "is_control": 3, "is_byte": 6}
    return {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": [pieces.id_to_piece(id) for id in ids],
        "tokenizer.ggml.scores": [pieces.get_score(id) for id in ids],
        "tokenizer.ggml.token_type": [
            4
            if pieces.id_to_piece(id) == "<|im_end|>"
            else next((n for name, n in kinds.items() if getattr(pieces, name)(id)), 1)
            for id in ids
        ],
        "tokenizer.ggml.bos_token_id": pieces.bos_id(),
        "tokenizer.ggml.eos_token_id": pieces.eos_id(),
        "tokenizer.ggml.unknown_token_id": pieces.unk_id(),
        "tokenizer.ggml.add_bos_token": False,
    }


@pytest.mark.parametrize(
    "text",
    [
        *[row for row in TEXTS if row.id != "special tokens"],
        pytest.param("  def tokens(self) ->   None:\n\treturn  12345 ", id="code"),
        pytest.param("aaaaaaa aaa baabaab", id="ambiguous merges"),
        pytest.param(Path(tests.gguf_file.__file__).read_text(), id="a long text"),
    ],
)
def test_a_sentence_piece_tokenizer_gives_the_ids_of_the_original(
    text: str, pieces: sentencepiece.SentencePieceProcessor
) -> None:
    converted = Tokenizer.from_str(json.dumps(tokenizer_json(_sentence_piece_metadata(pieces))))
    ids = pieces.encode(text)
    assert converted.encode(text).ids == ids
    assert converted.decode(ids, skip_special_tokens=False) == text


def test_each_text_between_special_tokens_is_encoded_on_its_own(
    pieces: sentencepiece.SentencePieceProcessor,
) -> None:
    converted = Tokenizer.from_str(json.dumps(tokenizer_json(_sentence_piece_metadata(pieces))))
    special = pieces.piece_to_id("<|im_end|>")
    assert converted.encode("self<|im_end|>for").ids == [*pieces.encode("self"), special, *pieces.encode("for")]


def test_a_sentence_piece_tokenizer_begins_with_bos_unless_told_otherwise(
    pieces: sentencepiece.SentencePieceProcessor,
) -> None:
    metadata = _sentence_piece_metadata(pieces)
    del metadata["tokenizer.ggml.add_bos_token"]
    converted = Tokenizer.from_str(json.dumps(tokenizer_json(metadata)))
    assert converted.encode("self").ids == [pieces.bos_id(), *pieces.encode("self")]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        pytest.param({"tokenizer.ggml.scores": None}, "no score for each token", id="no scores"),
        pytest.param({"tokenizer.ggml.remove_extra_whitespaces": True}, "removes blanks", id="removes blanks"),
        pytest.param({"tokenizer.ggml.tokens": ["a", "a"]}, "a token twice", id="a token twice"),
    ],
)
def test_a_sentence_piece_tokenizer_we_cannot_rebuild_is_refused(
    change: dict[str, Any], words: str, pieces: sentencepiece.SentencePieceProcessor
) -> None:
    with pytest.raises(SourceError, match=words):
        tokenizer_json(_sentence_piece_metadata(pieces) | change)


@pytest.mark.parametrize(
    ("pre", "text", "words"),
    [
        pytest.param("smollm", "in 2026", ["in", "Ġ", "2", "0", "2", "6"], id="smollm"),
        pytest.param("gpt-2", "in 2026", ["in", "Ġ2026"], id="gpt-2"),
        pytest.param("llama-bpe", "in 2026!", ["in", "Ġ", "202", "6", "!"], id="llama-bpe"),
        pytest.param("qwen2", "in 20", ["in", "Ġ", "2", "0"], id="qwen2"),
        pytest.param("tekken", "someWords 20", ["some", "Words", "Ġ", "2", "0"], id="tekken"),
        pytest.param("default", "a$ 20", ["a", "$", "Ġ", "20"], id="default"),
    ],
)
def test_words_are_cut_as_the_pre_tokenizer_says(pre: str, text: str, words: list[str]) -> None:
    metadata = llama_metadata(tiny_config(300), byte_level_tokenizer(), pre)
    cutter = Tokenizer.from_str(json.dumps(tokenizer_json(metadata))).pre_tokenizer
    assert [word for word, _ in cutter.pre_tokenize_str(text)] == words


def test_every_pre_tokenizer_can_be_built() -> None:
    for pre in PRE_TOKENIZERS:
        metadata = llama_metadata(tiny_config(300), byte_level_tokenizer(), pre)
        assert Tokenizer.from_str(json.dumps(tokenizer_json(metadata))).encode("a 1").ids


@pytest.mark.parametrize(
    ("asked", "around"),
    [
        pytest.param({}, [], id="neither"),
        pytest.param({"tokenizer.ggml.add_bos_token": True}, [1], id="begin"),
        pytest.param({"tokenizer.ggml.add_bos_token": False, "tokenizer.ggml.pre": "llama-bpe"}, [], id="not begin"),
        pytest.param({"tokenizer.ggml.pre": "llama-bpe"}, [1], id="begin by the pre-tokenizer's habit"),
        pytest.param({"tokenizer.ggml.add_bos_token": True, "tokenizer.ggml.add_eos_token": True}, [1, 2], id="both"),
    ],
)
def test_the_file_says_what_stands_around_a_text(asked: dict[str, Any], around: list[int]) -> None:
    metadata = llama_metadata(tiny_config(300), byte_level_tokenizer()) | asked
    assert Tokenizer.from_str(json.dumps(tokenizer_json(metadata))).encode("").ids == around


@pytest.mark.parametrize(
    ("change", "words"),
    [
        pytest.param({"general.architecture": "qwen3"}, "`qwen3` architecture", id="another architecture"),
        pytest.param({"llama.expert_count": 8}, "mixture of experts", id="mixture of experts"),
        pytest.param({"split.count": 3}, "one part of several", id="one part of several"),
        pytest.param({"llama.rope.dimension_count": 8}, "only 8 of 16 dimensions", id="partial rotation"),
        pytest.param({"llama.rope.scaling.type": "yarn"}, "`yarn`", id="position scaling"),
        pytest.param({"tokenizer.ggml.pre": "bloom"}, "`bloom`", id="unknown pre-tokenizer"),
        pytest.param({"tokenizer.ggml.model": "bert"}, "`bert`", id="unknown tokenizer"),
        pytest.param({"tokenizer.ggml.tokens": None}, "no vocabulary", id="no vocabulary"),
        pytest.param({"tokenizer.ggml.token_type": [1]}, "300 tokens but 1", id="damaged vocabulary"),
        pytest.param({"llama.block_count": None}, "`llama.block_count` is missing", id="no layer count"),
        pytest.param({"llama.block_count": 3}, "lacks tensor blk.2.", id="missing layer"),
        pytest.param({"llama.block_count": 1}, "has tensor blk.1.", id="layer too many"),
        pytest.param({"llama.context_length": "long"}, "not a number", id="wrong type"),
    ],
)
def test_what_cannot_be_converted_is_refused_by_name(change: dict[str, Any], words: str, tmp_path: Path) -> None:
    metadata = llama_metadata(tiny_config(300), byte_level_tokenizer()) | change
    metadata = {key: value for key, value in metadata.items() if value is not None}
    write_llama(tmp_path / "m.gguf", metadata, tiny_weights(300), "F32")
    with pytest.raises(SourceError) as caught:
        convert(tmp_path / "m.gguf", tmp_path / "converted")
    assert words in caught.value.message
    assert [path.name for path in tmp_path.iterdir()] == ["m.gguf"]


def test_a_tensor_type_without_a_converter_is_refused_by_name(tmp_path: Path) -> None:
    metadata = llama_metadata(tiny_config(300), byte_level_tokenizer())
    write_llama(tmp_path / "m.gguf", metadata, tiny_weights(300), "Q3_K")
    with pytest.raises(SourceError, match="of type Q3_K"):
        convert(tmp_path / "m.gguf", tmp_path / "converted")


def test_a_file_cut_anywhere_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "m.gguf"
    write_llama(file, llama_metadata(tiny_config(300), byte_level_tokenizer()), tiny_weights(300), "F32")
    whole = file.read_bytes()
    for length in [0, 3, 4, 20, 24, *range(25, len(whole), len(whole) // 50), len(whole) - 128]:
        file.write_bytes(whole[:length])
        with pytest.raises(SourceError):
            convert(file, tmp_path / "converted")


def test_any_other_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "m.gguf").write_bytes(b"PK\x03\x04 not a model")
    with pytest.raises(SourceError, match="not a GGUF file"):
        convert(tmp_path / "m.gguf", tmp_path / "converted")


@pytest.mark.parametrize("factor", [8.0, 32.0])
def test_llama3_position_factors_are_recognised(factor: float, tmp_path: Path) -> None:
    config = tiny_config(300) | {"rope_theta": 500000.0}
    wavelengths = 2 * np.pi * 500000.0 ** (np.arange(0, 16, 2) / 16)
    smooth = np.clip((8192 / wavelengths - 1) / 3, 0, 1)
    factors = (1 / ((1 - smooth) / factor + smooth)).astype(np.float32)
    file = tmp_path / "m.gguf"
    _write_with(file, config, {"rope_freqs.weight": ("F32", factors)})
    convert(file, tmp_path / "converted")
    scaling = _json(tmp_path / "converted" / "config.json")["rope_scaling"]
    assert scaling["rope_type"] == "llama3"
    assert scaling["factor"] == factor
    load(str(tmp_path / "converted"))


def test_other_position_factors_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "m.gguf"
    _write_with(file, tiny_config(300), {"rope_freqs.weight": ("F32", np.linspace(1, 9, 8, dtype=np.float32))})
    with pytest.raises(SourceError, match="follow no rule"):
        convert(file, tmp_path / "converted")


def test_every_token_that_ends_a_turn_ends_an_answer(tmp_path: Path) -> None:
    metadata = llama_metadata(tiny_config(300), byte_level_tokenizer()) | {"tokenizer.ggml.eos_token_id": 0}
    write_llama(tmp_path / "m.gguf", metadata, tiny_weights(300), "F32")
    convert(tmp_path / "m.gguf", tmp_path / "converted")
    assert _json(tmp_path / "converted" / "generation_config.json")["eos_token_id"] == [0, 2]
    _, tokenizer = load(str(tmp_path / "converted"))  # type: ignore[misc]
    assert tokenizer.eos_token_ids == {0, 2}
    assert tokenizer.chat_template == "{{ messages[0].content }}"


def test_the_process_tells_its_progress_and_its_result(tmp_path: Path) -> None:
    metadata = llama_metadata(tiny_config(300), byte_level_tokenizer())
    write_llama(tmp_path / "m.gguf", metadata, tiny_weights(300), "F32")
    lines = _run(tmp_path / "m.gguf", tmp_path / "converted")
    assert [line["done"] for line in lines[:-1]] == [*range(1, 21), 21]
    assert lines[-1] == {"path": str(tmp_path / "converted")}
    assert _run(tmp_path / "none.gguf", tmp_path / "converted")[-1] == {
        "error": "cannot read none.gguf: No such file or directory",
        "permanent": True,
    }


@pytest.mark.model
def test_the_real_model_knows_the_capital_of_france(smollm2: Path) -> None:
    model, tokenizer = load(str(smollm2))  # type: ignore[misc]
    model.set_dtype(mx.float32)
    model = dequantize_model(model)
    question = {"role": "user", "content": "What is the capital of France? Answer in one sentence."}
    prompt = tokenizer.apply_chat_template([question], add_generation_prompt=True)
    assert generate(model, tokenizer, prompt, max_tokens=20) == "The capital of France is Paris."


def _logits(directory: Path) -> np.ndarray[Any, Any]:
    model, _ = load(str(directory))  # type: ignore[misc]
    model.set_dtype(mx.float32)
    model = dequantize_model(model)
    return np.array(model(mx.array([list(range(1, 41))])))


def _write_with(file: Path, config: dict[str, Any], extra: dict[str, Any]) -> None:
    metadata = llama_metadata(config, byte_level_tokenizer())
    write_llama(file, metadata, tiny_weights(300), "F32")
    plain = {name: ("F32", np.array(array)) for name, array in mx.load(str(file), format="gguf").items()}
    write_gguf(file, metadata, plain | extra)


def _run(source: Path, destination: Path) -> list[dict[str, Any]]:
    command = [sys.executable, "-m", "appliance.engine.mlx.gguf", str(source), str(destination)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return [json.loads(line) for line in done.stdout.splitlines()]


def _json(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(path.read_text())
    return content
