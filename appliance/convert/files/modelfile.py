"""An Ollama Modelfile: one model with its parameters."""

import re
from collections.abc import Iterator

from appliance.convert import values as v
from appliance.convert.draft import CannotConvert, Draft, Item, carry, name_for, permitted
from appliance.convert.source import OLLAMA, Known, NoSource, ollama_source
from appliance.convert.target import OMIT, Key, Part, Reason, rows, table
from appliance.convert.tools import reasons as why

KIND = "ollama"

SAMPLERS = Reason("this sampler is not offered")
HARDWARE = Reason("about placing layers and threads; MLX uses the one device there is")

PARAMETERS = table(
    rows("temperature", Key("M.sampling.temperature", v.number)),
    rows("top_k", Key("M.sampling.top_k", v.whole)),
    rows("top_p", Key("M.sampling.top_p", v.number)),
    rows("min_p", Key("M.sampling.min_p", v.number)),
    rows("seed", Key("M.sampling.seed", lambda given: v.whole(given) or OMIT)),
    rows("repeat_penalty", Key("M.sampling.repetition_penalty", v.number)),
    rows("presence_penalty", Key("M.sampling.presence_penalty", v.number)),
    rows("frequency_penalty", Key("M.sampling.frequency_penalty", v.number)),
    rows("num_predict", Key("M.sampling.max_tokens", v.tokens_or_omit)),
    rows("num_ctx", Key("M.context", v.tokens)),
    rows("stop", Part("M.sampling.stop", "stop")),
    rows("mirostat mirostat_eta mirostat_tau tfs_z typical_p repeat_last_n penalize_newline num_keep", SAMPLERS),
    rows("num_gpu num_thread num_gqa main_gpu low_vram f16_kv use_mmap use_mlock numa num_batch", HARDWARE),
    rows("draft_num_predict", Key("M.speculative.depth", v.whole)),
)

INSTRUCTIONS = table(
    rows("SYSTEM MESSAGE", Reason("the client sends the conversation, its system message included")),
    rows("TEMPLATE", Reason("a Go template; the checkpoint's own Jinja template is used, or M.template.file")),
    rows("ADAPTER", Key("M.adapters.default", v.text, why.ADAPTER)),
    rows("LICENSE REQUIRES RENDERER PARSER", Reason("nothing to set: the checkpoint and its family say it")),
)

_INSTRUCTION = re.compile(r"[ \t]*(?P<word>[A-Za-z]+)[ \t]+(?P<rest>.*)")


def fits(text: str) -> bool:
    """Whether a text looks like this format."""
    return any(word == "FROM" for word, _ in _instructions(text))


def convert(text: str, file: str, known: Known) -> Draft:
    """Raises CannotConvert where there is no FROM, or one that has no counterpart here."""
    draft = Draft("an Ollama Modelfile")
    instructions = list(_instructions(text))
    base = next((rest for word, rest in instructions if word == "FROM"), None)
    if base is None:
        raise CannotConvert(f"{file} has no FROM")
    try:
        found = ollama_source(base, known)
    except NoSource as error:
        raise CannotConvert(f"FROM {base}: {error}") from None
    name = (
        permitted(base.removesuffix(":latest")) if base.removesuffix(":latest").lower() in OLLAMA else name_for(base)
    )
    draft.put(("server", "listen"), "127.0.0.1:11434", "Ollama's port")
    draft.put(("server", "apis"), ["openai", "ollama"], "Ollama's API")
    draft.put(("models", name, "source"), found, f"FROM {base}")
    draft.put(("models", name, "idle_unload"), "5m", "Ollama's way")
    if found in known.catalogue:
        draft.lose(f"FROM {base}", "the same model, but quantized for MLX instead of GGUF")
    for word, rest in instructions:
        _carry(draft, word, rest, name)
    return draft


def _carry(draft: Draft, word: str, rest: str, name: str) -> None:
    if word == "FROM":
        return
    if word != "PARAMETER":
        row = INSTRUCTIONS.get(word)
        item = Item(word, rest)
    else:
        key, _, value = rest.partition(" ")
        row, item = PARAMETERS.get(key.lower()), Item(f"PARAMETER {key}", _unquoted(value.strip()))
        if key.lower() == "stop":
            _stop(draft, item, name)
    if row is None:
        draft.lose(item.shown, "nothing of a Modelfile that we know")
    else:
        carry(draft, item, row, name)


def _stop(draft: Draft, item: Item, name: str) -> None:
    path = ("models", name, "sampling", "stop")
    draft.put(path, [*draft.values.get(path, []), item.value], item.shown)


def _instructions(text: str) -> Iterator[tuple[str, str]]:
    """Instructions with what follows; a text in triple quotes may go over several lines."""
    lines = iter(text.splitlines())
    for line in lines:
        match = _INSTRUCTION.fullmatch(line)
        if match is None or line.lstrip().startswith("#"):
            continue
        rest = match["rest"].strip()
        if '"""' in rest:
            start = rest.partition('"""')[2]
            while '"""' not in start and (more := next(lines, None)) is not None:
                start += f"\n{more}"
            rest = start.partition('"""')[0]
        yield match["word"].upper(), _unquoted(rest)


def _unquoted(text: str) -> str:
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] == '"' else text
