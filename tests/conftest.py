"""Checkpoints that tests share."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests import checkpoints

# No test fails because the machine is slow.
settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")


@pytest.fixture(scope="session")
def smollm2() -> Path:
    """The directory of the real SmolLM2-135M-Instruct."""
    return checkpoints.smollm2()


@pytest.fixture(scope="session")
def tiny_llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny random llama under the real SmolLM2 tokenizer."""
    return checkpoints.tiny_llama(tmp_path_factory.mktemp("tiny-llama"))


@pytest.fixture(scope="session")
def tiny_vocab_llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny random llama of 300 tokens, made without any download."""
    return checkpoints.tiny_vocab_llama(tmp_path_factory.mktemp("tiny-vocab-llama"))
