"""What a chat request's `prediction` says: the answer its client expects, most of which is known already."""

from typing import Any

import msgspec

from appliance.errors import BadRequest


class _Part(msgspec.Struct):
    type: str
    text: str = ""


class Prediction(msgspec.Struct):
    """`type` is `content`; its content a text or text parts."""

    type: str
    content: str | list[_Part]


def predicted(name: str, value: Prediction) -> Any:
    """The expected text. Raises BadRequest for other kinds of prediction."""
    if value.type != "content":
        raise BadRequest(f"`{name}.type` must be 'content', not '{value.type}'", param=f"{name}.type")
    if isinstance(value.content, str):
        return value.content
    for place, part in enumerate(value.content):
        if part.type != "text":
            param = f"{name}.content[{place}].type"
            raise BadRequest(f"`{param}` must be 'text', not '{part.type}'", param=param)
    return "".join(part.text for part in value.content)
