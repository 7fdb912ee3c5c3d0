"""Holds an answer to what was asked of it, where the tokenizer can: compiled, and said where it cannot be."""

from dataclasses import dataclass

from appliance import log
from appliance.engine.answer import Wanted, bound
from appliance.engine.constraint import Constraint, Grammars
from appliance.errors import BadRequest
from appliance.text.dialects.format import ToolFormat
from appliance.text.reasoning.format import Reasoning
from appliance.text.reasoning.none import REASONING as NO_REASONING


@dataclass(frozen=True, slots=True)
class Held:
    """`format` is that of the answer's calls, `calls` whether these cannot be malformed."""

    format: ToolFormat
    constraint: Constraint | None = None
    calls: bool = False


def hold(grammars: Grammars, wanted: Wanted, format: ToolFormat, thinking: Reasoning) -> Held:
    """Raises BadRequest, Unsupported naming what was asked for. Calls that nobody insists on are free where they
    cannot be held.
    """
    insists = wanted.form is not None or any(tool.forced or tool.strict for tool in wanted.tools)
    if wanted.form is not None and not wanted.tools and thinking is NO_REASONING:
        return Held(format, grammars.compile(wanted.form))
    if not insists and not wanted.tools:
        return Held(format)
    split = grammars.split
    if split is None:
        if insists:
            grammars.refuse(_param(wanted))
        return Held(format)
    found = bound(wanted, format, thinking, split)
    if found is None:
        return Held(format)
    try:
        return Held(found.format, grammars.compile_source(found.source, _param(wanted)), found.calls)
    except BadRequest as error:
        if insists:
            raise
        log.get().warning("engine.calls_not_held", reason=error.message)
        return Held(format)


def _param(wanted: Wanted) -> str:
    """The field of the request that asks for it."""
    if any(tool.forced for tool in wanted.tools):
        return "tool_choice"
    return wanted.form.param if wanted.form is not None else "tools"
