"""What a loaded engine holds at this moment."""

import msgspec


class Gauges(msgspec.Struct, frozen=True):
    """Answers it computes together, requests that wait in it, and bytes: of the answers' keys and values, of prefixes
    kept in memory, of adapters. Told every few seconds.
    """

    running: int = 0
    waiting: int = 0
    kv_bytes: int = 0
    prefix_bytes: int = 0
    adapter_bytes: int = 0
