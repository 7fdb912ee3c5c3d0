"""Which models a peer says it has: the list that OpenAI's, Anthropic's and most other servers give alike. PURE."""

import msgspec

MOST_MODELS = 1000
"""Of one peer; more are of no use to who has to choose."""
LONGEST_LIST = 2 << 20
"""Bytes."""
ELSEWHERE = "elsewhere"
"""The state of a model that a server does not have itself. Whose it is, is to be asked for it: two servers that list
each other's models would list them for ever.
"""


class _Model(msgspec.Struct):
    id: str
    state: object = None


class _Raw(msgspec.Struct):
    data: list[msgspec.Raw] = []


def model_names(body: bytes) -> tuple[str, ...]:
    """Its own, without those of its peers; nothing where this is no list."""
    try:
        listed = msgspec.json.decode(body, type=_Raw).data[:MOST_MODELS]
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return ()
    return tuple(dict.fromkeys(name for raw in listed if (name := _name(raw))))


def _name(raw: msgspec.Raw) -> str | None:
    try:
        model = msgspec.json.decode(raw, type=_Model)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return model.id if model.state != ELSEWHERE else None
