"""Which tool-call formats exist: one file each, one row each."""

from appliance.text.dialects import hermes_json, none
from appliance.text.dialects.format import ToolFormat

DIALECTS: tuple[ToolFormat, ...] = (none.FORMAT, hermes_json.FORMAT)


def find(name: str) -> ToolFormat | None:
    """The row of a canonical name or an alias."""
    return next((row for row in DIALECTS if name == row.name or name in row.aliases), None)
