"""The downloads under way: one for each source, however many engines wait for it."""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field

from appliance import log
from appliance.config.deployment import Source
from appliance.control import registry
from appliance.control.fetch import LOCAL, fetch
from appliance.control.machine import Machine
from appliance.control.tasks import Happen, Own
from appliance.errors import SourceError
from appliance.models.store import Store

_log = log.get()


@dataclass(slots=True)
class _Download:
    task: asyncio.Task[None] | None = None
    progress: tuple[str, int, int] = ("starting", 0, 0)
    fingerprints: set[str] = field(default_factory=set)

    def cancel(self) -> None:
        if self.task is not None:
            self.task.cancel()


class Downloads:
    """Answers every `start` with the registry's `on_fetched`.

    `store` gives where a source is fetched to; None: it may not be fetched. `bring_in` is awaited after each, with
    whether something was fetched: it looks for the files of these engines and says whether they are there.
    """

    def __init__(
        self,
        store: Callable[[Source], Store | None],
        machine: Machine,
        own: Own,
        happen: Happen,
        bring_in: Callable[[Collection[str], bool], Awaitable[bool]],
    ) -> None:
        self._store, self._machine, self._own, self._happen, self._bring_in = store, machine, own, happen, bring_in
        self._running: dict[Source, _Download] = {}

    def start(self, source: Source, fingerprint: str) -> None:
        """Get the files of a source, for this engine."""
        if (running := self._running.get(source)) is not None:
            running.fingerprints.add(fingerprint)
            return
        download = self._running[source] = _Download(fingerprints={fingerprint})
        download.task = self._own(self._fetch(source, download), f"fetch {source.text}")

    def keep(self, wanted: Collection[Source]) -> None:
        """Give up those of other sources."""
        for source in self._running.keys() - wanted:
            self._running.pop(source).cancel()

    def progress(self, fingerprint: str) -> tuple[str, int, int] | None:
        """Phase, bytes done and bytes in all of the download an engine waits for."""
        found = (download for download in self._running.values() if fingerprint in download.fingerprints)
        download = next(found, None)
        return download.progress if download else None

    async def _fetch(self, source: Source, download: _Download) -> None:
        error: SourceError | None = None
        try:
            await self._bring(source, download)
        except SourceError as failed:
            error = failed
            _log.warning("model.fetch_failed", source=source.text, permanent=failed.permanent, reason=failed.message)
        except Exception:  # noqa: BLE001 - the task supervisor: a bug in one download must not end the others
            _log.exception("model.fetch_bug", source=source.text)
            error = SourceError(f"{source.text} could not be fetched", permanent=False)
        finally:
            # A cancelled download has been replaced, or is about to be.
            if self._running.get(source) is download:
                del self._running[source]
        for fingerprint in download.fingerprints:
            self._happen(registry.on_fetched, fingerprint, error)

    async def _bring(self, source: Source, download: _Download) -> None:
        """Fetch, have the deployment resolved again with the new files, and see that they are there."""

        def progress(phase: str, done: int, total: int) -> None:
            download.progress = (phase, done, total)

        remote, store = source.kind not in LOCAL, self._store(source)
        if remote and store is not None:
            _log.info("model.fetching", source=source.text)
            await fetch(source, store, self._machine.environ, progress)
            _log.info("model.fetched", source=source.text)
        if not await self._bring_in(download.fingerprints, remote):
            if remote and store is None:
                raise SourceError(
                    f"{source.text} is not on this machine, and storage.offline keeps the appliance from fetching it:"
                    f" run `appliance pull {source.text}`",
                    permanent=False,
                )
            raise SourceError(f"there is no model at {source.text}", permanent=False)
