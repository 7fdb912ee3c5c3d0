"""`<think>…</think>` and an answer in `<response>…</response>`, as ERNIE 4.5 writes it.

Also for a model whose family is not known: there `<response>` at the beginning of an answer is taken for a tag, while
think_tags leaves it alone, since clients ask for such tags.
"""

from appliance.text.reasoning.format import Reasoning

REASONING = Reasoning(
    name="ernie",
    aliases=("ernie45", "think"),
    open=("<think>",),
    close=("</think>",),
    wraps=(("<response>", "</response>"),),
)
