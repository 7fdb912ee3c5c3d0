"""In which form a model's keys and values are held: exact or in fewer bits, over everything or over a window."""

from dataclasses import replace
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx_lm.models.cache import ArraysCache, KVCache, RotatingKVCache

from appliance.engine.backend import Opening
from appliance.engine.mlx import kv
from appliance.engine.mlx.kv import Caches, KVSnapshot
from appliance.engine.mlx.probe import refuses
from appliance.engine.mlx.quirks import mended, why_unwindowed
from appliance.errors import LoadFailed
from appliance.vocab.spec import EngineSettings, KvForm


class KVStore:
    """Of one loaded model. `window` is how many tokens sequences look back at; None: all.

    Raises LoadFailed, permanent, where the model's caches have no window.
    """

    def __init__(self, model: nn.Module, config: dict[str, Any], window: int | None) -> None:
        self._model, self._window = model, window
        self._latent = bool(config.get("text_config", config).get("kv_lora_rank"))
        self._form: KvForm | None = None
        self._stored: KvForm | None = None
        self.warm = self.fresh()
        """Caches that hold two tokens."""
        logits = model(mx.array([[0, 0]], dtype=mx.int32), cache=self.warm)
        mx.eval(logits, [cache.state for cache in self.warm])
        self.vocabulary: int = logits.shape[-1]

    def configure(self, settings: EngineSettings) -> None:
        """The forms from now on. Raises LoadFailed, permanent, for one that these caches cannot have."""
        for name, form in (("kv", settings.kv), ("the cache policy's bits", settings.stored)):
            if form is not None and (why := self._misfit(form)):
                raise LoadFailed(f"{name}: {why}", permanent=True)
        self._form, self._stored = settings.kv, settings.stored

    @property
    def token_bytes(self) -> int:
        """What one more token of a row takes."""
        return kv.bytes_per_token(kv.in_form(self.warm, self._form))

    def fresh(self) -> Caches:
        """Empty exact caches."""
        caches = mended(self._model, kv.fresh(self._model))
        if self._window is None:
            return caches
        if (why := self._unwindowed(caches)) is not None:
            raise LoadFailed(f"max_kv: {why}", permanent=True)
        return [RotatingKVCache(self._window) if type(cache) is KVCache else cache for cache in caches]

    def exact_tokens(self, computed: int) -> int | None:
        """How many more tokens a row that has computed so many holds exactly; None: it is never packed. A token that
        has as many before it as the form says is the first to look at packed ones, whoever it shares a pass with and
        however often it is computed.
        """
        return None if self._form is None else max(0, self._form.from_token - computed)

    @property
    def packs_later(self) -> bool:
        """Whether rows begin exact and are packed as they grow."""
        return self._form is not None and self._form.from_token > 0

    def packs(self, computed: int) -> bool:
        """Whether a row that has computed so many tokens is packed before the next one."""
        return self.exact_tokens(computed) == 0

    def pack(self, caches: Caches) -> Caches:
        return kv.in_form(caches, self._form)

    def open(self, opening: Opening) -> tuple[Caches, bool]:
        """A row's own caches, filled from the snapshot where there is one, and whether they are in fewer bits."""
        if opening.snapshot is None:
            caches = self.fresh()
        else:
            assert isinstance(opening.snapshot, KVSnapshot)
            caches = kv.restore(opening.snapshot, opening.computed)
        packs = self.packs(opening.computed)
        caches = kv.in_form(caches, self._form if packs else None)
        kv.grow_by_parts(caches, len(opening.known))
        return caches, packs

    def keep(self, stored: KVSnapshot, packed: bool) -> KVSnapshot | None:
        """A row's snapshot in the form in which prefixes are kept; None where a row of that length is exact, and this
        one was packed since.
        """
        if packed and self._form is not None:
            least = self._form.from_token
            return None if stored.length < least else replace(stored, packed_from=least)
        return stored if self._stored is None else kv.packed(stored, self._stored)

    def _unwindowed(self, caches: Caches) -> str | None:
        """Why these caches cannot have a window."""
        if not _plain(caches):
            return f"{kv.kinds(caches)} cannot be given a window"
        return why_unwindowed(self._model)

    def _misfit(self, form: KvForm) -> str | None:
        """Why these caches cannot have a form."""
        leaves = kv.leaves(self.warm)
        if self._latent:
            return "keys and values that are compressed already (MLA) cannot be quantized"
        if not _plain(leaves):
            return f"{kv.kinds(leaves)} cannot be quantized"
        try:
            mx.eval([cache.state for cache in kv.in_form(self.warm, form)])
        except (ValueError, RuntimeError) as error:
            return str(error).splitlines()[0]
        if (why := refuses(self._model, kv.in_form(self.warm, form))) is not None:
            return f"this model's own attention does not take keys and values in fewer bits: {why}"
        return None


def _plain(caches: Caches) -> bool:
    """Whether keys and values are in plain caches, with nothing but states beside them."""
    kinds = {type(cache) for cache in caches}
    return KVCache in kinds and kinds <= {KVCache, ArraysCache}
