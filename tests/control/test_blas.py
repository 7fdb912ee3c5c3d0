"""Which library is preloaded into engines, and with which variables."""

import pytest

from appliance.control.blas import ADVICE, MAX_THREADS, Preload, choose, environment
from appliance.errors import LoadFailed

DEBIAN = "/usr/lib/x86_64-linux-gnu/openblas-pthread/libopenblas.so.0"
FEDORA = "/usr/lib64/libopenblasp.so.0"


@pytest.mark.parametrize(
    "option, installed, machine, expected",
    [
        pytest.param("auto", [DEBIAN], {}, Preload(DEBIAN), id="found where Debian puts it"),
        pytest.param("auto", [FEDORA], {}, Preload(FEDORA), id="found where Fedora puts it"),
        pytest.param("auto", [], {}, Preload(None, ADVICE), id="none found: advice"),
        pytest.param("auto", [DEBIAN], {"machine": "aarch64"}, Preload(None, ADVICE), id="another architecture's"),
        pytest.param("off", [DEBIAN], {}, Preload(None), id="off"),
        pytest.param("/my/blas.so", ["/my/blas.so"], {}, Preload("/my/blas.so"), id="a path"),
        pytest.param("auto", [DEBIAN], {"platform": "darwin"}, Preload(None), id="never on macOS"),
        pytest.param("auto", [DEBIAN], {"cpu_backend": False}, Preload(None), id="never beside CUDA"),
    ],
)
def test_what_the_option_means(option, installed, machine, expected):
    here = {"platform": "linux", "machine": "x86_64", "cpu_backend": True, **machine}
    found = choose(option, **here, find=lambda pattern: [path for path in installed if path == pattern])
    assert found == expected


def test_a_path_that_is_not_there_is_a_permanent_failure_that_names_it():
    with pytest.raises(LoadFailed, match=r"engine\.blas: no such file: /my/blas\.so") as caught:
        choose("/my/blas.so", platform="linux", machine="x86_64", cpu_backend=True, find=lambda pattern: [])
    assert caught.value.permanent


@pytest.mark.parametrize(
    "preload, environ, cores, expected",
    [
        pytest.param(Preload(None), {}, 4, {}, id="nothing to preload"),
        pytest.param(
            Preload("b.so"), {}, 4, {"LD_PRELOAD": "b.so", "OPENBLAS_NUM_THREADS": "4"}, id="threads follow the cores"
        ),
        pytest.param(
            Preload("b.so"),
            {},
            64,
            {"LD_PRELOAD": "b.so", "OPENBLAS_NUM_THREADS": str(MAX_THREADS)},
            id="up to a point",
        ),
        pytest.param(
            Preload("b.so"),
            {"LD_PRELOAD": "mine.so", "OMP_NUM_THREADS": "2"},
            4,
            {"LD_PRELOAD": "b.so:mine.so"},
            id="what the user has set stays",
        ),
    ],
)
def test_the_variables_an_engine_gets(preload, environ, cores, expected):
    assert environment(preload, environ, cores) == expected
