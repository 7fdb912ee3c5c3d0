"""What is told of how much a process has worked."""

import os
import subprocess
import sys

from appliance.control.processor import worked


def test_it_grows_while_a_process_works():
    before = worked(os.getpid())
    while worked(os.getpid()) == before:
        sum(range(1000))
    assert worked(os.getpid()) > before


def test_a_process_that_is_gone_tells_nothing():
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    assert worked(child.pid) is None
