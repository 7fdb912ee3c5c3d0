"""Who waits for whose prefix: sequences that arrive together and begin alike compute what they share once. PURE."""

from bisect import insort
from collections.abc import Collection

from appliance.engine.prefix_cache import PINNED
from appliance.engine.radix import common_prefix
from appliance.engine.sequence import Sequence

SHARE_TOKENS = 32
"""A sequence waits for another's prefix only if that saves computing this many tokens."""


def awaits_leader(sequence: Sequence, running: Collection[Sequence]) -> bool:
    """Whether the prefix it waits for is still being computed."""
    if sequence.awaits is None:
        return False
    leader, length = sequence.awaits
    if leader in running and (length in leader.due or length in leader.taking):
        return True
    sequence.awaits = None
    return False


def finds_leader(sequence: Sequence, cached: int, running: Collection[Sequence]) -> bool:
    """Whether it has to wait until a running sequence, its leader, has computed a prefix that both share and of which
    no more than `cached` tokens are there; the leader is asked for a snapshot of that.
    """
    for leader in running:
        if (
            (leader.decodes and not leader.taking)
            or leader.namespace not in (sequence.namespace, PINNED)
            or leader.id in sequence.leaders
        ):
            continue
        shared = min(common_prefix(leader.known, sequence.known), sequence.prefill_end, leader.prefill_end)
        if leader.decodes:  # what it computed is there once the step that computes it has landed
            shared = max((length for length in leader.taking if length <= shared), default=0)
        if shared >= cached + SHARE_TOKENS:
            sequence.leaders.add(leader.id)
            sequence.awaits = (leader, shared)
            if shared not in leader.due and shared not in leader.taking:
                insort(leader.due, shared)
            return True
    return False
