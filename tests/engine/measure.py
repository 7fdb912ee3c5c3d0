"""How fast the step loop is by itself: tokens per second of a scripted device that takes no time, over the socket.

python -m tests.engine.measure
"""

import tempfile
import time
from pathlib import Path

import msgspec

from appliance.vocab.event import Finished
from appliance.wire import frames
from tests.engine.harness import GREEDY, running_engine, submission, write_script

TOKENS = 3000


def measure(rows: int, **sampling: object) -> float:
    """Tokens per second with so many streams at once."""
    options = msgspec.structs.replace(GREEDY, max_tokens=TOKENS, **sampling)
    with tempfile.TemporaryDirectory() as folder, running_engine() as engine:
        engine.start(write_script(Path(folder), words=["one", "two", "three"], endless=True))
        began = time.perf_counter()
        engine.send(*(frames.Submit(submission(id, "hi", options)) for id in range(rows)))
        ended = tokens = 0
        while ended < rows:
            engine.receive()
            for frame in engine.frames:
                for part in frame.sequences if isinstance(frame, frames.Events) else ():
                    tokens += len(part.tokens)
                    ended += bool(part.events) and isinstance(part.events[-1], Finished)
            engine.frames.clear()
        return tokens / (time.perf_counter() - began)


if __name__ == "__main__":
    for rows, options in [(1, {}), (16, {}), (16, {"stop": ("never",)}), (16, {"logprobs": 5})]:
        speed = measure(rows, **options)
        print(f"{rows:3} rows {options!s:24} {speed:8.0f} tokens/s {rows / speed * 1000:6.2f} ms/step")
