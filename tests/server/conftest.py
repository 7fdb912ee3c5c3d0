"""One appliance for all tests that leave it as they found it, and one for each test that does not."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.server.up import Up, deployment


@pytest.fixture(scope="session")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """An appliance with the fake models of tests.server.up and bodies of up to 1 MiB."""
    aliases = "aliases: {fast: demo, 'gpt-4*': demo, quiet: {model: demo, hidden: true}, org/name: demo,"
    aliases += " strict: {model: demo, policy: {lock: {temperature: 0}, clamp: {max_tokens: [1, 3]}}},"
    aliases += " tuned: {model: values, sampling: {top_k: 7}, policy: {lock: {temperature: 0},"
    aliases += " clamp: {max_tokens: [1, 50]}}},"
    aliases += (
        " brief: {model: budget, sampling: {reasoning_budget: 32}, policy: {clamp: {reasoning_budget: [8, 64]}}},"
    )
    aliases += " still: {model: budget, policy: {lock: {reasoning_budget: 0}}},"
    aliases += " deaf: {model: budget, policy: {forbid: {reasoning_budget: strip, include_reasoning: reject}}},"
    aliases += " silent: {model: agent, policy: {lock: {include_reasoning: false}}},"
    aliases += " shy: {model: agent, sampling: {include_reasoning: false}},"
    aliases += " strict2: {model: demo, policy: {forbid: {max_tokens: reject}}},"
    aliases += " barred: {model: demo, policy: {forbid: {temperature: reject}}}}\n"
    file = deployment(tmp_path_factory.mktemp("up"), "max_body: 1MiB", more=aliases)
    with Up.start(file) as running:
        running.wait_for("ready")
        yield running
        running.signal(signal.SIGTERM)
        assert running.exit_code() == 0
    unexpected = ("http.error", "request.bug", "Traceback", "Exception", "never retrieved")
    assert not [line for line in running.errors if any(words in line for words in unexpected)]


@pytest.fixture
def running(file: Path) -> Iterator[Up]:
    """An appliance for one test alone, ready, on the deploy file of the test's module."""
    with Up.start(file) as running:
        running.wait_for("ready")
        yield running
