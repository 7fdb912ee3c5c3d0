"""The first deploy file of a machine: which model suits its memory, and the commented text."""

from dataclasses import dataclass

GIB = 2**30


@dataclass(frozen=True, slots=True)
class Choice:
    """A model of the catalogue with a context that fits beside it; `weights` are bytes, roughly."""

    model: str
    context: str
    weights: int
    why: str


DEMO = Choice("smollm2-135m", "8k", GIB // 2, "a small model that runs anywhere")
BY_MEMORY: tuple[tuple[int, Choice], ...] = (
    (48, Choice("qwen3-coder-30b-4bit", "64k", 17 * GIB, "a large model for code and tools")),
    (32, Choice("qwen3-8b-8bit", "32k", 9 * GIB, "a capable model that thinks before it answers")),
    (16, Choice("qwen3-8b-4bit", "32k", 5 * GIB, "a capable model that thinks before it answers")),
    (8, Choice("qwen3-1.7b-4bit", "16k", GIB, "a model that leaves room for other programs")),
)
"""GiB of memory a Mac has at least, and what it gets."""


def choose(memory_bytes: int, apple_silicon: bool) -> Choice:
    """What a machine gets. Without Apple silicon models run on the CPU, where a large one is no pleasure."""
    if not apple_silicon:
        return DEMO
    # A machine sold with 16 GiB reports a little less.
    return next((choice for gib, choice in BY_MEMORY if memory_bytes >= 0.95 * gib * GIB), DEMO)


def starter(choice: Choice, memory: str) -> str:
    """The text of the deploy file. A line that begins with `#` and no space is a setting to be switched on."""
    name = "demo" if choice == DEMO else choice.model.rpartition("-")[0] or choice.model
    return _TEXT.format(name=name, model=choice.model, context=choice.context, why=choice.why, memory=memory)


_TEXT = """\
# yaml-language-server: $schema=./.appliance/deploy.schema.json
#
# The whole appliance is this file. `appliance up` serves it; saving it applies it within a second, and a mistake
# is refused with its line number while the last good version goes on serving.
#
#   appliance validate      all mistakes at once
#   appliance pull          fetch the models now instead of with the first request
#   appliance schema        every key there is, with its default
version: 1

server:
  # This machine only. Other programs here reach it at http://127.0.0.1:8080/v1
  listen: 127.0.0.1:8080
  # Longest time from a request to the end of its answer.
  #request_timeout: 30m

memory:
  # What all models together may take of this machine's {memory}; models make room for each other.
  budget: 75%

# Settings of every model that does not say otherwise.
defaults:
  # A model without requests leaves the memory after this long; `never` keeps it.
  idle_unload: 15m
  sampling: {{max_tokens: 4096}}
  # A client may go no further than these bounds.
  #policy: {{clamp: {{temperature: [0, 1.5]}}}}

models:
  # The name clients ask for: {why}.
  {name}:
    # A short name of the catalogue, hf:owner/name, or a path: ~/models/mine
    source: {model}
    # Prompt and answer together, in tokens.
    context: {context}
    # With the first request; `startup` loads it when the appliance starts.
    load: lazy
    # Requests answered at the same time; more of them wait.
    #concurrency: 8

# Settings a request can ask for as {name}:terse, or an alias brings along.
#profiles:
#  terse: {{sampling: {{temperature: 0.3, max_tokens: 512}}}}

# Other names of the models: whatever your clients call them.
aliases:
  default: {name}
  #"gpt-4*": {name}
"""
