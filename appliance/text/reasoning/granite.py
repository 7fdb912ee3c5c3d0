"""`<think>…</think><response>…</response>` of Granite 3.3, and the phrases that Granite 3.2 writes instead."""

from appliance.text.reasoning.format import Reasoning

REASONING = Reasoning(
    name="granite",
    open=("<think>", "Here is my thought process:", "Here's my thought process:"),
    close=("</think>", "Here is my response:", "Here's my response:"),
    wraps=(("<response>", "</response>"),),
)
