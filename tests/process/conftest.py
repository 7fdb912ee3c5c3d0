import pytest

from tests.process.site import Site


@pytest.fixture
def site(tmp_path):
    return Site(tmp_path)
