"""What is measured of this machine."""

import os
import subprocess
import sys

from appliance.control import memory

MIB = 2**20
CODE = "import sys; block = bytearray(64 << 20); print('here', flush=True); sys.stdin.read()"


def test_a_process_is_measured_with_what_it_really_takes():
    child = subprocess.Popen([sys.executable, "-c", CODE], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with child:
        child.stdout.readline()
        measured = memory.measure([child.pid])
        child.stdin.close()
    assert 64 * MIB <= measured.processes[child.pid] < 128 * MIB


def test_a_process_that_is_gone_is_left_out():
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    assert memory.measure([child.pid]).processes == {}


def test_the_capacity_is_what_processes_have_and_what_is_free():
    measured = memory.measure([os.getpid()])
    if sys.platform == "linux":
        assert measured.capacity == measured.available + measured.processes[os.getpid()]
    else:
        assert measured.capacity is None
