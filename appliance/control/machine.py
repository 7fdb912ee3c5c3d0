"""What this machine adds to an engine: its BLAS, its environment and the memory a model takes on it."""

import os
import platform
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from msgspec import structs

from appliance import log
from appliance.config.deployment import ModelSpec
from appliance.config.sources import parse
from appliance.control import blas, footprint
from appliance.control.demand import Demand, Place
from appliance.control.launch import Backend, Blank, Launch
from appliance.errors import LoadFailed
from appliance.models.store import Store
from appliance.vocab.spec import EngineSettings, EngineSpec

_log = log.get()

_MIB = 1 << 20
_KEEP_FREED = {"MALLOC_MMAP_THRESHOLD_": str(64 * _MIB), "MALLOC_TRIM_THRESHOLD_": str(256 * _MIB)}
"""For the C library (mallopt(3)). On a CPU, MLX frees its arrays and asks for others all the time; what went back to
the system meanwhile comes zeroed, page by page. So much of it stays at most.
"""


@dataclass(frozen=True, slots=True)
class Machine:
    """`cpu` says that MLX computes on the processor here, `cores` how many of them we may use."""

    environ: Mapping[str, str]
    platform: str
    machine: str
    cpu: bool
    cores: int
    log: tuple[str, str]

    @classmethod
    def of_this(cls, environ: Mapping[str, str], log: tuple[str, str]) -> "Machine":
        cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
        # As it is now: what libraries put into it later is for this process.
        return cls(dict(environ), sys.platform, platform.machine(), blas.mlx_is_cpu_only(), cores, log)

    def launch(self, demand: Demand, settings: EngineSettings) -> Launch:
        """All that is needed to start the engine. Raises LoadFailed where `engine.blas` names no file, or the
        files of the model or of its draft model are not here.
        """
        if demand.place.path is None:
            said = f"its files are not where they were: run `appliance pull {demand.first.source.text}`, then reload"
            raise LoadFailed(f"{demand.first.name}: {said}", permanent=False)
        spec, name = _with_draft(demand.spec, demand.place.store, demand.first.name), demand.first.name
        if spec.backend == "mlx":
            preload = self._preload(demand.blas)
            if preload.advice:
                _log.warning("engine.blas", model=name, library=None, advice=preload.advice)
            elif preload.library:
                _log.info("engine.blas", model=name, library=preload.library)
        return Launch(name, spec, settings, self.blank(spec.backend, demand.blas).environ, self.log)

    def blank(self, backend: Backend, option: str) -> Blank:
        """What an engine of this backend is started with under this `engine.blas`. Raises LoadFailed as `launch`."""
        if backend != "mlx":
            return Blank(backend, {**self.environ}, self.log)
        kept = _KEEP_FREED if self.cpu and self.platform == "linux" else {}
        extra = blas.environment(self._preload(option), self.environ, self.cores)
        return Blank(backend, {**kept, **self.environ, **extra}, self.log)

    def _preload(self, option: str) -> blas.Preload:
        return blas.choose(option, platform=self.platform, machine=self.machine, cpu_backend=self.cpu)

    def place(self, model: ModelSpec, store: Store) -> Place:
        """Where a model is, with its memory. Reads file headers."""
        path = store.locate(model.source)
        if model.source.kind == "fake":
            return Place(path, footprint.FAKE_BASE_BYTES)
        if path is None:
            return Place(path, footprint.ENGINE_BASE_BYTES)
        expected = footprint.expect(path, model.dtype, rows=model.concurrency, cpu=self.cpu)
        small = _draft(model.speculative.draft, store) if model.speculative else None
        beside = footprint.measure(small, model.dtype, cpu=self.cpu) if small else 0
        return Place(path, expected.loaded + beside, expected.beside, store=store)


def _with_draft(spec: EngineSpec, store: Store, name: str) -> EngineSpec:
    """With the directory of its draft model, where it has one."""
    guessing = spec.speculative
    if guessing is None or not guessing.draft:
        return spec
    if (path := _draft(guessing.draft, store)) is None:
        raise LoadFailed(
            f"{name}: its draft model is not on this machine: run `appliance pull {guessing.draft}`",
            permanent=False,
        )
    return structs.replace(spec, speculative=replace(guessing, draft=str(path)))


def _draft(source: str, store: Store) -> Path | None:
    """Where the files of a source written in full are, if they are here."""
    return store.locate(parse(source, "/", {})) if source else None
