"""How turns of protocols that allow any order become turns that every chat template takes."""

from collections.abc import Iterable

import msgspec

from appliance.vocab.request import Message


def tidy(messages: Iterable[Message]) -> tuple[Message, ...]:
    """Consecutive turns of one role joined. A system message behind the first turn becomes a marked part of the
    user's: most templates take none there.
    """
    out: list[Message] = []
    for message in messages:
        if message.role == "system" and out and out[-1].role != "system":
            marked = message.mark or bool(message.parts)
            message = Message(role="user", content=f"<system>\n{message.content}\n</system>", mark=marked)
        if out and out[-1].role == message.role != "tool":
            out[-1] = _both(out[-1], message)
        else:
            out.append(message)
    return tuple(out)


def joined(*texts: str | None) -> str | None:
    """The texts there are, a line break between them; None where there is none."""
    given = [text for text in texts if text is not None]
    return "\n".join(given) if given else None


def _both(first: Message, second: Message) -> Message:
    before = 0 if first.content is None else len(first.content) + 1
    return msgspec.structs.replace(
        first,
        content=joined(first.content, second.content),
        reasoning=joined(first.reasoning, second.reasoning),
        tool_calls=first.tool_calls + second.tool_calls,
        mark=second.mark,
        parts=(*first.parts, *(before + part for part in second.parts)),
    )
