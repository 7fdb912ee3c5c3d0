"""Which BLAS is preloaded into engine processes: the CPU wheel of MLX links a slow reference implementation.

Preloading OpenBLAS makes prefill about ten times and decode about twice as fast. It is done for engines only:
the server has no use for it, and a preload there would be inherited by every child.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from glob import glob
from importlib.metadata import PackageNotFoundError, version

from appliance.errors import LoadFailed

CANDIDATES = (
    "/usr/lib/{machine}-linux-gnu/openblas-pthread/libopenblas.so.0",  # Debian, Ubuntu
    "/usr/lib/{machine}-linux-gnu/openblas-openmp/libopenblas.so.0",
    "/usr/lib/{machine}-linux-gnu/openblas-serial/libopenblas.so.0",
    "/usr/lib64/libopenblasp.so.0",  # Fedora, RHEL: pthreads, then OpenMP
    "/usr/lib64/libopenblaso.so.0",
    "/usr/lib64/libopenblas_pthreads.so.0",  # openSUSE
    "/usr/lib64/libopenblas.so.0",
    "/usr/lib/libopenblas.so.0",  # Arch
    "/usr/lib/libopenblas.so",
    "/usr/local/lib/libopenblas.so.0",
    "/opt/OpenBLAS/lib/libopenblas.so.0",
)
ADVICE = "install OpenBLAS (Debian, Ubuntu: apt install libopenblas0-pthread) or set engine.blas: off"
MAX_THREADS = 16


@dataclass(frozen=True, slots=True)
class Preload:
    """The library to preload into engines, or None and, where that costs speed, the advice to log."""

    library: str | None
    advice: str | None = None


def choose(
    option: str,
    *,
    platform: str,
    machine: str,
    cpu_backend: bool,
    find: Callable[[str], Iterable[str]] = glob,
) -> Preload:
    """What `engine.blas` means on this machine. Raises LoadFailed when the option names a file that is not there."""
    if not platform.startswith("linux") or not cpu_backend or option == "off":
        return Preload(None)
    if option != "auto":
        if not any(find(option)):
            problem = f"engine.blas: no such file: {option}; use auto, off or the path of a library"
            raise LoadFailed(problem, permanent=True)
        return Preload(option)
    found = (path for pattern in CANDIDATES for path in find(pattern.format(machine=machine)))
    library = next(iter(found), None)
    return Preload(library, None if library else ADVICE)


def environment(preload: Preload, environ: Mapping[str, str], cores: int) -> dict[str, str]:
    """The variables an engine gets on top of `environ`; threads are set only where the user has not."""
    if preload.library is None:
        return {}
    already = environ.get("LD_PRELOAD")
    chosen = {"LD_PRELOAD": f"{preload.library}:{already}" if already else preload.library}
    if not {"OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"} & environ.keys():
        chosen["OPENBLAS_NUM_THREADS"] = str(min(cores, MAX_THREADS))
    return chosen


def mlx_is_cpu_only() -> bool:
    """Whether the installed MLX computes on the CPU: its backend wheel is `mlx-cpu` and there is no CUDA one."""
    return _installed("mlx-cpu") and not any(map(_installed, ("mlx-cuda", "mlx-cuda-12", "mlx-cuda-13")))


def _installed(distribution: str) -> bool:
    try:
        version(distribution)
    except PackageNotFoundError:
        return False
    return True
