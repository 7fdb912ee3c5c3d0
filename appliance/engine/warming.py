"""Computes the prefixes that a deployment keeps warm, as sequences nobody hears of."""

import itertools
import threading
from collections.abc import Callable, Iterable

from appliance import log
from appliance.engine.backend import TokenBytes
from appliance.engine.borders import Render, opening
from appliance.engine.pipeline import Limits, Pipeline
from appliance.engine.prefix_cache import PINNED
from appliance.engine.sequence import Sequence
from appliance.errors import ApplianceError
from appliance.vocab.request import Sampling
from appliance.vocab.spec import ChatPrompt


class Warmer:
    """Renders on a thread of its own; `deliver` takes the sequences. Their ids are below those of any request."""

    def __init__(
        self, render: Render, tokenizer: TokenBytes, context: Callable[[], int], deliver: Callable[[Sequence], None]
    ) -> None:
        self._render, self._tokenizer, self._context, self._deliver = render, tokenizer, context, deliver
        self._ids = itertools.count(-1, -1)
        self._thread: threading.Thread | None = None

    def warm(self, prompts: Iterable[ChatPrompt]) -> None:
        """Begin with it; what cannot be rendered or is too long is logged and left out."""
        self._thread = threading.Thread(target=self._run, args=(tuple(prompts),), name="warm", daemon=True)
        self._thread.start()

    def delivered(self) -> None:
        """Wait until what was begun last is rendered: then it goes before the first request, which may share it."""
        if self._thread is not None:
            self._thread.join()

    def _run(self, prompts: tuple[ChatPrompt, ...]) -> None:
        for at, prompt in enumerate(prompts):
            try:
                known = opening(prompt, self._render)
            except ApplianceError as error:
                log.get().warning("warm.failed", number=at, reason=error.message)
                continue
            if not 1 < len(known) < self._context():
                log.get().warning("warm.failed", number=at, reason=f"it is {len(known)} tokens long")
                continue
            self._deliver(self._sequence(known))
            log.get().info("warm.begun", number=at, tokens=len(known) - 1)

    def _sequence(self, known: list[int]) -> Sequence:
        return Sequence(
            id=next(self._ids),
            known=known,
            prompt_length=len(known),
            limit=len(known) + 1,
            sampling=Sampling(temperature=0.0),
            pipeline=Pipeline(self._tokenizer, Limits(frozenset(), 1), prompt_tokens=len(known)),
            namespace=PINNED,
            warms=True,
        )
