"""A `BatchGenerator` loop alone in its process: `python -m tests.bench.ceiling DIRECTORY`.

Each line on stdin is a Load, each line on stdout its Outcome. No server, no detokenizer in the loop.
"""

import sys
from itertools import islice
from time import perf_counter
from typing import Any

import mlx.core as mx
import mlx_lm
import msgspec
from mlx_lm.generate import BatchGenerator

from tests.bench.answer import Answer, Load, Outcome


def main() -> None:
    model, tokenizer = mlx_lm.load(sys.argv[1])[:2]
    mx.eval(model.parameters())
    for line in sys.stdin.buffer:
        outcome = answer(model, tokenizer, msgspec.json.decode(line, type=Load))
        sys.stdout.buffer.write(msgspec.json.encode(outcome) + b"\n")
        sys.stdout.buffer.flush()


def answer(model: Any, tokenizer: Any, load: Load) -> Outcome:
    """Answer a load greedily: a chat is inserted when a row is free."""
    ends = set(tokenizer.eos_token_ids)
    generator = BatchGenerator(
        model,
        max_tokens=load.max_tokens,
        stop_tokens=[[end] for end in ends],
        completion_batch_size=load.streams,
        prefill_batch_size=load.streams,
    )
    begun, waiting = perf_counter(), iter(load.chats)
    asked, tokens, arrivals = dict[int, float](), dict[int, list[int]](), dict[int, list[float]]()

    def insert(free: int) -> int:
        chats = islice(waiting, free)
        prompts = [tokenizer.apply_chat_template(chat, add_generation_prompt=True) for chat in chats]
        for uid in generator.insert(prompts) if prompts else ():
            asked[uid], tokens[uid], arrivals[uid] = perf_counter(), [], []
        return len(prompts)

    active = insert(load.streams)
    while active:
        _, responses = generator.next()
        now = perf_counter()
        for response in responses:
            tokens[response.uid].append(response.token)
            arrivals[response.uid].append(now - asked[response.uid])
        ended = sum(response.finish_reason is not None for response in responses)
        active += insert(ended) - ended
    seconds = perf_counter() - begun
    generator.close()
    texts = {uid: tokenizer.decode([token for token in row if token not in ends]) for uid, row in tokens.items()}
    answers = (Answer(tuple(row), row[-1], len(tokens[uid]), texts[uid]) for uid, row in sorted(arrivals.items()))
    return Outcome(seconds, tuple(answers))


if __name__ == "__main__":
    main()
