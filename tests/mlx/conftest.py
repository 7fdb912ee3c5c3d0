"""The engine most tests ask: a small model made from random weights."""

import pytest

from appliance.engine.mlx.backend import MlxBackend
from tests.mlx.driving import backend
from tests.mlx.families import FAMILIES, make


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> MlxBackend:
    """A Llama with a plain cache."""
    return backend(make(tmp_path_factory.mktemp("llama"), FAMILIES["llama, plain cache"]))
