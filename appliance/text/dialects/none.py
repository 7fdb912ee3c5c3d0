"""No tool calls: whatever looks like one is content."""

from appliance.text.dialects.format import ToolFormat

FORMAT = ToolFormat(name="none", aliases=("", "off"))
