"""Tests with real engine processes run on the loop the server runs on."""

import pytest
import uvloop

from tests.process.site import Site


def pytest_asyncio_loop_factories(config, item):
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture
def site(tmp_path):
    return Site(tmp_path)
