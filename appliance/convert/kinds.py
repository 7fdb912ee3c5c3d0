"""Which tool a file or a command line belongs to, and the deploy file it becomes."""

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from appliance.config import source
from appliance.convert import command, document
from appliance.convert.draft import CannotConvert, Draft, Lost
from appliance.convert.files import llama_swap, mlx_openai_server, modelfile, reading, vllm_registry
from appliance.convert.source import Known
from appliance.convert.tools.all import TOOLS, split

FORMATS: Mapping[str, Callable[[str, str, Known], Draft]] = {
    llama_swap.KIND: llama_swap.convert,
    modelfile.KIND: modelfile.convert,
    mlx_openai_server.KIND: mlx_openai_server.convert,
    vllm_registry.KIND: vllm_registry.convert,
}
"""Formats of files by kind."""

FITS: Mapping[str, Callable[[Mapping[str, Any]], bool]] = {
    llama_swap.KIND: llama_swap.fits,
    mlx_openai_server.KIND: mlx_openai_server.fits,
    vllm_registry.KIND: vllm_registry.fits,
}
"""YAML formats by kind: whether a document looks like it."""

KINDS = tuple(sorted({*FORMATS, *TOOLS}))


@dataclass(frozen=True, slots=True)
class Converted:
    """`text` is a deploy file that validates, `lost` what of the original is not in it.

    `later` are keys that are only comments, because this version lacks their machinery.
    """

    text: str
    lost: tuple[Lost, ...]
    later: tuple[str, ...]
    made_from: str


def from_file(text: str, file: str, kind: str | None, known: Known) -> Converted:
    """Raises CannotConvert where the format is not known or nothing in it can be served."""
    kind = kind or _kind_of(text, file)
    if kind not in FORMATS:
        raise CannotConvert(f"{kind} is no format of a file; those are {', '.join(sorted(FORMATS))}")
    return _finished(FORMATS[kind](text, file, known), known)


def from_command(words: Sequence[str], kind: str | None, known: Known) -> Converted:
    """Raises CannotConvert where the command is not known or names no model that can be served."""
    words = shlex.split(words[0]) if len(words) == 1 else words
    found = split(words)
    if kind is not None and (found is None or found[0].name != kind):
        if kind not in TOOLS:
            raise CannotConvert(f"{kind} is no command line; those are {', '.join(sorted(TOOLS))}")
        found = TOOLS[kind], words[1:]
    if found is None:
        starts = ", ".join(" ".join(tool.starts[0]) for tool in TOOLS.values())
        raise CannotConvert(f"no command that is understood in `{' '.join(words[:3])} …`; those are {starts}")
    return _finished(command.convert(*found, known), known)


def _finished(draft: Draft, known: Known) -> Converted:
    text, later = document.write(draft, known.schema)
    return Converted(text, tuple(draft.lost), later, draft.made_from)


def _kind_of(text: str, file: str) -> str:
    tree, problems = source.parse(text, file)
    if isinstance(tree, source.Mapping):
        given = reading.document(text, file)
        for kind, fit in FITS.items():
            if fit(given):
                return kind
        if {"version", "models"} <= set(given):
            raise CannotConvert(f"{file} is a deploy file already: appliance validate -f {file}")
    elif modelfile.fits(text):
        return modelfile.KIND
    elif problems and re.search(r"^models:", text, re.MULTILINE):
        reading.document(text, file)
    raise CannotConvert(f"cannot tell what {file} belongs to; say it with --kind: {', '.join(sorted(FORMATS))}")
