"""What this machine adds to an engine: its BLAS, its environment and the memory a model takes on it."""

import os
import platform
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from appliance import log
from appliance.config.deployment import ModelSpec
from appliance.control import blas, footprint
from appliance.control.demand import Demand, Place
from appliance.control.handle import Backend, Blank, Launch
from appliance.vocab.spec import EngineSettings

_log = log.get()


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
        """All that is needed to start the engine. Raises LoadFailed where `engine.blas` names no file."""
        spec, name = demand.spec, demand.first.name
        if spec.backend == "mlx":
            preload = self._preload(demand.blas)
            if preload.advice:
                _log.warning("engine.blas", model=name, library=None, advice=preload.advice)
            elif preload.library:
                _log.info("engine.blas", model=name, library=preload.library)
        return Launch(name, spec, settings, self.blank(spec.backend, demand.blas).environ, self.log)

    def blank(self, backend: Backend, option: str) -> Blank:
        """What an engine of this backend is started with under this `engine.blas`. Raises LoadFailed as `launch`."""
        extra = blas.environment(self._preload(option), self.environ, self.cores) if backend == "mlx" else {}
        return Blank(backend, {**self.environ, **extra}, self.log)

    def _preload(self, option: str) -> blas.Preload:
        return blas.choose(option, platform=self.platform, machine=self.machine, cpu_backend=self.cpu)

    def place(self, model: ModelSpec, path: Path | None) -> Place:
        """A model found at `path`, with its memory. Reads file headers."""
        if model.source.kind == "fake":
            return Place(path, footprint.FAKE_BASE_BYTES)
        if path is None:
            return Place(path, footprint.ENGINE_BASE_BYTES)
        expected = footprint.expect(path, model.dtype, rows=model.concurrency, cpu=self.cpu)
        return Place(path, expected.loaded, expected.activations)
