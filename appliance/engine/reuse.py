"""What a client is told of how much of its prompt was cached, and why no more. PURE."""

from appliance.engine.prefix_cache import reason
from appliance.engine.sequence import Sequence
from appliance.vocab.event import Reuse


def reuse_of(sequence: Sequence, enabled: bool) -> Reuse:
    """Of a sequence that was just opened; the first token that differs is told by number and by text."""
    if not enabled:
        return Reuse("off")
    found, known = sequence.found, sequence.known
    why = reason(found, sequence.prompt_length)
    if found.stored is None or found.shared >= len(known):
        return Reuse(why, found.shared)
    asked, text = known[found.shared], sequence.pipeline.text_of
    return Reuse(why, found.shared, asked, found.stored, text(asked), text(found.stored))
