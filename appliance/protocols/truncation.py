"""Which turns go first where a conversation may be cut to fit: the oldest, never what the system says."""

from appliance.vocab.request import Message


def shortened(messages: tuple[Message, ...]) -> tuple[Message, ...] | None:
    """The conversation without its oldest turns, about a quarter of them; it begins with a user's turn again. None
    where only the last of those is left.
    """
    start = next((at for at, message in enumerate(messages) if message.role != "system"), len(messages))
    turns = messages[start:]
    begins = [at for at, message in enumerate(turns) if message.role == "user" and at > 0]
    if not begins:
        return None
    aim = begins[-1] // 4
    return (*messages[:start], *turns[next(at for at in begins if at >= aim) :])
