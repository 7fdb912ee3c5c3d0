"""Which reasoning formats exist: one file each, one row each."""

from appliance.text.reasoning import none, think_tags
from appliance.text.reasoning.format import Reasoning

DIALECTS: tuple[Reasoning, ...] = (none.REASONING, think_tags.REASONING)


def find(name: str) -> Reasoning | None:
    """The row of a canonical name or an alias."""
    return next((row for row in DIALECTS if name == row.name or name in row.aliases), None)
