"""What this machine adds to the environment of its engines."""

import pytest

from appliance.control.launch import Backend
from appliance.control.machine import Machine


@pytest.mark.parametrize(
    ("environ", "platform", "cpu", "backend", "kept"),
    [
        pytest.param({}, "linux", True, "mlx", 256 << 20, id="freed memory is kept for the next arrays"),
        pytest.param(
            {"MALLOC_TRIM_THRESHOLD_": "1"}, "linux", True, "mlx", 1, id="unless somebody has said how much"
        ),
        pytest.param({}, "linux", False, "mlx", None, id="not beside a GPU"),
        pytest.param({}, "darwin", True, "mlx", None, id="not with another C library"),
        pytest.param({}, "linux", True, "fake", None, id="not without arrays"),
    ],
)
def test_engines_keep_the_memory_that_they_free(
    environ: dict[str, str], platform: str, cpu: bool, backend: Backend, kept: int | None
) -> None:
    machine = Machine(environ, platform, "x86_64", cpu, 2, ("console", "info"))
    found = machine.blank(backend, "off").environ
    assert found.get("MALLOC_TRIM_THRESHOLD_") == (None if kept is None else str(kept))
    assert environ.items() <= found.items()
