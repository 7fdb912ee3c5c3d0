"""How a submission becomes a sequence: render, tokenize, check against the context, choose the dialects."""

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from appliance import log
from appliance.engine.adapter import Adapters
from appliance.engine.answer import Wanted
from appliance.engine.backend import Tokenizer
from appliance.engine.borders import borders
from appliance.engine.budget import Budget
from appliance.engine.constraint import NO_GRAMMAR, Constraint, Grammars
from appliance.engine.fim import fill_in
from appliance.engine.holding import Held, hold
from appliance.engine.pipeline import Limits, Pipeline
from appliance.engine.revealed import reveal
from appliance.engine.rules import rules_of
from appliance.engine.sequence import Sequence
from appliance.engine.speculation import guessable
from appliance.errors import BadRequest, PromptTooLong
from appliance.text import dialects, reasoning
from appliance.text.channels import Channels
from appliance.text.dialects.format import ToolFormat
from appliance.text.dialects.none import FORMAT as NO_TOOLS
from appliance.text.reasoning.format import Reasoning
from appliance.text.reasoning.none import REASONING as NO_REASONING
from appliance.text.recipe import in_words
from appliance.vocab.request import TextPrompt, TokenPrompt, Tool
from appliance.vocab.spec import ChatPrompt, Prompt, Submission
from appliance.wire.frames import Count, Counted

Row = TypeVar("Row")

_TAIL_TOKENS = 32
"""How much of a prompt's end is looked at for tags that are open."""


@dataclass(frozen=True, slots=True)
class Preparer:
    """`context` is the engine's own limit in tokens, which may change; `vocab_size` bounds token ids; `trims`:
    what is kept of one prompt serves every other that begins like it, wherever they part.
    """

    tokenizer: Tokenizer
    vocab_size: int
    context: Callable[[], int]
    grammars: Grammars
    adapters: Adapters
    trims: bool = True
    guesses: bool = False

    def prepare(self, submission: Submission, order: int) -> Sequence:
        """Raises PromptTooLong, BadRequest and what the template raises."""
        self._check_ids(submission)
        adapter = self.adapters.find(submission.adapter) if submission.adapter else None
        prompt = self.tokens(submission.prompt)
        context = min(submission.context, self.context())
        room = _room(submission, len(prompt), context)
        ends = self._ends(submission)
        pipeline, constraint = self._held_to(submission, prompt, Limits(ends, room, submission.sampling.min_tokens))
        self._tell_unguessed(submission, constraint)
        return Sequence(
            id=submission.id,
            known=[*prompt, *submission.emitted],
            prompt_length=len(prompt),
            limit=len(prompt) + room,
            sampling=submission.sampling,
            pipeline=pipeline,
            namespace=submission.namespace if adapter is None else f"{submission.namespace} {adapter.name}",
            priority=submission.priority,
            tenant=submission.tenant,
            order=order,
            stop_ids=ends,
            constraint=constraint,
            foretold=self._foretold(submission, context),
            adapter=adapter,
            checkpoints=self._checkpoints(submission.prompt, prompt),
            rules=rules_of(submission.rules, self.tokenizer, resumed=bool(submission.emitted)),
        )

    def _held_to(
        self, submission: Submission, prompt: list[int], limits: Limits
    ) -> tuple[Pipeline, Constraint | None]:
        """How the answer is read, and what it is held to, both by the model's dialects. Raises BadRequest,
        Unsupported for what it must be held to and cannot.
        """
        thinking, tools = _dialects(submission)
        tail = self.tokenizer.text(prompt[-_TAIL_TOKENS:])
        held = self._held(submission, thinking, tools, tail)
        pipeline = Pipeline(
            reveal(self.tokenizer, (*thinking.markers, *held.format.tags)),
            limits,
            prompt_tokens=len(prompt),
            channels=self._channels(submission, thinking, held, tail),
            logprobs=submission.sampling.logprobs is not None,
        )
        return pipeline, self._budgeted(submission, thinking, held, tail)

    def _tell_unguessed(self, submission: Submission, constraint: Constraint | None) -> None:
        if (self.guesses or submission.prediction) and not guessable(constraint):
            log.get().info("engine.not_speculative", sequence=submission.id, reason="its reasoning has a budget")

    def _checkpoints(self, prompt: Prompt, tokens: list[int]) -> tuple[int, ...]:
        return borders(prompt, tokens, self.tokens) if isinstance(prompt, ChatPrompt) and not self.trims else ()

    def _foretold(self, submission: Submission, context: int) -> list[int] | None:
        """The answer that is expected, as far as there is room for one."""
        if not submission.prediction:
            return None
        return self.tokenizer.encode(submission.prediction, special=False)[:context]

    def count(self, asked: Count) -> Counted:
        """What a prompt is in tokens. Raises BadRequest and what the template raises."""
        tokens = self.tokens(asked.prompt)
        if not asked.detail:
            return Counted(asked.nonce, len(tokens))
        return Counted(asked.nonce, len(tokens), tuple(tokens), self.tokenizer.text(tokens))

    def tokens(self, prompt: Prompt) -> list[int]:
        """A prompt's ids, at least one. Raises BadRequest and what the template raises."""
        match prompt:
            case ChatPrompt(recipe=recipe):
                tokens = self.tokenizer.render(in_words(prompt) if recipe else prompt)
            case TextPrompt(text=text, special=special, suffix=None):
                tokens = self.tokenizer.encode(text, special)
            case TextPrompt():
                tokens = fill_in(prompt, self.tokenizer)
            case TokenPrompt(tokens=ids):
                tokens = list(ids)
        if not tokens:
            raise BadRequest("the prompt is empty: it renders to no tokens at all", param="prompt")
        if (wrong := next((t for t in tokens if not 0 <= t < self.vocab_size), None)) is not None:
            raise BadRequest(
                f"token {wrong} is not in this model's vocabulary of {self.vocab_size} tokens", param="prompt"
            )
        return tokens

    def _check_ids(self, submission: Submission) -> None:
        """An id past the vocabulary would be written past the end of the logits."""
        named = {
            "logit_bias": submission.sampling.logit_bias,
            "stop_token_ids": submission.sampling.stop_token_ids,
            "allowed_token_ids": submission.rules.allowed or (),
        }
        for field, ids in named.items():
            if (wrong := next((t for t in ids if not 0 <= t < self.vocab_size), None)) is not None:
                raise BadRequest(
                    f"`{field}`: token {wrong} is not in this model's vocabulary of {self.vocab_size} tokens",
                    param=field,
                )

    def _ends(self, submission: Submission) -> frozenset[int]:
        asked = frozenset(submission.sampling.stop_token_ids)
        if submission.sampling.ignore_eos:
            return asked
        named = (self.tokenizer.id_of(text) for text in submission.stop_tokens)
        return asked | self.tokenizer.eos_ids | {id for id in named if id is not None}

    def _channels(self, submission: Submission, thinking: Reasoning, held: Held, tail: str) -> Channels | None:
        """None where all text is the answer."""
        if not submission.sampling.stop and thinking is NO_REASONING and held.format is NO_TOOLS:
            return None
        return Channels(
            stops=submission.sampling.stop,
            reasoning=thinking,
            tools=held.format,
            declared={tool.name: tool.parameters for tool in _tools(submission)},
            new_id=_call_id,
            prompt=tail,
            inside=_continues_reasoning(submission, thinking),
            constrained=held.calls,
        )

    def _budgeted(self, submission: Submission, thinking: Reasoning, held: Held, tail: str) -> Constraint | None:
        """What the answer is held to, the length of its reasoning included."""
        closing = thinking.thought_end or next(iter(thinking.close), "")
        tokens = submission.sampling.reasoning_budget
        if tokens is None or not closing:
            return held.constraint
        inside = _continues_reasoning(submission, thinking)
        budget = Budget(
            tokens,
            self.tokenizer.encode(closing, special=False),
            lambda: Channels(reasoning=thinking, new_id=_call_id, prompt=tail, inside=inside),
            reveal(self.tokenizer, thinking.markers),
        )
        return (held.constraint or NO_GRAMMAR).watched(budget.watch)

    def _held(self, submission: Submission, thinking: Reasoning, tools: ToolFormat, tail: str) -> Held:
        """What the answer is held to. Raises BadRequest, Unsupported for what it must be held to and cannot."""
        wanted = Wanted(
            tools=_tools(submission),
            parallel=submission.parallel_calls,
            form=submission.grammar,
            prompt=tail,
            start=thinking.start(tail, inside=_continues_reasoning(submission, thinking)),
        )
        return hold(self.grammars, wanted, tools, thinking)


def _room(submission: Submission, prompt: int, context: int) -> int:
    """How many tokens there may be of an answer to so many. Raises PromptTooLong."""
    wanted = context if submission.sampling.max_tokens is None else submission.sampling.max_tokens
    room = min(wanted, context - prompt)
    if room < min(wanted, 1):
        raise PromptTooLong(
            f"This model's maximum context length is {context} tokens. However, your prompt resulted in"
            f" {prompt} tokens. Shorten the prompt.",
            param="messages" if isinstance(submission.prompt, ChatPrompt) else "prompt",
        )
    return room


def _dialects(submission: Submission) -> tuple[Reasoning, ToolFormat]:
    thinking = _known("reasoning_dialect", submission.reasoning_dialect, reasoning.find, NO_REASONING)
    tools = _known("tool_dialect", submission.tool_dialect, dialects.find, NO_TOOLS)
    return thinking, tools if _tools(submission) or tools.frames else NO_TOOLS


def _tools(submission: Submission) -> tuple[Tool, ...]:
    return submission.prompt.tools if isinstance(submission.prompt, ChatPrompt) else ()


def _continues_reasoning(submission: Submission, thinking: Reasoning) -> bool:
    """Whether the message that the answer continues ends inside its reasoning."""
    prompt = submission.prompt
    if not isinstance(prompt, ChatPrompt) or not prompt.continue_final:
        return False
    text = prompt.messages[-1].content or ""
    opened = max((text.rfind(tag) for tag in thinking.open), default=-1)
    return opened > max((text.rfind(tag) for tag in thinking.close), default=-1)


def _call_id() -> str:
    return f"call_{secrets.token_hex(12)}"


def _known(field: str, name: str, find: Callable[[str], Row | None], otherwise: Row) -> Row:
    row = find(name)
    if row is None:
        log.get().warning("engine.dialect_unknown", field=field, name=name, using="none")
    return otherwise if row is None else row
