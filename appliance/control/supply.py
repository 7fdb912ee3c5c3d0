"""How the files of a deployment's models get here, are found, and make room for others."""

import asyncio
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from appliance import log
from appliance.config.deployment import Deployment, ModelSpec, Source
from appliance.control import demand
from appliance.control.demand import Demand
from appliance.control.downloads import Downloads
from appliance.control.fetch import FROM_AFAR
from appliance.control.followers import Followers
from appliance.control.machine import Machine
from appliance.control.sizes import Sizes
from appliance.control.survey import survey
from appliance.control.tasks import Happen, Own
from appliance.models import fetched
from appliance.models.store import Store

_log = log.get()


@dataclass(frozen=True, slots=True)
class Prepared:
    """A deployment with what had to be looked up on disk for it."""

    deployment: Deployment
    demands: Mapping[str, Demand]


class Supply:
    """Serves the deployment it was told last to `follow`; `demands` gives what has an engine or may get one.

    `commit` is called when files of it were looked for again; after a download `followers` are told before that.
    """

    def __init__(
        self,
        store: Store,
        machine: Machine,
        sizes: Sizes,
        own: Own,
        happen: Happen,
        *,
        demands: Callable[[], Mapping[str, Demand]],
        commit: Callable[[Prepared], None],
        followers: Followers,
    ) -> None:
        self._store, self._machine, self._sizes, self._own = store, machine, sizes, own
        self._demands, self._commit = demands, commit
        self._followers = followers
        self._deployment: Deployment | None = None
        self._downloads = Downloads(self._to_fetch_to, machine, own, happen, self._bring_in)
        self.progress = self._downloads.progress

    async def prepare(self, deployment: Deployment) -> Prepared:
        """Look up, off the loop, where the files of its models are and what they will take."""
        places = await asyncio.to_thread(survey, deployment, self._store_of(deployment), self._machine, self._sizes)
        return Prepared(deployment, demand.demands(deployment, places))

    def follow(self, deployment: Deployment) -> None:
        """Have the files of this deployment; downloads of others are given up."""
        self._deployment = deployment
        self._downloads.keep({model.source for model in deployment.models.values()})
        if (limit := deployment.storage.max_bytes) is not None:
            self._own(self._trim(deployment, limit), "trim")

    def fetch(self, model: ModelSpec, fingerprint: str) -> None:
        """Get the files of an engine, which the registry is told of in the end."""
        self._downloads.start(model.source, fingerprint)

    def use(self, model: ModelSpec) -> None:
        """Note that the files of this model are used: those that are not make room first."""
        self._own(self._touch(model), "touch")

    def close(self) -> None:
        """Give up all downloads."""
        self._downloads.keep(())

    def _store_of(self, deployment: Deployment) -> Store:
        return self._store.within(deployment.storage)

    def _to_fetch_to(self, source: Source) -> Store | None:
        """None where it may not be fetched."""
        deployment = self._deployment
        if deployment is None or (deployment.storage.offline and source.kind in FROM_AFAR):
            return None
        return self._store_of(deployment)

    async def _touch(self, model: ModelSpec) -> None:
        if (deployment := self._deployment) is None:
            return
        for source in demand.sources(model):
            await asyncio.to_thread(fetched.touch, source, self._store_of(deployment))

    async def _trim(self, deployment: Deployment, limit: int) -> None:
        """Remove fetched models nobody names where they take more than so many bytes; none that has an engine."""
        needed = {source for model in deployment.models.values() for source in demand.sources(model)}
        needed |= {source for each in self._demands().values() for source in demand.sources(each.first)}
        for model in await asyncio.to_thread(fetched.trim, self._store_of(deployment), limit, needed):
            _log.info("model.removed", source=model.name, bytes=model.bytes, reason="storage.max")
            self._followers.removed(model.name, model.bytes)

    async def _bring_in(self, fingerprints: Collection[str], fetched: bool) -> bool:
        """Look for the files of these engines; whether all that are still wanted have theirs."""
        if fetched:
            await self._followers.fetched()
        await self._look_again()
        demands = self._demands()
        return all(demands[f].place.path is not None for f in fingerprints if f in demands)

    async def _look_again(self) -> None:
        """Look for the files of the present deployment, whichever that is when the answer is there."""
        while (deployment := self._deployment) is not None:
            prepared = await self.prepare(deployment)
            if deployment is self._deployment:
                self._commit(prepared)
                return
