"""What a fake engine's script says: one frozen value, overridden per prompt by the rows of `when`."""

import re
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal

import msgspec
import yaml

from appliance.engine.fake.tokenizer import FakeTokenizer, text_of, turns_of
from appliance.errors import LoadFailed
from appliance.vocab.request import Sampling


class Script(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The keys of a script; the package's docstring tells what each means."""

    text: str = "{last}"
    words: tuple[str, ...] = ()
    length: int = 8
    tokens: tuple[int, ...] = ()
    endless: bool = False
    step_ms: float = 0
    prefill_ms_per_token: float = 0
    load_ms: float = 0
    fail_load: str | None = None
    permanent: bool = False
    context: int = 4096
    token_bytes: int = 4
    special: tuple[str, ...] = ()
    kv_bytes_per_token: int = 1024
    weight_bytes: int = 1 << 20
    trim: bool = True
    crash_after: int | None = None
    crash_on: str | None = None
    crash_load: bool = False
    crash_how: Literal["kill", "abort", "exit", "exception"] = "kill"
    crash_times: int | None = None
    hang_after: int | None = None
    fault_after: int | None = None
    fault_at: Literal["wait", "launch", "open", "snapshot"] = "wait"
    fail_render: str | None = None
    when: tuple[dict[str, Any], ...] = ()

    def for_prompt(self, prompt: str) -> "Script":
        """With the first row of `when` that fits laid over."""
        for row in self.when:
            if row.get("contains", "") in prompt:
                over = {key: value for key, value in row.items() if key != "contains"}
                return msgspec.convert({**msgspec.structs.asdict(self), **over}, Script)
        return self

    def crash_limit(self, prompt: str) -> int | None:
        """How many tokens a sequence with this prompt gets before the process ends."""
        if self.crash_on is None:
            return self.crash_after
        return (self.crash_after or 0) if self.crash_on in prompt else None


def read(path: Path) -> Script:
    """Raises LoadFailed, permanent, naming the file and the key."""
    try:
        value = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
        script = msgspec.convert(value, Script)
        for row in script.when:
            msgspec.convert({key: value for key, value in row.items() if key != "contains"}, Script)
    except (OSError, UnicodeDecodeError, yaml.YAMLError, msgspec.ValidationError) as error:
        raise LoadFailed(f"the fake engine's script {path} cannot be used: {error}", permanent=True) from error
    if not 1 <= script.token_bytes <= 6:
        raise LoadFailed(f"the fake engine's script {path}: token_bytes must be 1 to 6", permanent=True)
    return script


def answer(script: Script, tokenizer: FakeTokenizer, prompt: Sequence[int], sampling: Sampling) -> list[int]:
    """The tokens this prompt is answered with, without the end."""
    if script.tokens:
        return list(script.tokens)
    if script.words:
        words = (_word(script.words, sampling, at) for at in range(script.length))
        return tokenizer.encode(" ".join(words))
    turns = turns_of(prompt)
    fields = {
        **{name: getattr(sampling, name) for name in sampling.__struct_fields__},
        "last": next((content for role, content in reversed(turns) if role == "user"), ""),
        "kwargs": next((content for role, content in turns if role == "kwargs"), "{}"),
        "prompt": text_of(prompt),
    }
    text = re.sub(r"\{(\w+)\}", lambda m: str(fields.get(m[1], m[0])), script.text)
    return tokenizer.encode(text)


def _word(words: Sequence[str], sampling: Sampling, at: int) -> str:
    if sampling.temperature == 0:
        return words[at % len(words)]
    draw = blake2b(f"{sampling.seed}:{at}".encode(), digest_size=8).digest()
    return words[int.from_bytes(draw, "big") % len(words)]
